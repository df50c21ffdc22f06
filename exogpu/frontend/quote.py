"""Quoting a procedure in messages: expressions and windows as the user wrote them."""

from __future__ import annotations

from typing import assert_never

from exogpu.errors import Span
from exogpu.ir.nodes import (
    Access,
    Add,
    And,
    BExpr,
    CExpr,
    Compare,
    Coord,
    CVar,
    FloorDiv,
    Int,
    Interval,
    Mod,
    Mul,
    Not,
    Or,
    Point,
    Sub,
    Truth,
)

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def ordinal(at: int) -> str:
    """`first` for 0, and so on."""
    return _ORDINALS[at] if at < len(_ORDINALS) else f"{at + 1}th"


def source_text(span: Span) -> str:
    """The text of a range of one line; empty where it is not known."""
    if not span.text or span.line != span.end_line:
        return ""
    return span.text[span.column - 1 : span.end_column - 1]


def quote_access(access: Access) -> str:
    """`A[64 * i + m, k]`, as it stands in the source where that is known."""
    written = source_text(access.span)
    if written:
        return written
    if not access.coords:
        return access.name.name
    return f"{access.name.name}[{', '.join(_coord(c) for c in access.coords)}]"


def quote(expr: CExpr | BExpr) -> str:
    """An expression, as it stands in the source where that is known."""
    return source_text(expr.span) or _expression(expr, 0)


def _coord(coord: Coord) -> str:
    match coord:
        case Point():
            return quote(coord.at)
        case Interval():
            return f"{quote(coord.lo)}:{quote(coord.hi)}"
        case _:
            assert_never(coord)


def _expression(expr: CExpr | BExpr, binding: int) -> str:
    text, own = _parts(expr)
    return f"({text})" if own < binding else text


def _parts(expr: CExpr | BExpr) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    match expr:
        case Int():
            return str(expr.value), 6 if expr.value >= 0 else 4
        case CVar():
            return expr.name.name, 6
        case Truth():
            return str(expr.value), 6
        case Mul():
            return f"{expr.factor} * {_expression(expr.term, 5)}", 5
        case FloorDiv():
            return f"{_expression(expr.term, 5)} / {expr.divisor}", 5
        case Mod():
            return f"{_expression(expr.term, 5)} % {expr.divisor}", 5
        case Add():
            return f"{_expression(expr.left, 4)} + {_expression(expr.right, 4)}", 4
        case Sub():
            return f"{_expression(expr.left, 4)} - {_expression(expr.right, 5)}", 4
        case Compare():
            return f"{_expression(expr.left, 4)} {expr.op} {_expression(expr.right, 4)}", 3
        case Not():
            return f"not {_expression(expr.term, 3)}", 2
        case And():
            return f"{_expression(expr.left, 1)} and {_expression(expr.right, 2)}", 1
        case Or():
            return f"{_expression(expr.left, 0)} or {_expression(expr.right, 1)}", 0
        case _:
            assert_never(expr)
