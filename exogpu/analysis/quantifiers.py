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

from exogpu.ir import affine
from exogpu.ir import nodes as ir
from exogpu.ir.affine import Affine, combine, difference, from_cexpr, mentions
from exogpu.ir.types import Sym
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
    lo: ir.CExpr
    hi: ir.CExpr


@dataclass(frozen=True, slots=True)
class Side:
    """`0 <= index` and `index < extent`."""

    index: ir.CExpr
    extent: ir.CExpr


# --- conditions -----------------------------------------------------------------------------


def compared(op: Literal["==", "!=", "<", "<="], left: ir.CExpr, right: ir.CExpr) -> ir.BExpr:
    """The comparison, or its truth where the difference is constant."""
    apart = difference(left, right)
    if apart is None:
        return ir.Compare(op, left, right)
    return ir.Truth({"==": apart == 0, "<": apart < 0, "<=": apart <= 0, "!=": apart != 0}[op])


def conjunction_of(terms: Iterable[ir.BExpr]) -> ir.BExpr:
    """The conjunction."""
    left = [term for term in dict.fromkeys(terms) if term != ir.Truth(True)]
    return (
        ir.Truth(False)
        if ir.Truth(False) in left
        else reduce(ir.And, left)
        if left
        else ir.Truth(True)
    )


def disjunction_of(terms: Iterable[ir.BExpr]) -> ir.BExpr:
    """The disjunction."""
    left = [term for term in dict.fromkeys(terms) if term != ir.Truth(False)]
    return (
        ir.Truth(True)
        if ir.Truth(True) in left
        else reduce(ir.Or, left)
        if left
        else ir.Truth(False)
    )


def parts(condition: ir.BExpr) -> tuple[ir.BExpr, ...]:
    """Splits a condition at its `and`s; empty for one that always holds."""
    if isinstance(condition, ir.And):
        return (*parts(condition.left), *parts(condition.right))
    return () if condition == ir.Truth(True) else (condition,)


def fold_condition(condition: ir.BExpr) -> ir.BExpr:
    """The condition without comparisons of which the truth is known."""
    match condition:
        case ir.And():
            return conjunction_of([fold_condition(condition.left), fold_condition(condition.right)])
        case ir.Compare("==" | "!=" | "<" | "<=" as op, left, right):
            return compared(op, left, right)
        case ir.Compare(">", left, right):
            return compared("<", right, left)
        case ir.Compare(">=", left, right):
            return compared("<=", right, left)
        case ir.Not(ir.Not(term)):
            return fold_condition(term)
        case ir.Not(ir.Truth(value)):
            return ir.Truth(not value)
        case ir.Not(ir.Or(left, right)):
            return conjunction_of([fold_condition(ir.Not(left)), fold_condition(ir.Not(right))])
        case ir.Not(ir.Compare(op, left, right)):
            return fold_condition(ir.Compare(_OPPOSITE[op], left, right))
        case _:
            return condition


_OPPOSITE: Final[dict[Comparison, Comparison]] = {
    "==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
}  # fmt: skip


def is_empty(coord: ir.Interval) -> ir.BExpr:
    """The interval has no element."""
    return compared("<=", coord.hi, coord.lo)


def within_extents(coords: Sequence[ir.Coord], extents: Sequence[ir.CExpr]) -> ir.BExpr:
    """Every element of a window is one of an array of these extents."""
    sides: list[ir.BExpr] = []
    for coord, size in zip(coords, extents, strict=True):
        match coord:
            case ir.Point():
                sides += [compared("<=", ir.Int(0), coord.at), compared("<", coord.at, size)]
            case ir.Interval():
                sides += [compared("<=", ir.Int(0), coord.lo), compared("<=", coord.hi, size)]
    inside = conjunction_of(sides)
    if inside == ir.Truth(True):
        return inside
    return disjunction_of(
        [*map(is_empty, (c for c in coords if isinstance(c, ir.Interval))), inside]
    )


# --- without the variables ------------------------------------------------------------------


def for_each(
    each: Sequence[Each], guards: Sequence[ir.BExpr], sides: Sequence[Side]
) -> ir.BExpr | None:
    """Returns the condition, without the variables, that the sides hold for all their values under
    the guards; None if they are not read in a simple way."""
    ranges = ranges_of(each, [part for guard in guards for part in parts(guard)])
    if ranges is None:
        return None
    conditions: list[ir.BExpr] = []
    for side in sides:
        known = None if guards else values_of(side.index, each)
        if known is not None:
            conditions.append(compared("<=", ir.Int(0), ir.Int(min(known))))
            conditions.append(compared("<", ir.Int(max(known)), side.extent))
            continue
        form = from_cexpr(side.index, {}, {})
        slopes = {name: c for name, c in form.terms if isinstance(name, Sym) and name in ranges}
        rest = Affine(form.constant, tuple(t for t in form.terms if t[0] not in slopes))
        if mentions(rest, ranges) or control_variables(side.extent) & ranges.keys():
            return None
        base = _tidy(substitute(side.index, dict.fromkeys(slopes, ir.Int(0))))
        least = _ends(base, slopes, ranges, -1)
        most = _ends(base, slopes, ranges, 1)
        if max(len(least), len(most)) > MOST:
            return None
        conditions.append(disjunction_of(compared("<=", ir.Int(0), end) for end in least))
        conditions.append(disjunction_of(compared("<", end, side.extent) for end in most))
    whole = conjunction_of(conditions)
    if whole == ir.Truth(True):
        return whole
    empty = [compared("<=", hi, lo) for los, his in ranges.values() for lo, hi in product(los, his)]
    return disjunction_of([*empty, whole])


Ranges = dict[Sym, tuple[list[ir.CExpr], list[ir.CExpr]]]
"""Lower bounds of each variable, and upper ones, which it stays below."""


def ranges_of(each: Sequence[Each], guards: Sequence[ir.BExpr]) -> Ranges | None:
    found: Ranges = {one.name: ([one.lo], [one.hi]) for one in each}
    for los, his in found.values():
        if any(control_variables(end) & found.keys() for end in (*los, *his)):
            return None
    for guard in guards:
        if not control_variables(guard) & found.keys():
            return None
        match fold_condition(guard):
            case ir.Compare("<" | "<=" as op, left, right):
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
        left, right = (_tidy(substitute(e, {name: ir.Int(0)})) for e in (left, right))
        if sign == 1:
            found[name][1].append(_plus(_tidy(ir.Sub(right, left)), shift))
        else:
            found[name][0].append(_plus(_tidy(ir.Sub(left, right)), 1 - shift))
    return found


def _ends(base: ir.CExpr, slopes: dict[Sym, int], ranges: Ranges, side: int) -> list[ir.CExpr]:
    """The base plus each variable's share at one of its bounds: below (side -1) or above all of
    these sums lies none that the variables give."""
    choices: list[list[ir.CExpr]] = []
    for name, slope in slopes.items():
        los, his = ranges[name]
        ends = [_plus(hi, -1) for hi in his] if slope * side > 0 else los
        choices.append([end if slope == 1 else ir.Mul(slope, end) for end in ends])
    return [reduce(_sum, chosen, base) for chosen in product(*choices)]


def values_of(index: ir.CExpr, each: Sequence[Each]) -> frozenset[int] | None:
    """The values of an index of variables in constant ranges alone, where they are few."""
    read = control_variables(index)
    own = [one for one in each if one.name in read]
    if len(own) != len(read) or not read:
        return None
    ranges: list[range] = []
    for one in each:
        lo, hi = affine.constant(one.lo), affine.constant(one.hi)
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


def _tidy(expr: ir.CExpr) -> ir.CExpr:
    """The expression without the zeros that it adds."""
    match expr:
        case ir.Add(left, right):
            left, right = _tidy(left), _tidy(right)
            return (
                right if left == ir.Int(0) else left if right == ir.Int(0) else ir.Add(left, right)
            )
        case ir.Sub(left, right):
            left, right = _tidy(left), _tidy(right)
            return left if right == ir.Int(0) else ir.Sub(left, right)
        case _:
            return expr


def _sum(left: ir.CExpr, right: ir.CExpr) -> ir.CExpr:
    if isinstance(right, ir.Int):
        return _plus(left, right.value)
    return right if left == ir.Int(0) else ir.Add(left, right)


def _plus(left: ir.CExpr, constant: int) -> ir.CExpr:
    match left:
        case ir.Int(value):
            return ir.Int(value + constant)
        case ir.Add(inner, ir.Int(value)):
            return _plus(inner, value + constant)
        case _ if constant == 0:
            return left
        case _:
            return ir.Add(left, ir.Int(constant))
