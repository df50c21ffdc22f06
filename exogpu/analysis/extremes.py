"""Conditions for all values of loop variables, written without the variables where that is easy.

for i in seq(0, 64):                 0 <= lo and (lo + 64 <= n or lo + left <= n)
    if i < left:              ->     or left <= 0
        0 <= lo + i < n

A sum is least where each of its variables is, and a variable is at the greatest of its lower
bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import Final, Literal, TypeAlias

from exogpu.analysis.affine import constant, difference
from exogpu.ir.affine import Affine, combine, from_cexpr, mentions
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Add,
    And,
    BExpr,
    CExpr,
    Compare,
    Coord,
    Int,
    Interval,
    Mul,
    Not,
    Or,
    Point,
    Sub,
    Truth,
)
from exogpu.ir.walk import control_variables, evaluate, substitute

Comparison: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]

MOST: Final = 16
"""Choices of bounds that are written out for one side of an index."""


MOST_VALUES: Final = 4096
"""Values of variables in constant ranges that are tried one by one."""


@dataclass(frozen=True, slots=True)
class Each:
    """`name` is anything in `lo .. hi - 1`; the bounds may read what stands before it."""

    name: Sym
    lo: CExpr
    hi: CExpr


@dataclass(frozen=True, slots=True)
class Side:
    """`0 <= index` and `index < extent`."""

    index: CExpr
    extent: CExpr


# --- conditions -----------------------------------------------------------------------------


def compared(op: Literal["==", "!=", "<", "<="], left: CExpr, right: CExpr) -> BExpr:
    """The comparison, or its truth where the difference is constant."""
    apart = difference(left, right)
    if apart is None:
        return Compare(op, left, right)
    return Truth({"==": apart == 0, "<": apart < 0, "<=": apart <= 0, "!=": apart != 0}[op])


def every(terms: Iterable[BExpr]) -> BExpr:
    """The conjunction."""
    left = [term for term in dict.fromkeys(terms) if term != Truth(True)]
    return Truth(False) if Truth(False) in left else reduce(And, left) if left else Truth(True)


def some(terms: Iterable[BExpr]) -> BExpr:
    """The disjunction."""
    left = [term for term in dict.fromkeys(terms) if term != Truth(False)]
    return Truth(True) if Truth(True) in left else reduce(Or, left) if left else Truth(False)


def parts(condition: BExpr) -> tuple[BExpr, ...]:
    """Splits a condition at its `and`s; empty for one that always holds."""
    if isinstance(condition, And):
        return (*parts(condition.left), *parts(condition.right))
    return () if condition == Truth(True) else (condition,)


def folded(condition: BExpr) -> BExpr:
    """The condition without comparisons of which the truth is known."""
    match condition:
        case And():
            return every([folded(condition.left), folded(condition.right)])
        case Compare("==" | "!=" | "<" | "<=" as op, left, right):
            return compared(op, left, right)
        case Compare(">", left, right):
            return compared("<", right, left)
        case Compare(">=", left, right):
            return compared("<=", right, left)
        case Not(Not(term)):
            return folded(term)
        case Not(Truth(value)):
            return Truth(not value)
        case Not(Or(left, right)):
            return every([folded(Not(left)), folded(Not(right))])
        case Not(Compare(op, left, right)):
            return folded(Compare(_OPPOSITE[op], left, right))
        case _:
            return condition


_OPPOSITE: Final[dict[Comparison, Comparison]] = {
    "==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
}  # fmt: skip


def is_empty(coord: Interval) -> BExpr:
    """The interval has no element."""
    return compared("<=", coord.hi, coord.lo)


def within(coords: Sequence[Coord], extents: Sequence[CExpr]) -> BExpr:
    """Every element of a window is one of an array of these extents."""
    sides: list[BExpr] = []
    for coord, size in zip(coords, extents, strict=True):
        match coord:
            case Point():
                sides += [compared("<=", Int(0), coord.at), compared("<", coord.at, size)]
            case Interval():
                sides += [compared("<=", Int(0), coord.lo), compared("<=", coord.hi, size)]
    inside = every(sides)
    if inside == Truth(True):
        return inside
    return some([*map(is_empty, (c for c in coords if isinstance(c, Interval))), inside])


# --- without the variables ------------------------------------------------------------------


def for_each(each: Sequence[Each], guards: Sequence[BExpr], sides: Sequence[Side]) -> BExpr | None:
    """Returns the condition, without the variables, that the sides hold for all their values under
    the guards; None if they are not read in a simple way."""
    ranges = ranges_of(each, [part for guard in guards for part in parts(guard)])
    if ranges is None:
        return None
    conditions: list[BExpr] = []
    for side in sides:
        known = None if guards else values_of(side.index, each)
        if known is not None:
            conditions.append(compared("<=", Int(0), Int(min(known))))
            conditions.append(compared("<", Int(max(known)), side.extent))
            continue
        form = from_cexpr(side.index, {}, {})
        slopes = {name: c for name, c in form.terms if isinstance(name, Sym) and name in ranges}
        rest = Affine(form.constant, tuple(t for t in form.terms if t[0] not in slopes))
        if mentions(rest, ranges) or control_variables(side.extent) & ranges.keys():
            return None
        base = _tidy(substitute(side.index, dict.fromkeys(slopes, Int(0))))
        least = _ends(base, slopes, ranges, -1)
        most = _ends(base, slopes, ranges, 1)
        if max(len(least), len(most)) > MOST:
            return None
        conditions.append(some(compared("<=", Int(0), end) for end in least))
        conditions.append(some(compared("<", end, side.extent) for end in most))
    whole = every(conditions)
    if whole == Truth(True):
        return whole
    empty = [compared("<=", hi, lo) for los, his in ranges.values() for lo, hi in product(los, his)]
    return some([*empty, whole])


Ranges = dict[Sym, tuple[list[CExpr], list[CExpr]]]
"""Lower bounds of each variable, and upper ones, which it stays below."""


def ranges_of(each: Sequence[Each], guards: Sequence[BExpr]) -> Ranges | None:
    found: Ranges = {one.name: ([one.lo], [one.hi]) for one in each}
    for los, his in found.values():
        if any(control_variables(end) & found.keys() for end in (*los, *his)):
            return None
    for guard in guards:
        if not control_variables(guard) & found.keys():
            return None
        match folded(guard):
            case Compare("<" | "<=" as op, left, right):
                shift = 0 if op == "<" else 1
            case _:
                return None
        # left - right < shift
        form = combine((1, from_cexpr(left, {}, {})), (-1, from_cexpr(right, {}, {})))
        own = [(a, c) for a, c in form.terms if isinstance(a, Sym) and a in found]
        rest = Affine(form.constant, tuple(t for t in form.terms if t not in own))
        if len(own) != 1 or abs(own[0][1]) != 1 or mentions(rest, found):
            return None
        ((name, sign),) = own
        left, right = (_tidy(substitute(e, {name: Int(0)})) for e in (left, right))
        if sign == 1:
            found[name][1].append(_plus(_tidy(Sub(right, left)), shift))
        else:
            found[name][0].append(_plus(_tidy(Sub(left, right)), 1 - shift))
    return found


def _ends(base: CExpr, slopes: dict[Sym, int], ranges: Ranges, side: int) -> list[CExpr]:
    """The base plus each variable's share at one of its bounds: below (side -1) or above all of
    these sums lies none that the variables give."""
    choices: list[list[CExpr]] = []
    for name, slope in slopes.items():
        los, his = ranges[name]
        ends = [_plus(hi, -1) for hi in his] if slope * side > 0 else los
        choices.append([end if slope == 1 else Mul(slope, end) for end in ends])
    return [reduce(_sum, chosen, base) for chosen in product(*choices)]


def values_of(index: CExpr, each: Sequence[Each]) -> frozenset[int] | None:
    """The values of an index of variables in constant ranges alone, where they are few."""
    read = control_variables(index)
    own = [one for one in each if one.name in read]
    if len(own) != len(read) or not read:
        return None
    ranges: list[range] = []
    for one in each:
        lo, hi = constant(one.lo), constant(one.hi)
        if lo is None or hi is None or hi <= lo:
            return None
        if one.name in read:
            ranges.append(range(lo, hi))
    if prod(map(len, ranges)) > MOST_VALUES:
        return None
    names = [one.name for one in own]
    return frozenset(
        evaluate(index, dict(zip(names, values, strict=True))) for values in product(*ranges)
    )


def _tidy(expr: CExpr) -> CExpr:
    """The expression without the zeros that it adds."""
    match expr:
        case Add(left, right):
            left, right = _tidy(left), _tidy(right)
            return right if left == Int(0) else left if right == Int(0) else Add(left, right)
        case Sub(left, right):
            left, right = _tidy(left), _tidy(right)
            return left if right == Int(0) else Sub(left, right)
        case _:
            return expr


def _sum(left: CExpr, right: CExpr) -> CExpr:
    if isinstance(right, Int):
        return _plus(left, right.value)
    return right if left == Int(0) else Add(left, right)


def _plus(left: CExpr, constant: int) -> CExpr:
    match left:
        case Int(value):
            return Int(value + constant)
        case Add(inner, Int(value)):
            return _plus(inner, value + constant)
        case _ if constant == 0:
            return left
        case _:
            return Add(left, Int(constant))
