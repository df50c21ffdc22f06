"""Relates instances that share threads, on the iterators that choose the threads.

Few sites differ in their thread mapping, and a mapping reads few of the iterators around it.  So
two mappings are compared once, as functions of these iterators, for all the sites that have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from exogpu.ir.nodes import CExpr, Int
from exogpu.ir.render import conjunction, identifier, isl_expr
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.solvers import isl, isl_functions
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.sites import Site

Joint: TypeAlias = tuple[tuple[isl_functions.Affine, ...], ...]

Named: TypeAlias = Callable[[CExpr], CExpr]
"""An expression with its size-only divisions named, as the parameters of relations have it."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """A thread mapping as a function of `i0, i1, ...`, as ISL text."""

    rank: int
    head: str
    condition: str

    def relation(self) -> isl.Map:
        """`[i0, i1] -> T[t]`"""
        dims = ", ".join(f"i{at}" for at in range(self.rank))
        return isl.parse_map(f"{self.head}{{ [{dims}] -> T[t] : {self.condition} }}")


def mapping_of(site: Site, depth: int, head: str, named: Named) -> tuple[Mapping, tuple[Sym, ...]]:
    """A site's mapping, and the iterators that it reads of those inside the outer `depth` loops;
    their constant bounds are part of it."""
    threads = site.op.origin.threads
    assert threads is not None
    read = frozenset[Sym]().union(*(control_variables(axis.offset) for axis in threads.axes))
    loops = [loop for loop in site.loops[depth:] if loop.iterator in read]
    names = {loop.iterator: f"i{at}" for at, loop in enumerate(loops)}
    outer = {loop.iterator: identifier(loop.iterator) for loop in site.loops[:depth]}
    inside: list[str] = []
    for loop in loops:
        if isinstance(loop.lo, Int) and isinstance(loop.hi, Int):
            inside.append(f"{loop.lo.value} <= {names[loop.iterator]} < {loop.hi.value}")
    inside.append(_threads(site, names | outer, named))
    return Mapping(len(loops), head, conjunction(inside)), tuple(names)


def _threads(site: Site, names: dict[Sym, str], named: Named) -> str:
    threads = site.op.origin.threads
    assert threads is not None
    terms, inside = [], []
    for at, axis in enumerate(threads.axes):
        terms.append(f"{axis.pitch} * ({isl_expr(named(axis.offset), names)} + j{at})")
        inside.append(f"0 <= j{at} < {axis.extent}")
    inside.append(f"t = {' + '.join(terms) or '0'}")
    condition = conjunction(inside)
    exists = ", ".join(f"j{at}" for at in range(len(terms)))
    return f"(exists {exists} : {condition})" if exists else condition


class Sharing:
    """The comparisons of the thread mappings of one frame."""

    def __init__(self, depth: int, head: str, named: Named) -> None:
        self.depth = depth
        self.head = head
        self.named = named
        self._mappings: dict[int, tuple[Mapping, isl.Map]] = {}
        self._chosen: dict[tuple[tuple[Sym, ...], tuple[Sym, ...]], isl.Map] = {}
        self._threads: dict[Mapping, isl.Map] = {}
        self._read: dict[int, tuple[Sym, ...]] = {}
        self._joint: dict[tuple[Mapping, Mapping], Joint] = {}
        self._compared: dict[tuple[str, Mapping, Mapping], isl.Map] = {}

    def common_pairs(self, first: Site, second: Site) -> isl.Map:
        """The pairs of instances, in any order, that some thread executes both of."""
        return self._lifted("common", rel.pairs, first, second)

    def contained(self, inner: Site, outer: Site) -> isl.Map:
        """The pairs such that all threads of the first execute the second."""
        return self._lifted("contained", rel.contained, inner, outer)

    def joint(self, first: Site, second: Site) -> tuple[tuple[Sym, ...], tuple[Sym, ...], Joint]:
        """The iterators that the two sites' mappings read, and a thread of both as a function of
        these: candidates for it."""
        (one, _), (other, _) = self._mapping(first), self._mapping(second)
        if (one, other) not in self._joint:
            both = isl_functions.joined(self._map(one), self._map(other))
            self._joint[one, other] = isl_functions.choices(isl_functions.smallest(both))
        return self._read[first.number], self._read[second.number], self._joint[one, other]

    def _lifted(
        self,
        what: str,
        compare: Callable[[isl.Map, isl.Map], isl.Map],
        first: Site,
        second: Site,
    ) -> isl.Map:
        one, read_by_first = self._mapping(first)
        other, read_by_second = self._mapping(second)
        key = (what, one, other)
        if key not in self._compared:
            self._compared[key] = rel.coalesce(compare(self._map(one), self._map(other)))
        found = isl.compose(read_by_first, self._compared[key])
        return isl.compose(found, isl.inverse(read_by_second))

    def _map(self, mapping: Mapping) -> isl.Map:
        if mapping not in self._threads:
            self._threads[mapping] = mapping.relation()
        return self._threads[mapping]

    def _mapping(self, site: Site) -> tuple[Mapping, isl.Map]:
        """The mapping, and `S7[k, m] -> [m]`."""
        if site.number not in self._mappings:
            mapping, read = mapping_of(site, self.depth, self.head, self.named)
            inner = site.iterators[self.depth :]
            if (inner, read) not in self._chosen:
                dims, used = (", ".join(map(identifier, names)) for names in (inner, read))
                self._chosen[inner, read] = isl.parse_map(f"{self.head}{{ [{dims}] -> [{used}] }}")
            self._read[site.number] = read
            chosen = rel.from_tuple(self._chosen[inner, read], site.tuple_name)
            self._mappings[site.number] = (mapping, chosen)
        return self._mappings[site.number]
