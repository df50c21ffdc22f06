"""The expressions in a certificate's JSON, which are ISL's notation, read by a closed grammar.

number  := (N) | name | (number + number) | (number - number) | (N * number)
         | floor((number) / N) | ((number) mod N)
formula := (0 = 0) | (0 = 1) | (number = number) and so on | (formula and formula)
         | (formula or formula) | (not formula)
threads := { [name, ...] -> [t] : exists j0, ... : t = N * (number + j0) + ... and 0 <= j0 < N ... }
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, TypeAlias

from exogpu.analysis.threadmap import ThreadAxis, ThreadMap
from exogpu.ir.nodes import (
    Add,
    And,
    BExpr,
    CExpr,
    Compare,
    CVar,
    FloorDiv,
    Int,
    Mod,
    Mul,
    Not,
    Or,
    Sub,
    Truth,
)
from exogpu.symbolic.certificate.strict_json import MalformedError

Names: TypeAlias = Callable[[str], CVar | None]
"""What a name stands for; None where it is no variable."""

_TOKEN: Final = re.compile(r" ?([()]|!=|<=|>=|[=<>+*/]|-?\d+|-|\w+(?:\.\w+)?)")

_WORDS: Final = frozenset({"+", "-", "*", "/", "=", "!=", "<", "<=", ">", ">=", "and", "or", "not"})

_LONGEST: Final = 18
"""Digits of a number."""

_DEEPEST: Final = 150
"""Brackets within each other."""


def _truth(one: int, other: int) -> Truth:
    if one != 0 or other not in (0, 1):
        raise MalformedError("two numbers are compared, which nobody writes")
    return Truth(one == other)


_Item: TypeAlias = tuple[str, Any]
"""In brackets stands a number in full, N; an expression, E; a formula, B; or a word itself."""

_BRACKETS: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "N": ("E", lambda n: Int(n)),
    "E": ("(E)", lambda e: e),
    "E + E": ("E", lambda a, b: Add(a, b)),
    "E - E": ("E", lambda a, b: Sub(a, b)),
    "N * E": ("E", lambda n, e: Mul(n, e)),
    "(E) mod N": ("E", lambda e, n: Mod(e, n)),
    "(E) / N": ("(E)/N", lambda e, n: FloorDiv(e, n)),
    "N = N": ("B", _truth),
    "E = E": ("B", lambda a, b: Compare("==", a, b)),
    "E != E": ("B", lambda a, b: Compare("!=", a, b)),
    "E < E": ("B", lambda a, b: Compare("<", a, b)),
    "E <= E": ("B", lambda a, b: Compare("<=", a, b)),
    "E > E": ("B", lambda a, b: Compare(">", a, b)),
    "E >= E": ("B", lambda a, b: Compare(">=", a, b)),
    "B and B": ("B", lambda a, b: And(a, b)),
    "B or B": ("B", lambda a, b: Or(a, b)),
    "not B": ("B", lambda b: Not(b)),
}
"""What brackets make of what stands in them."""


def number(text: str, names: Names) -> CExpr:
    """The expression that a text is.  Raises MalformedError."""
    sort, value = _parsed(text, names)
    if sort != "E":
        raise MalformedError("it is no number")
    found: CExpr = value
    return found


def formula(text: str, names: Names) -> BExpr:
    """The condition that a text is.  Raises MalformedError."""
    sort, value = _parsed(text, names)
    if sort != "B":
        raise MalformedError("it is no formula")
    found: BExpr = value
    return found


def _parsed(text: str, names: Names) -> _Item:
    stack: list[list[_Item]] = [[]]
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise MalformedError(f"{text[at : at + 10]!r} is no part of an expression")
        at, token = found.end(), found[1]
        if token == "(":
            if len(stack) > _DEEPEST:
                raise MalformedError(f"more than {_DEEPEST} brackets within each other")
            stack.append([])
        elif token == ")":
            _close(stack)
        else:
            stack[-1].append(_item(token, stack[-1], names))
    if len(stack) != 1 or len(stack[0]) != 1:
        return "", None
    return stack[0][0]


def _close(stack: list[list[_Item]]) -> None:
    inner = stack.pop()
    made = _BRACKETS.get(" ".join(sort for sort, _ in inner))
    if not stack or made is None:
        raise MalformedError("its brackets hold no expression")
    sort, build = made
    value = build(*(value for kind, value in inner if kind not in _WORDS and kind != "mod"))
    if stack[-1][-1:] == [("floor", None)]:
        stack[-1].pop()
        sort = {"(E)/N": "E"}.get(sort, "")
    stack[-1].append((sort, value))


def _item(token: str, before: list[_Item], names: Names) -> _Item:
    if token.lstrip("-").isdigit() and token[-1].isdigit():
        divides = before[-1:] in ([("mod", None)], [("/", None)])
        if (token.startswith("-") and before) or (divides and token.strip("0") == ""):
            raise MalformedError(f"{token} is no divisor")
        if len(token) > _LONGEST:
            raise MalformedError("it has too long a number")
        return "N", int(token)
    if token in _WORDS or token in ("mod", "floor"):
        return token, None
    variable = names(token)
    if variable is None:
        raise MalformedError(f"{token} is no variable here")
    return "E", variable


# --- threads ------------------------------------------------------------------------------------

_THREADS: Final = re.compile(
    r"\{ \[[^\[\]]*\] -> \[t\] : (?:exists ([^:]*) : )?"
    # No number has an `and`: there is one place where bounds can begin.
    r"t = ((?:(?! and ).)*)((?: and 0 <= j\d+ < \d+)*) \}"
)
_TERM: Final = re.compile(r"(\d+) \* \((.*) \+ j(\d+)\)")
_BOUND: Final = re.compile(r" and 0 <= j(\d+) < (\d+)")


def threads(text: str, names: Names) -> ThreadMap:
    """The thread map that a text is, but for the list of iterators before the arrow.

    Raises MalformedError.
    """
    found = _THREADS.fullmatch(text)
    if found is None:
        raise MalformedError("it is no map from iterators to threads")
    bounds = _BOUND.findall(found[3])
    if not bounds:
        if found[1] is not None or found[2] != "0":
            raise MalformedError("it is no map from iterators to threads")
        return ThreadMap(())
    # A term ends with the position on its axis, which stands nowhere else.
    parts = re.split(r"(?<= \+ j)(\d+)\) \+ ", found[2])
    terms = [f"{a}{b})" for a, b in zip(parts[:-1:2], parts[1::2], strict=True)] + [parts[-1]]
    if len(terms) != len(bounds):
        raise MalformedError("it has other axes than bounds")
    axes: list[ThreadAxis] = []
    for at, (term, (bounded, extent)) in enumerate(zip(terms, bounds, strict=True)):
        shape = _TERM.fullmatch(term)
        if shape is None or not shape[3] == bounded == str(at):
            raise MalformedError("it is no map from iterators to threads")
        if max(len(shape[1]), len(extent)) > _LONGEST or not int(shape[1]) or not int(extent):
            raise MalformedError("an axis has a pitch and an extent")
        axes.append(ThreadAxis(int(shape[1]), number(shape[2], names), int(extent)))
    if any(one.pitch < other.pitch for one, other in pairwise(axes)):
        raise MalformedError("its axes stand in another order")
    return ThreadMap(tuple(axes))
