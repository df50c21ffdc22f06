"""Expressions of the manifest: integers, names of sizes, and `[operator, operand...]`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from exogpu.codegen.runtime.errors import LaunchError

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

_OPERATORS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
}


def evaluate(expr: Json, sizes: Mapping[str, int]) -> int:
    """The value of an expression; of a condition, a truth."""
    match expr:
        case bool() | int():
            return expr
        case str():
            return sizes[expr]
        case ["not", term]:
            return not evaluate(term, sizes)
        case [str(symbol), left, right] if symbol in _OPERATORS:
            return _OPERATORS[symbol](evaluate(left, sizes), evaluate(right, sizes))
        case _:
            raise LaunchError(f"the manifest has the expression {expr!r}")


_BINDS: Final = (
    ("or",),
    ("and",),
    ("not",),
    ("==", "!=", "<", "<=", ">", ">="),
    "+-",
    ("*", "//", "%"),
)
"""Operators as in Python, the loosest first."""


def shown(expr: Json) -> str:
    """The expression as in Python."""
    return _shown(expr)[0]


def _shown(expr: Json) -> tuple[str, int]:
    """The text, and how tightly its operator binds."""
    match expr:
        case ["not", term]:
            return f"not {_inner(term, 2)}", 2
        case ["+", left, int(right)] if right < 0:
            return _shown(["-", left, -right])
        case [str(symbol), left, right]:
            binds = next(at for at, symbols in enumerate(_BINDS) if symbol in symbols)
            return f"{_inner(left, binds)} {symbol} {_inner(right, binds + 1)}", binds
        case _:
            return str(expr), len(_BINDS)


def _inner(expr: Json, least: int) -> str:
    text, binds = _shown(expr)
    return text if binds >= least else f"({text})"


def names(expr: Json) -> Iterator[str]:
    """The sizes that an expression reads."""
    match expr:
        case str():
            yield expr
        case [_, *operands]:
            for operand in operands:
                yield from names(operand)
        case _:
            pass
