"""Quoting a procedure in messages: expressions and windows as the user wrote them."""

from __future__ import annotations

from typing import Final

from exogpu.ir import print_expressions
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Add,
    BExpr,
    CExpr,
    CVar,
    FloorDiv,
    Int,
    Mod,
    Mul,
    Sub,
)
from exogpu.result.errors import Span

_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


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
    return source_text(access.span) or print_expressions.access(access, _name)


def quote(expr: CExpr | BExpr) -> str:
    """An expression, as it stands in the source where that is known."""
    written = source_text(expr.span)
    if written:
        return written
    match expr:
        case Int() | CVar() | Add() | Sub() | Mul() | FloorDiv() | Mod():
            return print_expressions.control(expr, _name)
        case _:
            return print_expressions.condition(expr, _name)


def _name(variable: Sym) -> str:
    return variable.name
