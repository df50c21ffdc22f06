"""Constant values and differences of control expressions."""

from __future__ import annotations

from exogpu.ir.affine import from_cexpr
from exogpu.ir.nodes import CExpr, Sub


def constant(expr: CExpr) -> int | None:
    """The value of an expression that is the same for all values of its variables.

    None where its form has a variable left.
    """
    form = from_cexpr(expr, {}, {})
    return None if form.terms else form.constant


def difference(left: CExpr, right: CExpr) -> int | None:
    """`left - right` where it is constant, else None."""
    return constant(Sub(left, right))
