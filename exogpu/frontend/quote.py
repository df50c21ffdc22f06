"""Quoting a procedure in messages: expressions and windows as the user wrote them."""

from __future__ import annotations

import ast
import linecache
import re
from typing import Final

from exogpu.diagnostics.errors import Span
from exogpu.ir import nodes as ir
from exogpu.ir import render
from exogpu.ir.types import Sym

_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def ordinal(at: int) -> str:
    """`first` for 0, and so on."""
    return _ORDINALS[at] if at < len(_ORDINALS) else f"{at + 1}th"


def source_text(span: Span) -> str:
    """The text of a range of one line; empty where it is not known."""
    if not span.text or span.line != span.end_line:
        return ""
    return span.text[span.column - 1 : span.end_column - 1]


_COMPOUND: Final = re.compile(r"(async\b|def|class|for|if|while|with|try|match)\b|@")


def lines_of(span: Span) -> list[str]:
    """The lines of a simple statement or an expression; the first alone of a compound one, and
    where the file is not, or no longer, what was read."""
    found = [line.rstrip("\n") for line in linecache.getlines(span.file)]
    found = found[span.line - 1 : span.end_line]
    whole = len(found) == span.end_line - span.line + 1 and found[0] == span.text.rstrip("\n")
    if not whole or _COMPOUND.match(span.text[max(span.column - 1, 0) :]):
        return [span.text]
    return found


def one_line(span: Span, otherwise: str) -> str:
    """A statement of several lines on one, so that it can be pasted; another as it is given."""
    lines = lines_of(span)
    if span.line == span.end_line or not lines[1:]:
        return otherwise
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    try:
        return ast.unparse(ast.parse("\n".join(lines)))
    except (SyntaxError, ValueError, RecursionError):
        return otherwise


def quote_access(access: ir.Access) -> str:
    """`A[64 * i + m, k]`, as it stands in the source where that is known."""
    return source_text(access.span) or render.access(access, _name)


def quote(expr: ir.CExpr | ir.BExpr) -> str:
    """An expression, as it stands in the source where that is known."""
    written = source_text(expr.span)
    if written:
        return written
    match expr:
        case ir.Int() | ir.CVar() | ir.Add() | ir.Sub() | ir.Mul() | ir.FloorDiv() | ir.Mod():
            return render.control(expr, _name)
        case _:
            return render.condition(expr, _name)


def _name(variable: Sym) -> str:
    return variable.name
