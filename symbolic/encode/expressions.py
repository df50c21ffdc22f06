"""ISL's quasi-affine functions as expressions of the IR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from exogpu.ir.nodes import (
    Add,
    BExpr,
    CExpr,
    Compare,
    FloorDiv,
    Int,
    Mul,
    Sub,
)
from exogpu.solvers.isl_functions import Affine, Constraint, Piece
from exogpu.symbolic.encode.formulas import TRUE, every, some

Pieces = tuple[tuple[BExpr, CExpr], ...]
"""The value of the first expression whose condition holds."""


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
            every(_constraint(one, inputs, params) for one in conjunction)
            for conjunction in piece.where
        )
        found.append((where, expression(piece.value, inputs, params)))
    if len(found) < 2:
        return ((TRUE, found[0][1] if found else Int(0)),)
    return tuple(found)


def _constraint(
    constraint: Constraint, inputs: Sequence[CExpr], params: Mapping[str, CExpr]
) -> BExpr:
    value = expression(constraint.value, inputs, params)
    return Compare("==" if constraint.equality else ">=", value, Int(0))


def linear(constant: int, terms: Iterable[tuple[int, CExpr]]) -> CExpr:
    """The sum of multiples, with like terms gathered."""
    atoms: dict[CExpr, int] = {}
    for coefficient, term in terms:
        constant += _gather(coefficient, term, atoms)
    parts = [(value, atom) for atom, value in atoms.items() if value]
    parts.sort(key=lambda part: part[0] < 0)
    if not parts:
        return Int(constant)
    first, *rest = (part for part in parts)
    total = reduce(_plus, rest, _times(*first))
    if constant:
        total = Add(total, Int(constant)) if constant > 0 else Sub(total, Int(-constant))
    return total


def _gather(coefficient: int, term: CExpr, atoms: dict[CExpr, int]) -> int:
    """Adds a multiple of a term to the atoms; the constant that it leaves."""
    match term:
        case Int():
            return coefficient * term.value
        case Add():
            return _gather(coefficient, term.left, atoms) + _gather(coefficient, term.right, atoms)
        case Sub():
            left = _gather(coefficient, term.left, atoms)
            return left + _gather(-coefficient, term.right, atoms)
        case Mul():
            return _gather(coefficient * term.factor, term.term, atoms)
        case _:
            atoms[term] = atoms.get(term, 0) + coefficient
            return 0


def _times(coefficient: int, atom: CExpr) -> CExpr:
    return atom if coefficient == 1 else Mul(coefficient, atom)


def _plus(total: CExpr, part: tuple[int, CExpr]) -> CExpr:
    coefficient, atom = part
    if coefficient < 0:
        return Sub(total, _times(-coefficient, atom))
    return Add(total, _times(coefficient, atom))
