"""Quasi-affine expressions: sums with like terms gathered, and values by cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import assert_never

from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym

Pieces = tuple[tuple[ir.BExpr, ir.CExpr], ...]
"""The value of the first expression whose condition holds."""


def linear(constant: int, terms: Iterable[tuple[int, ir.CExpr]]) -> ir.CExpr:
    """The sum of multiples, with like terms gathered."""
    terms = tuple(terms)
    if not constant and len(terms) == 1 and terms[0][0] == 1 and isinstance(terms[0][1], ir.CVar):
        return terms[0][1]  # as most are
    atoms: dict[ir.CExpr, int] = {}
    for coefficient, term in terms:
        constant += _gather(coefficient, term, atoms)
    parts = [(value, atom) for atom, value in atoms.items() if value]
    parts.sort(key=lambda part: part[0] < 0)
    if not parts:
        return ir.Int(constant)
    first, *rest = (part for part in parts)
    total = reduce(_plus, rest, _times(*first))
    if constant:
        total = (
            ir.Add(total, ir.Int(constant)) if constant > 0 else ir.Sub(total, ir.Int(-constant))
        )
    return total


def _gather(coefficient: int, term: ir.CExpr, atoms: dict[ir.CExpr, int]) -> int:
    """Adds a multiple of a term to the atoms; the constant that it leaves."""
    match term:
        case ir.Int():
            return coefficient * term.value
        case ir.Add():
            return _gather(coefficient, term.left, atoms) + _gather(coefficient, term.right, atoms)
        case ir.Sub():
            left = _gather(coefficient, term.left, atoms)
            return left + _gather(-coefficient, term.right, atoms)
        case ir.Mul():
            return _gather(coefficient * term.factor, term.term, atoms)
        case _:
            atoms[term] = atoms.get(term, 0) + coefficient
            return 0


def _times(coefficient: int, atom: ir.CExpr) -> ir.CExpr:
    return atom if coefficient == 1 else ir.Mul(coefficient, atom)


def _plus(total: ir.CExpr, part: tuple[int, ir.CExpr]) -> ir.CExpr:
    coefficient, atom = part
    if coefficient < 0:
        return ir.Sub(total, _times(-coefficient, atom))
    return ir.Add(total, _times(coefficient, atom))


def replace_variables(expr: ir.CExpr, values: Mapping[Sym, ir.CExpr]) -> ir.CExpr:
    """The expression with every variable replaced.  Raises KeyError for one without a value."""
    match expr:
        case ir.Int():
            return expr
        case ir.CVar():
            return values[expr.name]
        case ir.Add() | ir.Sub():
            return type(expr)(
                replace_variables(expr.left, values), replace_variables(expr.right, values)
            )
        case ir.Mul():
            return ir.Mul(expr.factor, replace_variables(expr.term, values))
        case ir.FloorDiv() | ir.Mod():
            return type(expr)(replace_variables(expr.term, values), expr.divisor)
        case _:
            assert_never(expr)


def pieces_at(pieces: Pieces, values: Mapping[Sym, ir.CExpr]) -> Pieces:
    """The pieces with every variable replaced.  Raises KeyError for one without a value."""
    return tuple(
        (_condition(where, values), linear(0, [(1, replace_variables(value, values))]))
        for where, value in pieces
    )


def _condition(where: ir.BExpr, values: Mapping[Sym, ir.CExpr]) -> ir.BExpr:
    match where:
        case ir.Truth():
            return where
        case ir.Compare():
            left, right = (
                replace_variables(where.left, values),
                replace_variables(where.right, values),
            )
            return ir.Compare(where.op, left, right)
        case ir.And() | ir.Or():
            return type(where)(_condition(where.left, values), _condition(where.right, values))
        case ir.Not():
            return ir.Not(_condition(where.term, values))
        case _:
            assert_never(where)
