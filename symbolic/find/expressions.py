"""ISL's quasi-affine functions as expressions of the IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exogpu.ir.nodes import BExpr, CExpr, Compare, FloorDiv, Int
from exogpu.solvers.isl_functions import Affine, Constraint, Piece
from exogpu.symbolic.encode.expressions import Pieces, linear
from exogpu.symbolic.encode.formulas import TRUE, every, some


def expression(affine: Affine, inputs: Sequence[CExpr], params: Mapping[str, CExpr]) -> CExpr:
    """The value of a quasi-affine function."""
    terms = [(value, inputs[at]) for value, at in affine.inputs]
    terms += ((value, params[name]) for value, name in affine.params)
    terms += ((value, expression(inner, inputs, params)) for value, inner in affine.floors)
    total = linear(affine.constant, terms)
    if affine.divisor == 1:
        return total
    if isinstance(total, Int):
        return Int(total.value // affine.divisor)
    return FloorDiv(total, affine.divisor)


def pieces_of(
    pieces: Sequence[Piece], inputs: Sequence[CExpr], params: Mapping[str, CExpr]
) -> Pieces:
    """The expressions of a piecewise function; 0 for one that is defined nowhere."""
    found = []
    for piece in pieces:
        where = some(
            every(constraint(one, inputs, params) for one in conjunction)
            for conjunction in piece.where
        )
        found.append((where, expression(piece.value, inputs, params)))
    if len(found) < 2:
        return ((TRUE, found[0][1] if found else Int(0)),)
    return tuple(found)


def constraint(
    condition: Constraint, inputs: Sequence[CExpr], params: Mapping[str, CExpr]
) -> BExpr:
    """The condition of the IR."""
    value = expression(condition.value, inputs, params)
    return Compare("==" if condition.equality else ">=", value, Int(0))
