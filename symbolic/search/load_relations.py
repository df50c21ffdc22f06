"""Values from memory in relations: what ISL is told of them (decision `loaded-values`).

It knows their ranges, and that two loads of one element, written alike, have one value.  Contracts,
and elements that are the same by their values alone, are the solver's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from exogpu.amir.nodes import Loop
from exogpu.ir.render import identifier
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.sites import Site, loads_around, read_by_source

if TYPE_CHECKING:
    from exogpu.symbolic.search.frames import Frame


def reads(loop: Loop, names: Set[Sym]) -> bool:
    """Tests whether a loop's bounds read one of these variables."""
    return bool((control_variables(loop.lo) | control_variables(loop.hi)) & names)


def one_value(site: Site) -> Iterator[str]:
    """Yields equations in ISL's text: loads of one element around a site have one value."""
    for one, other in combinations(loads_around(site), 2):
        if one.source == other.source:
            yield f"({identifier(one.iterator)} = {identifier(other.iterator)})"


@dataclass(frozen=True, slots=True)
class Same:
    """Dimensions of a pair of instances that hold values of one element whenever other dimensions
    agree."""

    read: tuple[tuple[int, int], ...]
    """Dimensions of the first and of the second that tell the element."""
    values: tuple[tuple[int, int], ...]


def same_loads(frame: Frame, first: Site, second: Site) -> tuple[Same, ...]:
    """Finds the loads of one array, written alike, around both sites; outermost first."""
    found: dict[tuple[tuple[int, int], ...], list[tuple[int, int]]] = {}
    model = frame.model
    others = loads_around(second)
    for one in loads_around(first):
        for other in others:
            if model.loaded[one] != model.loaded[other]:
                continue
            read = read_by_source(one) - {*model.sizes}
            places = [
                (_iterator_position(frame, name, first), _iterator_position(frame, name, second))
                for name in read
            ]
            # What is read and no dimension is a parameter of the frame, the same in both.
            inside = tuple(sorted((i, j) for i, j in places if i >= 0 and j >= 0))
            value = (
                _iterator_position(frame, one.iterator, first),
                _iterator_position(frame, other.iterator, second),
            )
            found.setdefault(inside, []).append(value)
    return tuple(Same(read, tuple(values)) for read, values in found.items())


def as_loaded(pairs: isl.Map, loads: Sequence[Same], equal: int = 0) -> isl.Map:
    """The pairs without those that have two values of one element; the first `equal` dimensions
    agree in all of them."""
    agree = {(at, at) for at in range(equal)}
    for same in loads:
        if agree.issuperset(same.read):
            pairs = rel.coalesce(rel.equal_dims(pairs, same.values))
            agree |= {*same.values}
            continue
        read = rel.equal_dims(pairs, same.read)
        wrong = isl.subtract_map(read, rel.equal_dims(read, same.values))
        pairs = rel.coalesce(isl.subtract_map(pairs, wrong))
    return pairs


@cache
def in_order(
    ins: int, outs: int, common: int, above: bool, alike: tuple[int, ...], loads: tuple[Same, ...]
) -> isl.Map:
    """The sequential order of two sites, whatever their bounds; `loads` are `same_loads`."""
    order = rel.lexicographic(ins, outs, common, or_equal=above, alike=alike)
    return as_loaded(order, loads)


def _iterator_position(frame: Frame, name: Sym, site: Site) -> int:
    """Returns the position of an iterator in the site's tuple; negative for a parameter."""
    return site.iterators.index(name) - frame.depth
