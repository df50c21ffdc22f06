"""Operands of one call that share a variable are disjoint where one is written (decision
`operand-overlap`).

An instruction's meaning is sequential; the hardware reads all before it writes.  The two agree on
windows that have no element in common, and on one and the same window where the instruction
works on it element by element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from exogpu.analysis.domain import Called, Domain, bind_range
from exogpu.analysis.quantifiers import compared, conjunction_of, disjunction_of
from exogpu.ir import nodes as ir
from exogpu.ir.render import conjunction, identifier, in_range, isl_expr
from exogpu.ir.types import Sym
from exogpu.ir.walk import Passed, window_arguments

Variable: TypeAlias = ir.DataParam | ir.Alloc


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two operands of a call have an element in common."""

    call: ir.CallInstr
    variable: Variable
    first: Passed
    """One that is written, if the other is not."""
    second: Passed
    element: tuple[Sym, ...]
    """The variables of the domain that are the element's index."""
    in_place: bool
    """The two may be the same window."""


def overlaps(
    site: Called, declared: Mapping[Sym, Variable]
) -> Iterator[tuple[Domain, str, Overlap]]:
    """Yields forbidden overlaps of a call for all its instances: a domain, a condition, and the
    overlap."""
    for pair in combinations(window_arguments(site.call), 2):
        first, second = sorted(pair, key=lambda o: not o.is_written)
        if first.access.name != second.access.name or not first.is_written:
            continue
        variable = declared[first.access.name]
        domain, element, both = common_element(
            site.domain, variable.shape, first.access, second.access
        )
        in_place = {first.param.name, second.param.name} <= site.call.instr.in_place
        if in_place:
            both.append(_index_difference(first.access, second.access, element))
        found = Overlap(site.call, variable, first, second, element, in_place)
        yield domain, conjunction(both), found


def common_element(
    domain: Domain, shape: tuple[ir.CExpr, ...], first: ir.Access, second: ir.Access
) -> tuple[Domain, tuple[Sym, ...], list[str]]:
    """The domain with an element of a variable, and that two windows of the variable have it."""
    domain, element = _elements(domain, shape)
    return domain, element, [*_membership(first, element), *_membership(second, element)]


def disjoint(found: Overlap) -> ir.BExpr:
    """The two have no element of the variable in common, or are one window where that may be.

    Intervals have a common element if any two of them have one: the variable's extent is the third.
    """
    first, second = found.first.access.coords, found.second.access.coords
    apart: list[ir.BExpr] = []
    for one, other, size in zip(first, second, found.variable.shape, strict=True):
        three = [_ends(one), _ends(other), (ir.Int(0), size)]
        apart += [compared("<=", hi, lo) for _, hi in three for lo, _ in three]
    return disjunction_of([*apart, _in_place(first, second) if found.in_place else ir.Truth(False)])


def _in_place(first: tuple[ir.Coord, ...], second: tuple[ir.Coord, ...]) -> ir.BExpr:
    """A common element has the same indices in both windows: it is read before it is written.

    Where one window's dimension is another's, both indices have to be known.
    """
    mine, its = _dimensions(first), _dimensions(second)
    conditions: list[ir.BExpr] = []
    for one, other in zip(mine, its, strict=True):
        start, begins = _ends(first[one])[0], _ends(second[other])[0]
        if one == other:
            conditions.append(compared("==", start, begins))
            continue
        at, there = second[one], first[other]
        if not (isinstance(at, ir.Point) and isinstance(there, ir.Point)):
            return ir.Truth(False)
        conditions.append(compared("==", ir.Sub(at.at, start), ir.Sub(there.at, begins)))
    return conjunction_of(conditions)


def _dimensions(coords: tuple[ir.Coord, ...]) -> list[int]:
    return [at for at, coord in enumerate(coords) if isinstance(coord, ir.Interval)]


def _ends(coord: ir.Coord) -> tuple[ir.CExpr, ir.CExpr]:
    """The first index of a coordinate, and the one after the last."""
    return (
        (coord.lo, coord.hi)
        if isinstance(coord, ir.Interval)
        else (coord.at, ir.Add(coord.at, ir.Int(1)))
    )


def _elements(domain: Domain, shape: tuple[ir.CExpr, ...]) -> tuple[Domain, tuple[Sym, ...]]:
    """The domain with an element of the variable: an index for each dimension."""
    names = tuple(Sym("element") for _ in shape)
    for name, extent in zip(names, shape, strict=True):
        domain = bind_range(domain, name, ir.Int(0), extent)
    return domain, names


def _membership(access: ir.Access, element: tuple[Sym, ...]) -> Iterator[str]:
    """The element is one of the window."""
    for coord, index in zip(access.coords, element, strict=True):
        if isinstance(coord, ir.Point):
            yield f"{identifier(index)} = {isl_expr(coord.at)}"
        else:
            yield in_range(index, coord.lo, coord.hi)


def _index_difference(first: ir.Access, second: ir.Access, element: tuple[Sym, ...]) -> str:
    """The element has different indices in the two windows, which have the same extents."""
    differ = [
        f"{one} != {other}"
        for one, other in zip(_indices(first, element), _indices(second, element), strict=True)
    ]
    return f"({' or '.join(differ)})" if differ else "(0 = 1)"


def _indices(access: ir.Access, element: tuple[Sym, ...]) -> list[str]:
    return [
        f"{identifier(index)} - {isl_expr(coord.lo)}"
        for coord, index in zip(access.coords, element, strict=True)
        if isinstance(coord, ir.Interval)
    ]
