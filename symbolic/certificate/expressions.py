"""The expressions in a program's JSON, which are ISL's notation, read by a closed grammar.

number  := (N) | name | (number + number) | (number - number) | (N * number)
         | floor((number) / N) | ((number) mod N)
formula := (0 = 0) | (0 = 1) | (number = number) and so on | (formula and formula)
         | (formula or formula) | (not formula)
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, Literal

_TOKEN: Final = re.compile(r" ?([()]|!=|<=|>=|[=<>+*/]|-?\d+|-|\w+)")

_WORDS: Final = frozenset({"+", "-", "*", "/", "=", "!=", "<", "<=", ">", ">=", "and", "or", "not"})

_BRACKETS: Final = {
    # In brackets stands a number in full, N; an expression, E; a formula, B; ...
    "N": "E",
    "E": "(E)",
    "E + E": "E",
    "E - E": "E",
    "N * E": "E",
    "(E) mod N": "E",
    "(E) / N": "(E)/N",
    "N = N": "B",
    "E = E": "B",
    "E != E": "B",
    "E < E": "B",
    "E <= E": "B",
    "E > E": "B",
    "E >= E": "B",
    "B and B": "B",
    "B or B": "B",
    "not B": "B",
}
"""What brackets make of what stands in them."""

_THREADS: Final = re.compile(r"\{ \[([^\[\]]*)\] -> \[(\w+)\] : ([^\[\]{}]*) \}")
_LEXICON: Final = re.compile(r"(?:[ ()+*,:=]|<=|<|>=|-?\d+|-|\w+)*")


def flaw_in(text: str, sort: Literal["number", "formula"], names: Collection[str]) -> str | None:
    """Why a text is no expression of the names; None if it is one."""
    stack: list[list[str]] = [[]]
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return f"{text[at : at + 10]!r} is no part of an expression"
        at, token = found.end(), found[1]
        if token == "(":
            stack.append([])
        elif token == ")":
            inner = " ".join(stack.pop())
            made = _BRACKETS.get(inner)
            if not stack or made is None:
                return "its brackets hold no expression"
            if stack[-1][-1:] == ["floor"]:
                stack[-1].pop()
                made = "E" if made == "(E)/N" else ""
            stack[-1].append(made)
        elif token[-1].isdigit() and token.lstrip("-").isdigit():
            if token.startswith("-") and stack[-1]:
                return f"{token} is no divisor"
            if stack[-1][-1:] in (["mod"], ["/"]) and int(token) < 1:
                return f"{token} is no divisor"
            stack[-1].append("N")
        elif token in _WORDS or token in ("mod", "floor"):
            stack[-1].append(token)
        elif token in names:
            stack[-1].append("E")
        else:
            return f"{token} is no variable here"
    if stack != [["E" if sort == "number" else "B"]]:
        return f"it is no {sort}"
    return None


def flaw_in_threads(text: str, names: Collection[str]) -> str | None:
    """Why a text is no map from iterators to threads; None if it looks like one."""
    found = _THREADS.fullmatch(text)
    if found is None:
        return "it is no map from iterators to threads"
    domain = found[1].split(", ") if found[1] else []
    if strange := next((name for name in domain if name not in names), None):
        return f"{strange} is no iterator here"
    if not _LEXICON.fullmatch(found[3]):
        return "it is no map from iterators to threads"
    for word in re.findall(r"[^\W\d]\w*", found[3]):
        known = word in domain or word in ("exists", "and", "floor", "mod", "or", "not", found[2])
        if not known and not re.fullmatch(r"j\d+", word):
            return f"{word} is no iterator here"
    return None
