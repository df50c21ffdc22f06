"""Ranks of arrivals compared with what Awaits wait for, by counts or, in nests, by order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from exogpu.amir.nodes import Await, Loop, OnWindow
from exogpu.ir.nodes import Int
from exogpu.ir.types import Sym
from exogpu.ir.walk import is_whole, read_by
from exogpu.machine.literal_records import own_arrival
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic import sites
from exogpu.symbolic.search.counts import Counts
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.nested_counts import Nest
from exogpu.symbolic.search.steady_counts import Steady
from exogpu.symbolic.sites import home_of, targets_of


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

    def edge(self, site: sites.Site, await_: sites.Site) -> isl.Map:
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

    def nest(self, name: Sym, reason: sites.UndecidedError) -> Nest:
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

    def received(self, site: sites.Site, await_: sites.Site, plus: int) -> isl.Map:
        """The pairs of which an Await of `bound(await_) + plus` receives the tag `rank(site)`."""
        assert isinstance(await_.op, Await)
        if own_arrival(self.frame.model.program.policy, await_.op.n):
            return self.due(site, await_, plus)
        return self.released_pairs(site, await_, plus)

    def released_pairs(self, site: sites.Site, await_: sites.Site, plus: int) -> isl.Map:
        """The pairs with `rank(site) <= bound(await_) + plus`, of one element at least."""
        key = (site.number, await_.number, plus)
        if key not in self._released:
            self._released[key] = self._at_most(site, await_, plus)
        return self._released[key]

    def _at_most(self, site: sites.Site, await_: sites.Site, plus: int) -> isl.Map:
        home = home_of(site)
        if not self.frame.model.is_numbered(home.name):
            return rel.every_pair(self.frame.domain(site), self.frame.domain(await_))
        try:
            rank, bound = self.arrivals(site, home), self.await_limit(await_)
        except sites.UndecidedError as reason:
            return self.nest(home.name, reason).released_pairs(site, await_, plus)
        return rel.at_most(rel.graph(rank), rel.graph(rel.plus(bound, plus)))

    def due(self, site: sites.Site, await_: sites.Site, plus: int) -> isl.Map:
        """The pairs with `rank(site) = bound(await_) + plus`."""
        key = (site.number, await_.number, plus)
        if key not in self._due:
            self._due[key] = self._equal(site, await_, plus)
        return self._due[key]

    def _equal(self, site: sites.Site, await_: sites.Site, plus: int) -> isl.Map:
        try:
            rank, bound = self.arrivals(site, home_of(site)), self.await_limit(await_)
        except sites.UndecidedError:
            sooner = self.released_pairs(site, await_, plus - 1)
            return isl.subtract_map(self.released_pairs(site, await_, plus), sooner)
        return rel.pairs(rel.graph(rank), rel.graph(rel.plus(bound, plus)))

    def deep(self, site: sites.Site, depth: int) -> isl.Set:
        """The instances whose rank is at least `depth`."""
        key = (site.number, depth)
        if key not in self._least:
            home = home_of(site)
            try:
                self._least[key] = rel.where_at_least(self.arrivals(site, home), depth)
            except sites.UndecidedError as reason:
                self._least[key] = self.nest(home.name, reason).deep(site, depth)
        return self._least[key]

    def waiting(self, await_: sites.Site, least: int = 0) -> isl.Set:
        """The Awaits whose bound is not negative, or at least so large."""
        key = (await_.number, least)
        if key not in self._least:
            try:
                self._least[key] = rel.where_at_least(self.await_limit(await_), least)
            except sites.UndecidedError as reason:
                self._least[key] = self.nest(_awaited_barrier(await_), reason).waiting(
                    await_, least
                )
        return self._least[key]

    def later_bound(self, await_: sites.Site, other: sites.Site, plus: int) -> isl.Map:
        """The pairs of Awaits with `bound(await_) + plus <= bound(other)`."""
        key = (await_.number, other.number, plus)
        if key not in self._later:
            self._later[key] = self._later_bound(await_, other, plus)
        return self._later[key]

    def bound_after(self, await_: sites.Site, other: sites.Site, plus: int) -> isl.Map:
        """The pairs of Awaits with `bound(await_) + plus = bound(other)`."""
        key = (await_.number, other.number, plus)
        if key not in self._due:
            later = self.later_bound(await_, other, plus + 1)
            self._due[key] = isl.subtract_map(self.later_bound(await_, other, plus), later)
        return self._due[key]

    def _later_bound(self, await_: sites.Site, other: sites.Site, plus: int) -> isl.Map:
        try:
            first, second = self.await_limit(await_), self.await_limit(other)
        except sites.UndecidedError as reason:
            return self.nest(_awaited_barrier(await_), reason).later_bound(await_, other, plus)
        return rel.at_most(rel.graph(rel.plus(first, plus)), rel.graph(second))


def _awaited_barrier(site: sites.Site) -> Sym:
    assert isinstance(site.op, Await)
    return site.op.barrier.name


# Relates instances of one slot: their counts differ by a multiple of the ring.
#
# Where counts are expressions that is exact. In nests they are compared by order: within one
# iteration of the loops that are set apart by the counts there, and from one iteration to a later
# one by at least a ring of Arrives between the two, or none.


class SlotPairs:
    """The pairs of one frame's accesses that may have one slot."""

    def __init__(self, frame: Frame, ranks: Ranks) -> None:
        self.ranks = ranks
        self.frame = frame
        bound = self.frame.model.slots
        self._slots = {site.op: site for site in self.frame.sites if site.op in bound}
        self._known: dict[tuple[int, int, int, bool], isl.Map] = {}
        self._bounds: dict[tuple[int, Loop, bool], isl.Set] = {}

    def may_meet(self, relation: isl.Map, first: sites.Site, second: sites.Site) -> isl.Map:
        """The pairs without those of two slots: all that have one, and perhaps others."""
        return self._among(relation, first, second, surely=False)

    def meet(self, relation: isl.Map, first: sites.Site, second: sites.Site) -> isl.Map:
        """The pairs of one slot; in nests those of one iteration alone."""
        return self._among(relation, first, second, surely=True)

    def place(self, loop: Loop) -> sites.Site:
        """The place where a slot is bound.  Raises UndecidedError of one outside of the frame."""
        if loop not in self._slots:
            raise sites.UndecidedError("a slot of a barrier that outlives it", loop.origin.span)
        return self._slots[loop]

    def same_slot_pairs(self, left: sites.Site, right: sites.Site, loop: Loop) -> isl.Map:
        """The pairs of places at which two slots of a ring are surely one number."""
        assert isinstance(loop.hi, Int)
        try:
            return self._same_slot(left, right, loop.hi.value, surely=True)
        except sites.UndecidedError as reason:
            one, other = (self.ranks.nest(sites.slot_of(at).name, reason) for at in (left, right))
        depth = one.begins(left)
        if depth is None or other.begins(right) != depth:
            raise one.reason
        first, second = self.frame.domain(left), self.frame.domain(right)
        if not one.is_like(other):
            first = isl.subtract(first, one.instances_after_first(left))
            second = isl.subtract(second, other.instances_after_first(right))
        within = range(depth - self.frame.depth)
        return rel.equal_dims(rel.every_pair(first, second), [(at, at) for at in within])

    def begun_anew(self, slot: sites.Site, loop: Loop) -> isl.Set:
        """The instances at which a slot is surely 0."""
        assert isinstance(loop.hi, Int)
        ring = loop.hi.value
        try:
            return rel.multiples(self.ranks.arrivals(slot, sites.slot_of(slot)), ring)
        except sites.UndecidedError as reason:
            nest = self.ranks.nest(sites.slot_of(slot).name, reason)
        depth, counts = len(nest.loops), nest.inner
        assert counts is not None
        if nest.begins(slot) is not None:
            return isl.subtract(self.frame.domain(slot), self._carried_over(nest, slot, ring))
        if slot.loops[:depth] != nest.loops:
            raise nest.reason
        inner = rel.multiples(counts.arrivals(slot, sites.slot_of(slot)), ring)
        known = isl.domain(nest.outside(rel.identity(inner), slot, slot))
        return isl.subtract(known, self._carried_over(nest, slot, ring))

    def _carried_over(self, nest: Nest, site: sites.Site, ring: int) -> isl.Set:
        """The instances before which earlier iterations may have counted other than whole rings."""
        begun = nest.instances_after_first(site)
        whole = nest.whole_rings(ring)
        return begun if whole is None else isl.subtract(begun, rel.set_under(begun, whole))

    def _where_bound(
        self, relation: isl.Map, site: sites.Site, surely: bool, met: Collection[Loop]
    ) -> isl.Map:
        """The relation without instances of another slot than they count; in nests that is known of
        the first iteration, and where each iteration has whole rings: others are left out where
        they should be there surely.  Not of those that met another slot."""
        assert isinstance(site.op, OnWindow)
        read = read_by(site.op.access)
        for loop in sites.slots_around(site):
            if loop in met or loop.iterator not in read or loop not in self._slots:
                continue
            key = (site.number, loop, surely)
            if key not in self._bounds:
                self._bounds[key] = self._slot_instances(site, self._slots[loop], loop, surely)
            relation = isl.restrict_domain(relation, self._bounds[key])
        return relation

    def _slot_instances(
        self, site: sites.Site, slot: sites.Site, loop: Loop, surely: bool
    ) -> isl.Set:
        try:
            return _count_instances(
                self.frame, self.ranks.arrivals(slot, sites.slot_of(slot)), site, loop
            )
        except sites.UndecidedError as reason:
            nest = self.ranks.nest(sites.slot_of(slot).name, reason)
        depth, counts = len(nest.loops), nest.inner
        assert counts is not None
        if slot.loops[:depth] != nest.loops:
            raise nest.reason
        inner = _count_instances(
            counts.frame, counts.arrivals(slot, sites.slot_of(slot)), site, loop
        )
        known = isl.domain(nest.outside(rel.identity(inner), site, site))
        assert isinstance(loop.hi, Int)
        unsure = self._carried_over(nest, slot, loop.hi.value)
        begun = rel.restrict_range(self.frame.to_outer(site, slot), unsure)
        return (isl.subtract if surely else isl.union)(known, isl.domain(begun))

    def _among(
        self, relation: isl.Map, first: sites.Site, second: sites.Site, *, surely: bool
    ) -> isl.Map:
        meeting = list(_meeting(first, second))
        met = {loop for one, other, _ in meeting for loop in (one, other)}
        relation = self._where_bound(relation, first, surely, met)
        relation = isl.inverse(self._where_bound(isl.inverse(relation), second, False, met))
        for one, other, ring in meeting:
            if one not in self._slots or other not in self._slots:
                raise sites.UndecidedError("a slot of a barrier that outlives it", one.origin.span)
            left, right = self._slots[one], self._slots[other]
            same = self._same_slot(left, right, ring, surely)
            same = isl.compose(self.frame.to_outer(first, left), same)
            same = isl.compose(same, isl.inverse(self.frame.to_outer(second, right)))
            relation = isl.intersect_map(relation, same)
        return relation

    def _same_slot(self, left: sites.Site, right: sites.Site, ring: int, surely: bool) -> isl.Map:
        key = (left.number, right.number, ring, surely)
        if key not in self._known:
            first, second = sites.slot_of(left), sites.slot_of(right)
            try:
                rank, count = self.ranks.arrivals(left, first), self.ranks.arrivals(right, second)
                self._known[key] = rel.congruent_pairs(rel.graph(rank), rel.graph(count), ring)
            except sites.UndecidedError as reason:
                one, other = (self.ranks.nest(a.name, reason) for a in (first, second))
                self._known[key] = self._in_nests(one, other, left, right, ring, surely)
        return self._known[key]

    def _in_nests(
        self, one: Nest, other: Nest, left: sites.Site, right: sites.Site, ring: int, surely: bool
    ) -> isl.Map:
        depth = len(one.loops)
        if any(site.loops[:depth] != one.loops for site in (left, right)):
            raise one.reason
        if one.loops != other.loops:
            raise other.reason
        assert one.inner is not None and other.inner is not None
        rank = rel.graph(one.inner.arrivals(left, sites.slot_of(left)))
        count = rel.graph(other.inner.arrivals(right, sites.slot_of(right)))
        found = one.outside(rel.congruent_pairs(rank, count, ring), left, right)
        if not one.is_like(other):
            return self._unlike(found, one, other, left, right, surely)
        if surely:
            return found
        anew = self._of_two_allocations(one, left, right)
        if one.steady is not None and other.steady is not None:
            far = self._separated_pairs(one.steady, left, rank, right, count, ring)
            if far is not None:
                return isl.union_map(isl.union_map(found, far), anew)
        later = self.frame.later_iteration(left, right, depth)
        for arrive, pairs in one.arrives_after(left, 1).items():
            between = isl.compose(pairs, self.frame.later_iteration(arrive, right, depth))
            later = isl.subtract_map(later, between)
        ahead = self._ahead(one, other, left, right, ring)
        found = isl.union_map(found, isl.union_map(later, ahead))
        return rel.coalesce(isl.union_map(found, anew))

    def _unlike(
        self,
        alike: isl.Map,
        one: Nest,
        other: Nest,
        left: sites.Site,
        right: sites.Site,
        surely: bool,
    ) -> isl.Map:
        """The pairs of barriers whose iterations count differently: they are known before the
        first counts alone; `alike` are those of one iteration, by what it counts."""
        first = isl.subtract(self.frame.domain(left), one.instances_after_first(left))
        second = isl.subtract(self.frame.domain(right), other.instances_after_first(right))
        if surely:
            return rel.restrict_range(isl.restrict_domain(alike, first), second)
        every = rel.every_pair(self.frame.domain(left), self.frame.domain(right))
        within = range(len(one.loops) - self.frame.depth)
        known = rel.equal_dims(rel.every_pair(first, second), [(at, at) for at in within])
        return isl.subtract_map(every, isl.subtract_map(known, alike))

    def _of_two_allocations(self, nest: Nest, left: sites.Site, right: sites.Site) -> isl.Map:
        """The pairs that count on two allocations of a barrier: any may meet."""
        every = rel.every_pair(self.frame.domain(left), self.frame.domain(right))
        own = self.frame.same_allocation(every, left, right, nest.name)
        return isl.subtract_map(every, own)

    def _separated_pairs(
        self,
        steady: Steady,
        left: sites.Site,
        rank: isl.Map,
        right: sites.Site,
        count: isl.Map,
        ring: int,
    ) -> isl.Map | None:
        """The pairs of two iterations with none or at least a ring of Arrives between."""
        given = (left, rank), (right, count)
        some, one, far = (steady.at_least(*given, n, later=True) for n in (0, 1, ring))
        if some is None or one is None or far is None:
            return None
        found = isl.union_map(isl.subtract_map(some, one), far)
        found = isl.restrict_domain(found, self.frame.domain(left))
        return rel.coalesce(rel.restrict_range(found, self.frame.domain(right)))

    def _ahead(
        self, one: Nest, other: Nest, left: sites.Site, right: sites.Site, ring: int
    ) -> isl.Map:
        """The pairs of two iterations with at least a ring of Arrives between."""
        depth = len(one.loops)
        assert one.inner is not None and other.inner is not None
        count = rel.graph(other.inner.arrivals(right, sites.slot_of(right)))
        later = self.frame.later_iteration(left, right, depth)
        found = rel.empty_like(later)
        for last, pairs in one.arrives_after(left, ring).items():
            rank = rel.graph(rel.plus(one.inner.arrivals(last, sites.counted_on(last)), 1))
            here = one.outside(rel.at_most(rank, count), last, right)
            reached = isl.union_map(here, self.frame.later_iteration(last, right, depth))
            found = isl.union_map(found, isl.compose(pairs, reached))
        return isl.intersect_map(found, later)


def _count_instances(frame: Frame, count: rel.Count, site: sites.Site, loop: Loop) -> isl.Set:
    """The instances of a site whose slot is the count, modulo the ring."""
    assert isinstance(loop.hi, Int)
    slot = next(one for one in frame.sites if one.op is loop)
    counted = isl.compose(frame.to_outer(site, slot), rel.graph(count))
    return rel.congruent(counted, frame.value_of(site, loop), loop.hi.value)


def _meeting(first: sites.Site, second: sites.Site) -> Iterator[tuple[Loop, Loop, int]]:
    """The slots that index one dimension of two accesses, with their ring."""
    mine = {loop.iterator: loop for loop in sites.slots_around(first)}
    others = {loop.iterator: loop for loop in sites.slots_around(second)}
    for one, other in zip(_indices(first, mine), _indices(second, others), strict=True):
        if one is not None and other is not None and one.hi == other.hi:
            assert isinstance(one.hi, Int)
            yield one, other, one.hi.value


def _indices(site: sites.Site, slots: Mapping[Sym, Loop]) -> Iterator[Loop | None]:
    """By dimension of an access, the slot that is the whole index, as a point or an interval."""
    assert isinstance(site.op, OnWindow)
    single = frozenset(
        loop.iterator
        for loop in site.loops
        if (loop.lo, loop.hi, loop.slot) == (Int(0), Int(1), None)
    )
    for coord in site.op.access.coords:
        names = [name for name in slots if is_whole(coord, name, single)]
        yield slots[names[0]] if names else None
