"""Constraint text of ISL's notation as SMT-LIB 2, so that a second solver can be asked the same.

It reads what `exogpu.ir.render` writes, and the comparisons, sums and connectives that stand
around it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_TOKEN: Final = re.compile(r"\s*(?:(\d+)|([^\W\d]\w*)|(<=|>=|!=|[-+*/()<>=]))")

_POWER: Final = {
    "or": 1, "and": 2,
    "=": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "+": 5, "-": 5, "*": 6, "/": 6, "mod": 6,
}  # fmt: skip
"""The strength by which a binary operator binds; `not` is 3, a minus sign 7."""

_COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")


class UnreadError(Exception):
    """The text is none that this reader knows."""


@lru_cache(maxsize=4096)
def smt_of(text: str) -> str:
    """The SMT-LIB formula of a constraint.  Raises UnreadError."""
    reader = _Reader(text)
    found = reader.binary(0)
    if reader.tokens:
        raise UnreadError(text)
    return found


class _Reader:
    """The rest of a text, as tokens; the next one is the last."""

    def __init__(self, text: str) -> None:
        found: list[str] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise UnreadError(text)
            found.append(match.group().strip())
            at = match.end()
        self.tokens = found[::-1]

    def next_token(self) -> str:
        if not self.tokens:
            raise UnreadError("the text ends early")
        return self.tokens.pop()

    def binary(self, least: int) -> str:
        """An expression whose operators bind at least so tightly."""
        left = self.read_single()
        known = ""  # of a chain `a <= b < c`, what it says so far
        while self.tokens and _POWER.get(self.tokens[-1], -1) >= max(least, 1):
            operator = self.next_token()
            right = self.binary(_POWER[operator] + 1)
            if operator in _COMPARISONS:
                told = _apply_operator(operator, left, right)
                known, left = (f"(and {known} {told})" if known else told), right
                if not (self.tokens and self.tokens[-1] in _COMPARISONS):
                    left, known = known, ""
            else:
                left = _apply_operator(operator, left, right)
        return left

    def read_single(self) -> str:
        match self.next_token():
            case "(":
                found = self.binary(0)
                self._close()
                return found
            case "-":
                return f"(- {self.binary(7)})"
            case "not":
                return f"(not {self.binary(3)})"
            case "true" | "false" as word:
                return word
            case "floor":
                if self.next_token() != "(":
                    raise UnreadError("floor takes a quotient in parentheses")
                found = self.binary(0)
                self._close()
                if not found.startswith("(div "):
                    raise UnreadError("floor takes a quotient")
                return found
            case word if word.isdigit():
                return word
            case word if (word[0].isalpha() or word[0] == "_") and word not in _POWER:
                return word if word.isascii() else f"|{word}|"
            case word:
                raise UnreadError(word)

    def _close(self) -> None:
        if self.next_token() != ")":
            raise UnreadError("a parenthesis is not closed")


def _apply_operator(operator: str, left: str, right: str) -> str:
    match operator:
        case "!=":
            return f"(not (= {left} {right}))"
        case "/":
            return f"(div {left} {right})"
        case _:
            return f"({operator} {left} {right})"
