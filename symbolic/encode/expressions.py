"""Quasi-affine expressions: sums with like terms gathered, and values by cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import assert_never

from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Add,
    And,
    BExpr,
    CExpr,
    Compare,
    CVar,
    FloorDiv,
    Int,
    Mod,
    Mul,
    Not,
    Or,
    Sub,
    Truth,
)

Pieces = tuple[tuple[BExpr, CExpr], ...]
"""The value of the first expression whose condition holds."""


def linear(constant: int, terms: Iterable[tuple[int, CExpr]]) -> CExpr:
    """The sum of multiples, with like terms gathered."""
    terms = tuple(terms)
    if not constant and len(terms) == 1 and terms[0][0] == 1 and isinstance(terms[0][1], CVar):
        return terms[0][1]  # as most are
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


def replaced(expr: CExpr, values: Mapping[Sym, CExpr]) -> CExpr:
    """The expression with every variable replaced.  Raises KeyError for one without a value."""
    match expr:
        case Int():
            return expr
        case CVar():
            return values[expr.name]
        case Add() | Sub():
            return type(expr)(replaced(expr.left, values), replaced(expr.right, values))
        case Mul():
            return Mul(expr.factor, replaced(expr.term, values))
        case FloorDiv() | Mod():
            return type(expr)(replaced(expr.term, values), expr.divisor)
        case _:
            assert_never(expr)


def pieces_at(pieces: Pieces, values: Mapping[Sym, CExpr]) -> Pieces:
    """The pieces with every variable replaced.  Raises KeyError for one without a value."""
    return tuple(
        (_condition(where, values), linear(0, [(1, replaced(value, values))]))
        for where, value in pieces
    )


def _condition(where: BExpr, values: Mapping[Sym, CExpr]) -> BExpr:
    match where:
        case Truth():
            return where
        case Compare():
            left, right = replaced(where.left, values), replaced(where.right, values)
            return Compare(where.op, left, right)
        case And() | Or():
            return type(where)(_condition(where.left, values), _condition(where.right, values))
        case Not():
            return Not(_condition(where.term, values))
        case _:
            assert_never(where)
