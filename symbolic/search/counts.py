"""Arrive and await counts of barriers as piecewise quasi-affine functions, for all sizes.

A count is the size of a set of earlier instances on the same element of the same allocation.
Where these form an arithmetic progression for every instance and all sizes (one symbolic loop,
loops of constant trip count unrolled), the count is computed from its ends and its stride, and
the progression is compared with the set: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from exogpu.amir.nodes import Arrive, Await
from exogpu.ir.nodes import Access
from exogpu.ir.types import Sym
from exogpu.solvers import isl, isl_counting
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.sites import Site, UndecidedError, loads_around

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Query:
    """Instances at which something is counted, each with the element that it is counted on."""

    site: Site
    instance: isl.Map
    """`Q -> S7[k]`"""
    element: isl.Map
    """`Q -> V2[e]`"""

    @property
    def domain(self) -> isl.Set:
        return isl.domain(self.element)


class Counts:
    """The counts of the barriers of one frame."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._arrivals: dict[tuple[int, Access], rel.Count | UndecidedError] = {}
        self._bounds: dict[int, rel.Count | UndecidedError] = {}

    def arrives(self, name: Sym) -> list[tuple[Site, Access]]:
        """The Arrives on a barrier with their homes."""
        return [
            (site, site.op.home)
            for site in self.frame.sites
            if isinstance(site.op, Arrive) and site.op.home.name == name
        ]

    def awaits(self, name: Sym) -> list[tuple[Site, Access]]:
        """The Awaits on a barrier with their elements."""
        return [
            (site, site.op.barrier)
            for site in self.frame.sites
            if isinstance(site.op, Await) and site.op.barrier.name == name
        ]

    def query_at(self, site: Site, access: Access) -> Query:
        """The query at a site's own instances, on the element of an access."""
        return Query(site, rel.identity(self.frame.domain(site)), self.frame.cells(site, access))

    def at_elements(self, site: Site, elements: isl.Map) -> Query:
        """The query at a site's instances on every element that the relation gives them."""
        return Query(site, rel.input_of(elements), rel.output_of(elements))

    def count(self, query: Query, sites: Sequence[tuple[Site, Access]]) -> rel.Count:
        """Counts the instances of the sites that come before the query on its element.

        Raises UndecidedError where no quasi-affine function was found.
        """
        counts: list[rel.Count | None] = []
        for site, access in sites:
            earlier = self.frame.earlier(site, query.site, access.name)
            same = rel.pairs(query.element, self.frame.cells(site, access))
            earlier = isl.compose(query.instance, isl.inverse(earlier))
            found = self._unique_instances(isl.intersect_map(same, earlier), site)
            count = isl_counting.count_outputs(found)
            if count is None and not isl.is_empty(found):
                raise UndecidedError(
                    f"how often {site.op.origin.text} has run is no quasi-affine function of "
                    "sizes and iterators",
                    site.op.origin.span,
                )
            counts.append(count)
        return isl_counting.total(counts, query.domain)

    def _unique_instances(self, found: isl.Map, site: Site) -> isl.Map:
        """The instances of a site, each once: a value from memory is one of those that it may be.

        Raises UndecidedError where it tells whether they are counted.
        """
        told: list[int] = []
        for load in reversed(loads_around(site)):
            at = site.iterators.index(load.iterator) - self.frame.depth
            if at < 0 or rel.is_told(found, at):
                continue
            once = rel.without_output(found, at)
            any_value = rel.without_dims(self.frame.in_range(site, load), told)
            if not isl.is_subset_map(rel.with_output(once, at, any_value), found):
                raise UndecidedError(
                    f"how often {site.op.origin.text} has run depends on values from memory",
                    site.op.origin.span,
                )
            found = once
            told.append(at)
        return found

    def arrivals(self, site: Site, access: Access) -> rel.Count:
        """The number of Arrives homed at the element before an instance: an Arrive's rank."""

        def make() -> rel.Count:
            return self.count(self.query_at(site, access), self.arrives(access.name))

        return _count_once(self._arrivals, (site.number, access), make)

    def await_limit(self, site: Site) -> rel.Count:
        """Max of an Await: `a - (n + 1)` for n >= 0, `w + n + 1` for n < 0 (decision
        `await-counts`)."""
        return _count_once(self._bounds, site.number, lambda: self._compute_bound(site))

    def _compute_bound(self, site: Site) -> rel.Count:
        op = site.op
        assert isinstance(op, Await)
        awaits = self.awaits(op.barrier.name)
        signs = {other.op.n >= 0 for other, _ in awaits if isinstance(other.op, Await)}
        if len(signs) > 1:
            raise UndecidedError("Awaits with n >= 0 and n < 0 on one barrier", op.origin.span)
        if op.n >= 0:
            return rel.plus(self.arrivals(site, op.barrier), -(op.n + 1))
        return rel.plus(self.count(self.query_at(site, op.barrier), awaits), op.n + 1)

    def is_balanced(
        self, arrives: Sequence[tuple[Site, Access]], awaits: Sequence[tuple[Site, Access]]
    ) -> bool:
        """Tests whether each element has as many Arrives as Awaits in the whole frame."""
        elements = self.elements([*arrives, *awaits])
        arrived, waited = (self.total_counts(sites, elements) for sites in (arrives, awaits))
        different = rel.where_different(arrived, waited)
        return isl.is_empty(rel.set_under(different, self.frame.preconditions))

    def elements(self, sites: Sequence[tuple[Site, Access]]) -> isl.Set:
        """The elements that some instance of the sites touches."""
        first, *rest = (isl.image(self.frame.cells(site, access)) for site, access in sites)
        for more in rest:
            first = isl.union(first, more)
        return first

    def total_counts(self, sites: Sequence[tuple[Site, Access]], elements: isl.Set) -> rel.Count:
        """Counts the instances of the sites on each element, in the whole frame."""
        counts = []
        for site, access in sites:
            found = self._unique_instances(isl.inverse(self.frame.cells(site, access)), site)
            count = isl_counting.count_outputs(found)
            if count is None and not isl.is_empty(found):
                raise UndecidedError(
                    f"how often {site.op.origin.text} runs is no quasi-affine function of sizes",
                    site.op.origin.span,
                )
            counts.append(count)
        return isl_counting.total(counts, elements)


def _count_once(
    known: dict[Key, rel.Count | UndecidedError], key: Key, count: Callable[[], rel.Count]
) -> rel.Count:
    """Returns the count of a key, computed once; an UndecidedError is stored and raised again,
    since a nest asks for it before every comparison by order."""
    if key not in known:
        try:
            known[key] = count()
        except UndecidedError as reason:
            known[key] = reason
    found = known[key]
    if isinstance(found, UndecidedError):
        raise UndecidedError(found.reason, found.span)
    return found
