"""Constant values and differences of control expressions, by collecting terms."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from exogpu.ir.nodes import Add, CExpr, CVar, FloorDiv, Int, Mod, Mul, Sub
from exogpu.ir.walk import control_variables, evaluate

_Linear: TypeAlias = dict[CExpr, int]


def constant(expr: CExpr) -> int | None:
    """The value of an expression that is the same for all values of its variables.

    None where collecting like terms leaves a variable.
    """
    terms = _collect(expr, 1, {})
    rest = {atom: factor for atom, factor in terms.items() if factor}
    if rest.keys() <= {Int(1)}:
        return rest.get(Int(1), 0)
    return None


def difference(left: CExpr, right: CExpr) -> int | None:
    """`left - right` where it is constant, else None."""
    return constant(Sub(left, right))


def _collect(expr: CExpr, factor: int, terms: _Linear) -> _Linear:
    match expr:
        case Int():
            terms[Int(1)] = terms.get(Int(1), 0) + factor * expr.value
        case Add():
            _collect(expr.left, factor, terms)
            _collect(expr.right, factor, terms)
        case Sub():
            _collect(expr.left, factor, terms)
            _collect(expr.right, -factor, terms)
        case Mul():
            _collect(expr.term, factor * expr.factor, terms)
        case FloorDiv() | Mod() if not control_variables(expr):
            terms[Int(1)] = terms.get(Int(1), 0) + factor * evaluate(expr, {})
        case CVar() | FloorDiv() | Mod():
            terms[expr] = terms.get(expr, 0) + factor
        case _:
            assert_never(expr)
    return terms
