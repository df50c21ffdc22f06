"""The scripts that solvers get: a small part of SMT-LIB 2, read by one closed grammar.

    script  := (set-logic QF_LIA) command* (check-sat)
    command := (declare-const name sort) | (define-fun name () sort term) | (assert term)
    sort    := Int | Bool
    term    := number | true | false | name | (operator term+)

Comments are skipped.  There are no options, no quoted names, no strings and no other commands, so
that a script can do nothing but ask, and every solver is asked the same: what it gets is printed
anew from what was read, under names of our own.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, TypeAlias

LOGIC: Final = "QF_LIA"

DEPTH: Final = 500
"""Brackets within brackets: solvers, which are recursive, stand many more."""

LONGEST: Final = 1 << 20
"""Characters of a script; ours have some thousands."""

WIDTH: Final = 96
"""The width of a line of comment."""

# fmt: off
RESERVED: Final = frozenset({
    "!", "BINARY", "Bool", "DECIMAL", "HEXADECIMAL", "Int", "NUMERAL", "STRING", "_", "abs", "and",
    "as", "assert", "distinct", "div", "exists", "false", "forall", "ite", "let", "match", "mod",
    "not", "or", "par", "select", "store", "true", "xor",
})
# fmt: on
"""Words of SMT-LIB that may also be names in Python."""

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")

Sort: TypeAlias = Literal["Int", "Bool"]

_SPACE: Final = re.compile(r"(?:[ \n]+|;[^\n]*)*")
_TOKEN: Final = re.compile(
    r"[()]|(?:set-logic|declare-const|define-fun|check-sat|[A-Za-z_][A-Za-z0-9_.]*"
    r"|0|[1-9][0-9]*|=>|<=|>=|[=<>+*-])(?=[ \n();]|\Z)"
)
_STRANGE: Final = re.compile(r"[^\n -~]")

_INTS: Final = ("Int", "Int")
_OPERATORS: Final[dict[str, tuple[Sequence[Sort], Sort]]] = {
    "not": (("Bool",), "Bool"),
    "=>": (("Bool", "Bool"), "Bool"),
    "<": (_INTS, "Bool"),
    "<=": (_INTS, "Bool"),
    ">": (_INTS, "Bool"),
    ">=": (_INTS, "Bool"),
    "+": (_INTS, "Int"),
    "-": (_INTS, "Int"),
    "*": (_INTS, "Int"),
    "div": (_INTS, "Int"),
    "mod": (_INTS, "Int"),
}
"""The sorts of the arguments, and that of the term; besides these `and`, `or`, `=`, `ite`, and
`-` before a number."""

_NUMBERS: Final = {"*": 0, "div": 1, "mod": 1}
"""The argument that is a number in full, so that all is linear."""


class ScriptError(ValueError):
    """A script that the grammar does not have: the line, and why."""


@dataclass(frozen=True, slots=True)
class _Term:
    sort: Sort
    text: str
    number: int | None = None
    """The value of a number, or of its negation."""


_Item: TypeAlias = "str | _Term | list[_Item]"


def heading(claim: str) -> str:
    """Returns the heading of a script: the claim in a comment, the answer expected, the logic."""
    comment = "".join(f"; {line}\n" for line in wrapped(claim))
    return f"{comment}; Expected: unsat.\n(set-logic {LOGIC})\n"


def wrapped(text: str) -> list[str]:
    """The text as lines of a comment."""
    text, width = ascii_text(text), WIDTH - 2
    words = text.split(" ")
    if any(not word or len(word) > width or word.split() != [word] for word in words):
        return textwrap.wrap(text, width, break_on_hyphens=False)
    # The same in a tenth of the time.
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def ascii_text(text: str) -> str:
    """The text with escapes for other characters, as comments have it."""
    return text.encode("ascii", "backslashreplace").decode()


def plain(script: str) -> str:
    """The script as solvers get it: without comments, with names of our own.

    Raises ScriptError for what the grammar does not have.
    """
    if len(script) > LONGEST:
        raise ScriptError(f"it has more than {LONGEST} characters")
    if found := _STRANGE.search(script):
        _fail(script, found.start(), f"the character {found[0]!r}")
    return _Reader(script).read_term()


def _fail(script: str, at: int, why: str) -> NoReturn:
    raise ScriptError(f"line {script.count(chr(10), 0, at) + 1}: {why}")


class _Reader:
    """Reads a script from the left to the right, without recursion."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.at = 0
        self.names: dict[str, _Term] = {}
        self.lines: list[str] = []
        self.ended = False

    def read_term(self) -> str:
        stack: list[list[_Item]] = []
        while token := self._token():
            if self.ended:
                self.fail("something stands after check-sat")
            if token == "(":
                if len(stack) == DEPTH:
                    self.fail(f"more than {DEPTH} brackets within each other")
                stack.append([])
            elif not stack:
                self.fail(f"{token} outside of brackets")
            elif token != ")":
                stack[-1].append(token)
            elif len(stack) == 1:
                self._command(stack.pop())
            else:
                frame = stack.pop()
                stack[-1].append(self._term(frame) if frame else frame)
        if stack:
            self.fail("a bracket is not closed")
        if not self.ended:
            self.fail("it has no check-sat")
        return "\n".join([*self.lines, ""])

    def _token(self) -> str:
        """The next bracket or word; empty at the end."""
        space = _SPACE.match(self.script, self.at)
        assert space is not None
        self.at = space.end()
        if self.at == len(self.script):
            return ""
        found = _TOKEN.match(self.script, self.at)
        if found is None:
            rest = self.script[self.at : self.at + 20].split("\n")[0]
            self.fail(f"what begins with {rest!r} is no part of such a script")
        self.at = found.end()
        return found[0]

    def fail(self, why: str) -> NoReturn:
        _fail(self.script, self.at, why)

    # --- commands -------------------------------------------------------------------------

    def _command(self, items: Sequence[_Item]) -> None:
        match items:
            case ["set-logic", str(logic)]:
                if self.lines:
                    self.fail("set-logic is not the first command")
                if logic != LOGIC:
                    self.fail(f"the logic is {logic}, not {LOGIC}")
                self.lines.append(f"(set-logic {LOGIC})")
                return
            case _ if not self.lines:
                self.fail("the first command is not set-logic")
            case ["declare-const", str(name), ("Int" | "Bool") as sort]:
                self.lines.append(f"(declare-const {self._declare(name, sort).text} {sort})")
            case ["define-fun", str(name), [], ("Int" | "Bool") as sort, value]:
                term = self._value(value)
                if term.sort != sort:
                    self.fail(f"{name} is {sort}, and its value is {term.sort}")
                new = self._declare(name, sort).text
                self.lines.append(f"(define-fun {new} () {sort} {term.text})")
            case ["assert", value]:
                term = self._value(value)
                if term.sort != "Bool":
                    self.fail("what is asserted is no formula")
                self.lines.append(f"(assert {term.text})")
            case ["check-sat"]:
                self.lines.append("(check-sat)")
                self.ended = True
            case [str(word), *_]:
                self.fail(f"no command of such a script: {word}")
            case _:
                self.fail("no command")

    def _declare(self, name: str, sort: Sort) -> _Term:
        if name in RESERVED or not NAME.fullmatch(name):
            self.fail(f"{name} can be no name")
        if name in self.names:
            self.fail(f"{name} is declared twice")
        self.names[name] = _Term(sort, f"x{len(self.names)}")
        return self.names[name]

    # --- terms ----------------------------------------------------------------------------

    def _value(self, item: _Item) -> _Term:
        """A term, or a word that is one."""
        if isinstance(item, _Term):
            return item
        if isinstance(item, list):
            self.fail("empty brackets")
        assert isinstance(item, str)
        if item[0].isdigit():
            return _Term("Int", item, int(item) if len(item) < 100 else None)
        if item in ("true", "false"):
            return _Term("Bool", item)
        if item not in self.names:
            self.fail(f"{item} is not declared")
        return self.names[item]

    def _term(self, items: list[_Item]) -> _Term:
        operator, values = items[0], [self._value(item) for item in items[1:]]
        if not isinstance(operator, str):
            self.fail("a bracket stands where an operator does")
        if operator == "-" and len(values) == 1 and (number := values[0].number):
            return _Term("Int", f"(- {values[0].text})", -number)
        expected, result = self._sorts(operator, values)
        for value, sort in zip(values, expected, strict=True):
            if value.sort != sort:
                self.fail(f"an argument of {operator} is {value.sort}, not {sort}")
        if operator in _NUMBERS:
            number = values[_NUMBERS[operator]].number
            if number is None or (operator != "*" and number < 1):
                self.fail(f"{operator} takes a number, and div and mod a positive one")
        return _Term(result, f"({operator} {' '.join(value.text for value in values)})")

    def _sorts(self, operator: str, values: Sequence[_Term]) -> tuple[Sequence[Sort], Sort]:
        """The sorts of an operator's arguments, and that of its term."""
        if operator in ("and", "or") and len(values) > 1:
            return ["Bool"] * len(values), "Bool"
        if operator == "=" and len(values) == 2:
            return [values[0].sort] * 2, "Bool"
        if operator == "ite" and len(values) == 3:
            return ["Bool", values[1].sort, values[1].sort], values[1].sort
        if len(values) != len(_OPERATORS.get(operator, ((), ""))[0]) or not values:
            self.fail(f"{operator} is no operator, or takes other arguments")
        return _OPERATORS[operator]
