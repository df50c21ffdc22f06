"""Decides whether a condition on one size excludes all sizes that are small enough.

A quasi-affine expression of one variable is a slope times the variable and a periodic rest of
bounded size: far enough below 0 each comparison has one truth a residue class.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Final, assert_never

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
from exogpu.ir.walk import holds

LONGEST: Final = 1 << 16
"""Residue classes that are looked at; a condition with more is said to exclude nothing."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """`slope * x + rest`, where the rest has the period and is at most so large."""

    slope: Fraction
    most: Fraction
    period: int


def bounded_below(condition: BExpr, size: Sym) -> bool:
    """Tests whether the condition, of this size alone, fails for all values that are small
    enough."""
    start, period = _far(condition)
    if period > LONGEST:
        return False
    return not any(holds(condition, {size: -start - at}) for at in range(period))


def _far(condition: BExpr) -> tuple[int, int]:
    """Returns the distance below 0 from which the truth is periodic, and its period."""
    match condition:
        case Truth():
            return 0, 1
        case Compare():
            left, right = _shape(condition.left), _shape(condition.right)
            slope = abs(left.slope - right.slope)
            period = lcm(left.period, right.period)
            if slope == 0:
                return 0, period
            return int((left.most + right.most) / slope) + 1, period
        case And() | Or():
            (one, first), (other, second) = _far(condition.left), _far(condition.right)
            return max(one, other), lcm(first, second)
        case Not():
            return _far(condition.term)
        case _:
            assert_never(condition)


def _shape(expr: CExpr) -> _Shape:
    match expr:
        case Int():
            return _Shape(Fraction(0), Fraction(abs(expr.value)), 1)
        case CVar():
            return _Shape(Fraction(1), Fraction(0), 1)
        case Add() | Sub():
            left, right = _shape(expr.left), _shape(expr.right)
            sign = 1 if isinstance(expr, Add) else -1
            slope = left.slope + sign * right.slope
            return _Shape(slope, left.most + right.most, lcm(left.period, right.period))
        case Mul():
            term = _shape(expr.term)
            most = abs(expr.factor) * term.most
            return _Shape(expr.factor * term.slope, most, term.period)
        case FloorDiv():
            term = _shape(expr.term)
            most = term.most / expr.divisor + 1
            return _Shape(term.slope / expr.divisor, most, term.period * expr.divisor)
        case Mod():
            term = _shape(expr.term)
            return _Shape(Fraction(0), Fraction(expr.divisor), term.period * expr.divisor)
        case _:
            assert_never(expr)
