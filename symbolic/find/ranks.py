"""Ranks of arrivals compared with what Awaits wait for, by counts or, in nests, by order."""

from __future__ import annotations

from exogpu.amir.nodes import Await
from exogpu.ir.names import Sym
from exogpu.machine.literal_records import own_arrival
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.find.counts import Counts
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.find.nests import Nest
from exogpu.symbolic.sites import Site, UndecidedError, home_of, targets_of


class Ranks(Counts):
    """The ranks of the barriers of one frame."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self._nests: dict[Sym, Nest | None] = {}
        self._released: dict[tuple[int, int, int], isl.Map] = {}
        self._later: dict[tuple[int, int, int], isl.Map] = {}
        self._due: dict[tuple[int, int, int], isl.Map] = {}
        self._least: dict[tuple[int, int], isl.Set] = {}
        """By an Arrive or trailing Record and a rank, or an Await and a bound."""

    def edge(self, site: Site, await_: Site) -> isl.Map:
        """The instances of an Arrive, or of a Record with a trailing barrier, and the Awaits that
        their tags release: on an element they target, of the same allocation, later, of a rank
        that the Await receives; the rank is that of the home (decision `multicast-tags`)."""
        awaited = await_.op
        assert isinstance(awaited, Await)
        home, targets = home_of(site), targets_of(site)
        later = self.frame.earlier(site, await_, home.name)
        element = self.frame.cells(await_, awaited.barrier)
        found = rel.empty_like(later)
        for target in targets:
            found = isl.union_map(
                found, isl.intersect_map(later, rel.pairs(self.frame.cells(site, target), element))
            )
        if isl.is_empty(found):
            return found
        return rel.coalesce(isl.intersect_map(found, self.received(site, await_, 0)))

    # --- comparisons of ranks ---------------------------------------------------------------

    def nest(self, name: Sym, reason: UndecidedError) -> Nest:
        """The comparisons by order of a barrier whose counts are not quasi-affine.

        Raises the reason where they do not apply either.
        """
        if name not in self._nests:
            self._nests[name] = None
            self._nests[name] = Nest(self.frame, name, reason)
        found = self._nests[name]
        if found is None:
            raise reason
        return found

    def is_nest(self, name: Sym) -> bool:
        """Tests whether a barrier's ranks are compared by order; its counts agree at the end."""
        return self._nests.get(name) is not None

    def received(self, site: Site, await_: Site, plus: int) -> isl.Map:
        """The pairs of which an Await of `bound(await_) + plus` receives the tag `rank(site)`."""
        assert isinstance(await_.op, Await)
        if own_arrival(self.frame.model.program.policy, await_.op.n):
            return self.due(site, await_, plus)
        return self.released(site, await_, plus)

    def released(self, site: Site, await_: Site, plus: int) -> isl.Map:
        """The pairs with `rank(site) <= bound(await_) + plus`, of one element at least."""
        key = (site.number, await_.number, plus)
        if key not in self._released:
            self._released[key] = self._at_most(site, await_, plus)
        return self._released[key]

    def _at_most(self, site: Site, await_: Site, plus: int) -> isl.Map:
        home = home_of(site)
        if not self.frame.model.is_numbered(home.name):
            return rel.every_pair(self.frame.domain(site), self.frame.domain(await_))
        try:
            rank, bound = self.arrivals(site, home), self.bound(await_)
        except UndecidedError as reason:
            return self.nest(home.name, reason).released(site, await_, plus)
        return rel.at_most(rel.graph(rank), rel.graph(rel.plus(bound, plus)))

    def due(self, site: Site, await_: Site, plus: int) -> isl.Map:
        """The pairs with `rank(site) = bound(await_) + plus`."""
        key = (site.number, await_.number, plus)
        if key not in self._due:
            self._due[key] = self._equal(site, await_, plus)
        return self._due[key]

    def _equal(self, site: Site, await_: Site, plus: int) -> isl.Map:
        try:
            rank, bound = self.arrivals(site, home_of(site)), self.bound(await_)
        except UndecidedError:
            sooner = self.released(site, await_, plus - 1)
            return isl.subtract_map(self.released(site, await_, plus), sooner)
        return rel.pairs(rel.graph(rank), rel.graph(rel.plus(bound, plus)))

    def deep(self, site: Site, depth: int) -> isl.Set:
        """The instances whose rank is at least `depth`."""
        key = (site.number, depth)
        if key not in self._least:
            home = home_of(site)
            try:
                self._least[key] = rel.where_at_least(self.arrivals(site, home), depth)
            except UndecidedError as reason:
                self._least[key] = self.nest(home.name, reason).deep(site, depth)
        return self._least[key]

    def waiting(self, await_: Site, least: int = 0) -> isl.Set:
        """The Awaits whose bound is not negative, or at least so large."""
        key = (await_.number, least)
        if key not in self._least:
            try:
                self._least[key] = rel.where_at_least(self.bound(await_), least)
            except UndecidedError as reason:
                self._least[key] = self.nest(_awaited(await_), reason).waiting(await_, least)
        return self._least[key]

    def later_bound(self, await_: Site, other: Site, plus: int) -> isl.Map:
        """The pairs of Awaits with `bound(await_) + plus <= bound(other)`."""
        key = (await_.number, other.number, plus)
        if key not in self._later:
            self._later[key] = self._later_bound(await_, other, plus)
        return self._later[key]

    def bound_after(self, await_: Site, other: Site, plus: int) -> isl.Map:
        """The pairs of Awaits with `bound(await_) + plus = bound(other)`."""
        key = (await_.number, other.number, plus)
        if key not in self._due:
            later = self.later_bound(await_, other, plus + 1)
            self._due[key] = isl.subtract_map(self.later_bound(await_, other, plus), later)
        return self._due[key]

    def _later_bound(self, await_: Site, other: Site, plus: int) -> isl.Map:
        try:
            first, second = self.bound(await_), self.bound(other)
        except UndecidedError as reason:
            return self.nest(_awaited(await_), reason).later_bound(await_, other, plus)
        return rel.at_most(rel.graph(rel.plus(first, plus)), rel.graph(second))


def _awaited(site: Site) -> Sym:
    assert isinstance(site.op, Await)
    return site.op.barrier.name
