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

from exogpu.analysis.called import Called
from exogpu.analysis.extremes import compared, every, some
from exogpu.analysis.instances import Domain, bind_range
from exogpu.ir.isltext import cexpr, conjunction, identifier, in_range
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Add,
    Alloc,
    BExpr,
    CallInstr,
    CExpr,
    Coord,
    DataParam,
    Int,
    Interval,
    Point,
    Sub,
    Truth,
)
from exogpu.ir.walk import Passed, passed

Variable: TypeAlias = DataParam | Alloc


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two operands of a call have an element in common."""

    call: CallInstr
    variable: Variable
    first: Passed
    """One that is written, if the other is not."""
    second: Passed
    element: tuple[Sym, ...]
    """The variables of the domain that are the element's index."""
    in_place: bool
    """Whether the two might be the same window."""


def overlaps(
    site: Called, declared: Mapping[Sym, Variable]
) -> Iterator[tuple[Domain, str, Overlap]]:
    """Yields forbidden overlaps of a call for all its instances: a domain, a condition, and the
    overlap."""
    for pair in combinations(passed(site.call), 2):
        first, second = sorted(pair, key=lambda o: not o.written)
        if first.access.name != second.access.name or not first.written:
            continue
        variable = declared[first.access.name]
        domain, element, both = common(site.domain, variable.shape, first.access, second.access)
        in_place = {first.param.name, second.param.name} <= site.call.instr.in_place
        if in_place:
            both.append(_elsewhere(first.access, second.access, element))
        found = Overlap(site.call, variable, first, second, element, in_place)
        yield domain, conjunction(both), found


def common(
    domain: Domain, shape: tuple[CExpr, ...], first: Access, second: Access
) -> tuple[Domain, tuple[Sym, ...], list[str]]:
    """The domain with an element of a variable, and that two windows of the variable have it."""
    domain, element = _elements(domain, shape)
    return domain, element, [*_inside(first, element), *_inside(second, element)]


def disjoint(found: Overlap) -> BExpr:
    """The two have no element of the variable in common, or are one window where that may be.

    Intervals have a common element if any two of them have one: the variable's extent is the third.
    """
    first, second = found.first.access.coords, found.second.access.coords
    apart: list[BExpr] = []
    for one, other, size in zip(first, second, found.variable.shape, strict=True):
        three = [_ends(one), _ends(other), (Int(0), size)]
        apart += [compared("<=", hi, lo) for _, hi in three for lo, _ in three]
    return some([*apart, _in_place(first, second) if found.in_place else Truth(False)])


def _in_place(first: tuple[Coord, ...], second: tuple[Coord, ...]) -> BExpr:
    """A common element has the same indices in both windows: it is read before it is written.

    Where one window's dimension is another's, both indices have to be known.
    """
    mine, its = _dimensions(first), _dimensions(second)
    conditions: list[BExpr] = []
    for one, other in zip(mine, its, strict=True):
        start, begins = _ends(first[one])[0], _ends(second[other])[0]
        if one == other:
            conditions.append(compared("==", start, begins))
            continue
        at, there = second[one], first[other]
        if not (isinstance(at, Point) and isinstance(there, Point)):
            return Truth(False)
        conditions.append(compared("==", Sub(at.at, start), Sub(there.at, begins)))
    return every(conditions)


def _dimensions(coords: tuple[Coord, ...]) -> list[int]:
    return [at for at, coord in enumerate(coords) if isinstance(coord, Interval)]


def _ends(coord: Coord) -> tuple[CExpr, CExpr]:
    """The first index of a coordinate, and the one after the last."""
    return (
        (coord.lo, coord.hi) if isinstance(coord, Interval) else (coord.at, Add(coord.at, Int(1)))
    )


def _elements(domain: Domain, shape: tuple[CExpr, ...]) -> tuple[Domain, tuple[Sym, ...]]:
    """The domain with an element of the variable: an index for each dimension."""
    names = tuple(Sym("element") for _ in shape)
    for name, extent in zip(names, shape, strict=True):
        domain = bind_range(domain, name, Int(0), extent)
    return domain, names


def _inside(access: Access, element: tuple[Sym, ...]) -> Iterator[str]:
    """The element is one of the window."""
    for coord, index in zip(access.coords, element, strict=True):
        if isinstance(coord, Point):
            yield f"{identifier(index)} = {cexpr(coord.at)}"
        else:
            yield in_range(index, coord.lo, coord.hi)


def _elsewhere(first: Access, second: Access, element: tuple[Sym, ...]) -> str:
    """The element has different indices in the two windows, which have the same extents."""
    differ = [
        f"{one} != {other}"
        for one, other in zip(_indices(first, element), _indices(second, element), strict=True)
    ]
    return f"({' or '.join(differ)})" if differ else "(0 = 1)"


def _indices(access: Access, element: tuple[Sym, ...]) -> list[str]:
    return [
        f"{identifier(index)} - {cexpr(coord.lo)}"
        for coord, index in zip(access.coords, element, strict=True)
        if isinstance(coord, Interval)
    ]
