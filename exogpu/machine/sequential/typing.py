"""The precision that each part of a data expression computes in (see `values`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Apply, BinOp, Const, DExpr, Negate, Read
from exogpu.machine.sequential.values import Precision, precision_of_constant

PrecisionOf: TypeAlias = Callable[[Sym], Precision]


def own_precision(expr: DExpr, of: PrecisionOf) -> Precision:
    """The greatest precision of an expression's operands; `exp` and `sqrt` are never integer."""
    match expr:
        case Const():
            return precision_of_constant(expr.value)
        case Read():
            return of(expr.access.name)
        case BinOp():
            return max(own_precision(expr.left, of), own_precision(expr.right, of))
        case Negate():
            return own_precision(expr.term, of)
        case Apply():
            terms = result_arguments(expr)
            own = max(own_precision(t, of) for t in terms)
            if expr.function in ("exp", "sqrt"):
                return max(own, Precision.FLOAT_CONSTANT)
            return own
        case _:
            assert_never(expr)


def result_arguments(expr: Apply) -> tuple[DExpr, ...]:
    """The arguments that a function's result is made of: not the two that `select` compares."""
    return expr.arguments[2:] if expr.function == "select" else expr.arguments
