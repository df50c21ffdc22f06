"""Constants of data expressions: each must fit the type that it takes."""

from __future__ import annotations

import ast
from typing import Final

from exogpu.frontend.scope import Context, Data, Part, Reject
from exogpu.ir.nodes import DExpr
from exogpu.ir.scalars import (
    OF_FLOATS,
    Constant,
    Operation,
    Scalar,
    added,
    assigned,
    fits,
    parts,
)
from exogpu.ir.types import FLOATS, DataType
from exogpu.result.errors import Diagnostic, Note, Span

_APART: Final = "keep integers and floating point apart"


_FLOATING: Final = (*OF_FLOATS, "fma")
"""Functions that integers do not have."""


def check_value(
    value: DExpr, target: Data, node: ast.stmt, ctx: Context, *, adds: bool = False
) -> None:
    """Refuses what a value of `x = value`, or of `x += value`, cannot be computed with."""
    named = [meaning for scope in ctx.scopes for meaning in scope.values()]
    wholes = (meaning.of if isinstance(meaning, Part) else meaning for meaning in named)
    types = {whole.name: whole.dtype for whole in wholes if isinstance(whole, Data)}
    typed = (added if adds else assigned)(value, target.dtype, types.__getitem__)
    for part in parts(typed):
        dtype = target.dtype if part is typed and not adds else part.dtype
        if (wrong := _wrong(part, dtype)) is not None:
            code, message, remedy = wrong
            place = _place(part, ctx.source.span(node))
            note = Note(f"{target.name} is {target.dtype.value}", target.span)
            raise Reject(Diagnostic(code, message, place, remedy, (note,)))


def _place(part: Scalar, otherwise: Span) -> Span:
    span = part.span if isinstance(part, Constant | Operation) else otherwise
    return span if span.line else otherwise


def _wrong(part: Scalar, dtype: DataType) -> tuple[str, str, str] | None:
    """Code, message and remedy."""
    name = dtype.value
    match part:
        case Constant(value=float() as value) if dtype not in FLOATS:
            return "T210", f"{value!r} is floating point, where {name} is computed", _APART
        case Constant(value=value) if not fits(value, dtype):
            remedy = "use a constant that the type has, or variables of a wider type"
            return "T246", f"{_shown(value)} does not fit {name}", remedy
        case Operation(function=function) if function in _FLOATING and dtype not in FLOATS:
            return "T210", f"{function} takes floating point, where {name} is computed", _APART
        case Operation(function="/", arguments=(_, Constant(value=0))) if dtype not in FLOATS:
            return "T247", "an integer is divided by 0", "divide by another constant"
        case _:
            return None


def _shown(value: float | int) -> str:
    if isinstance(value, int) and abs(value) >= 1 << 200:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)
