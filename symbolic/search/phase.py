"""PHASE (decision `mbarrier-phase`) for all sizes: on an mbarrier no arrival runs a ring ahead of a
waiter, and no waiter a ring ahead of the arrivals.

Order here is execution order: it starts at an Await with each of its threads, and every Fence that
joins its threads, and every Arrive or trailing barrier with the Awaits it releases, passes it on,
whatever the timelines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from exogpu.analysis.ring_depth import DEPTHS
from exogpu.diagnostics.hazards import HazardKind
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.search.barrier_balance import (
    BarrierUses,
    earlier,
    element,
    every_element,
    targets,
)
from exogpu.symbolic.search.dependences import Finding
from exogpu.symbolic.search.sync_relations import Holder, Syncs, first_seen, instances
from exogpu.symbolic.search.visibility import Grants, close_order, first_heard
from exogpu.symbolic.sites import Site


@dataclass(frozen=True, slots=True, eq=False)
class _Event:
    """Failures of one operation, for one depth."""

    site: Site
    await_: Site | None
    """The Await at fault."""
    failing: isl.Map
    """`site -> element`"""


def phase_failures(orders: Orders) -> Iterator[Finding]:
    """Yields violations of PHASE at an mbarrier's depth or, if the depth is to be found, at every
    depth; stores a depth that holds in `orders`.

    Raises UndecidedError where its counts, or a barrier's that passes the order on, are not
    quasi-affine.
    """
    if orders.depth is not None:
        yield from _given_depth(orders.uses, orders, orders.depth)
    else:
        yield from _any_depth(orders.uses, orders)


def _given_depth(uses: BarrierUses, orders: Orders, depth: int) -> Iterator[Finding]:
    for event in _events(uses, orders, depth):
        failing = rel.restrict_parameters(event.failing, uses.frame.context())
        if not isl.is_empty(failing):
            if orders.syncs.missing:
                raise next(iter(orders.syncs.missing.values()))
            yield Finding(
                HazardKind.PHASE, uses.frame, uses.name, event.site, event.await_, failing
            )


def _events(uses: BarrierUses, orders: Orders, depth: int) -> Iterator[_Event]:
    """Yields the violations of PHASE at one depth."""
    yield from _early_arrivals(uses, orders, depth)
    yield from _unfollowed(uses, orders, depth)
    yield from _waiters_ahead(uses, orders, depth)


def _any_depth(uses: BarrierUses, orders: Orders) -> Iterator[Finding]:
    """Frees of allocations at which no depth up to 32 holds; the elements are those of the first
    operation that rules out depth 1."""
    for free in uses.frees:
        left: isl.Set | None = None
        first: isl.Map | None = None
        for depth in DEPTHS:
            events = list(_events(uses, orders, depth))
            if not events:
                orders.depth = depth
            if depth == 1:
                first = _first_elements(uses, free, events)
            ruled_out = _frees_after(uses, free, events)
            left = ruled_out if left is None else isl.intersect(left, ruled_out)
            left = rel.set_under(left, uses.frame.context()).coalesce()
            if isl.is_empty(left):
                break
        if left is None or first is None or isl.is_empty(left):
            continue
        if orders.syncs.missing:
            raise next(iter(orders.syncs.missing.values()))
        failing = isl.restrict_domain(first, left)
        yield Finding(HazardKind.PHASE, uses.frame, uses.name, free, None, failing)


def _frees_after(uses: BarrierUses, free: Site, events: Iterable[_Event]) -> isl.Set:
    """The frees of the allocations in which an event happens."""
    found = isl.subtract(uses.frame.domain(free), uses.frame.domain(free))
    for event in events:
        after = _free_of(uses, event.site, free)
        found = isl.union(found, isl.apply(isl.domain(event.failing), after))
    return found


def _free_of(uses: BarrierUses, site: Site, free: Site) -> isl.Map:
    """The instances of a site and the free that ends their allocation."""
    if site is free:
        return rel.identity(uses.frame.domain(free))
    return earlier(uses, site, free)


def _first_elements(uses: BarrierUses, free: Site, events: Sequence[_Event]) -> isl.Map | None:
    """The elements of the first event of an allocation: `free -> element`."""
    happened = [
        isl.compose(
            isl.inverse(_free_of(uses, event.site, free)), rel.identity(isl.domain(event.failing))
        )
        for event in events
    ]
    found: isl.Map | None = None
    for event, here in zip(events, happened, strict=True):
        first = here
        for other, there in zip(events, happened, strict=True):
            later = uses.frame.instances_before(other.site, event.site)
            first = isl.subtract_map(first, isl.compose(there, later))
        elements = isl.compose(first, event.failing)
        found = elements if found is None else isl.union_map(found, elements)
    return found


# --- execution order ----------------------------------------------------------------------------


class Orders:
    """The instances that hear of an Await, by Await; computed once for all depths."""

    def __init__(self, syncs: Syncs, uses: BarrierUses) -> None:
        self.syncs = syncs
        self.uses = uses
        self.depth = uses.frame.model.variables[uses.name].depth
        self._heard: dict[Holder, Grants] = {}
        self._closed: list[tuple[tuple[isl.Map, ...], Grants]] = []
        """By what is heard first."""
        self._slot_awaited: dict[tuple[int, int, int], isl.Map] = {}
        self._phase: dict[tuple[int, int, int], isl.Map] = {}
        self._ordered: dict[tuple[int, int | None, int, bool], isl.Map] = {}
        self._followed: dict[tuple[Holder, int | None, int], isl.Map] = {}

    def grants_after(self, waiter: Holder) -> Grants:
        """By granting site, the instances whose threads are ordered after an Await."""
        if waiter not in self._heard:
            self._heard[waiter] = self._hear(waiter)
        return self._heard[waiter]

    def _hear(self, waiter: Holder) -> Grants:
        first = first_heard(self.syncs, waiter)
        start = tuple(pairs for _, pairs in first)
        for other, found in self._closed:
            if all(map(rel.is_plainly_equal, start, other)):
                return found
        self._closed.append((start, close_order(self.syncs, waiter, first)))
        return self._closed[-1][1]

    def slot_awaited(self, await_: Site, site: Site, depth: int) -> isl.Map:
        """`slot_awaited`, computed once."""
        key = (await_.number, site.number, depth)
        if key not in self._slot_awaited:
            self._slot_awaited[key] = slot_awaited(self.uses, await_, site, depth)
        return self._slot_awaited[key]

    def phase_before(self, await_: Site, site: Site, depth: int) -> isl.Map:
        """`phase_before`, computed once."""
        key = (await_.number, site.number, depth)
        if key not in self._phase:
            self._phase[key] = phase_before(self.uses, await_, site, depth)
        return self._phase[key]

    def by_grants(self, waiter: Holder) -> Iterator[int | None]:
        """Yields the grants that may order an instance after an Await: None for the Await's own
        threads, or one by which they hear of it."""
        yield None
        yield from sorted(self.grants_after(waiter).full)

    def all_threads(self, await_: Site, granted: int | None, site: Site, *, each: bool) -> isl.Map:
        """The Awaits and later instances of `site`, all of whose threads are ordered after it by
        one grant; where `each`, the thread of `site` is a coordinate.  Computed once."""
        key = (await_.number, granted, site.number, each)
        if key not in self._ordered:
            frame = self.syncs.frame
            reach = frame.thread_after if each else frame.covered_pairs
            if granted is None:
                self._ordered[key] = reach(await_, site)
            else:
                heard = self.grants_after(any_thread(await_)).full[granted]
                self._ordered[key] = isl.compose(heard, reach(self.syncs.site(granted), site))
        return self._ordered[key]

    def some_thread(self, waiter: Holder, granted: int | None, site: Site) -> isl.Map:
        """The Awaits (with their thread where it is a coordinate) and the later instances of
        `site`, of which some thread is ordered after it by one grant.  Computed once."""
        key = (waiter, granted, site.number)
        if key not in self._followed:
            frame = self.syncs.frame
            if granted is None:
                self._followed[key] = first_seen(frame, waiter, site)
            else:
                heard = self.grants_after(waiter).full[granted]
                self._followed[key] = isl.compose(
                    heard, frame.pairs_sharing_thread(self.syncs.site(granted), site)
                )
        return self._followed[key]


def any_thread(await_: Site) -> Holder:
    """An Await as one record that all its threads see."""
    return Holder(await_, False, True)


# --- (i) ----------------------------------------------------------------------------------------


def _early_arrivals(uses: BarrierUses, orders: Orders, depth: int) -> Iterator[_Event]:
    """(i) every thread of arrival r + d on an element, and of every instruction trailing on it,
    is ordered after an Await for arrival r on it; under `paper`, for r or a later one."""
    for site in (*uses.arrives, *uses.trailing):
        deep = uses.ranks.deep(site, depth)
        asked = isl.restrict_domain(targets(uses, site), deep)
        if isl.is_empty(asked):
            continue
        counts = {await_: orders.slot_awaited(await_, site, depth) for await_ in uses.awaits}
        failing = _unordered(uses, orders, site, asked, counts)
        if not isl.is_empty(failing):
            yield _Event(site, _last_await(uses, site), failing)


def slot_awaited(uses: BarrierUses, await_: Site, site: Site, depth: int) -> isl.Map:
    """The Awaits for arrival r, and arrivals r + d (or instructions trailing on it) on their
    element, that come after them; under `paper`, those for a later arrival, too."""
    counts = isl.intersect_map(
        rel.pairs(element(uses, await_), targets(uses, site)),
        isl.inverse(uses.ranks.received(site, await_, depth)),
    )
    return isl.intersect_map(counts, earlier(uses, await_, site))


def _unordered(
    uses: BarrierUses, orders: Orders, site: Site, asked: isl.Map, counts: Mapping[Site, isl.Map]
) -> isl.Map:
    """Returns those instances and elements that have a thread ordered after no Await that
    counts."""
    left = _unordered_pairs(uses, orders, site, asked, counts, each=False)
    if uses.frame.everyone(site) or isl.is_empty(left):
        return rel.coalesce(left)
    extended = uses.frame.with_thread(site)
    threads = isl.compose(isl.inverse(extended), left)
    those = {await_: isl.compose(that, extended) for await_, that in counts.items()}
    unseen = _unordered_pairs(uses, orders, site, threads, those, each=True)
    return rel.coalesce(isl.intersect_map(left, isl.compose(extended, unseen)))


def _unordered_pairs(
    uses: BarrierUses,
    orders: Orders,
    site: Site,
    asked: isl.Map,
    counts: Mapping[Site, isl.Map],
    *,
    each: bool,
) -> isl.Map:
    """Returns the queried pairs that no grant orders after an Await that counts; with `each`, the
    thread of an instance is a coordinate."""
    for await_, that in counts.items():
        for granted in orders.by_grants(any_thread(await_)):
            if isl.is_empty(asked):
                return asked
            ordered = orders.all_threads(await_, granted, site, each=each)
            here = isl.inverse(isl.intersect_map(ordered, that))
            asked = isl.subtract_map(asked, isl.compose(here, element(uses, await_)))
    return asked


def _last_await(uses: BarrierUses, site: Site) -> Site | None:
    """An Await of the barrier, for the report."""
    return uses.awaits[-1] if uses.awaits else None


# --- (ii) ---------------------------------------------------------------------------------------


def _unfollowed(uses: BarrierUses, orders: Orders, depth: int) -> Iterator[_Event]:
    """(ii) for each Await of r by thread g, some thread of arrival r + d is ordered after it.

    Asked at each Await of an arrival from r + d on, and at the free; vacuous where arrival r + d
    does not exist.  Reported at the first of them.
    """
    for await_ in uses.awaits:
        events: list[tuple[Site, isl.Map]] = []
        threads = not uses.frame.everyone(await_)
        for exact in (False, True):
            waiter = Holder(await_, threads, exact)
            events = list(_await_queries(uses, orders, await_, waiter, depth))
            if not events:
                break
        for site, found in events:
            first = found
            for other, there in events:
                later = isl.compose(there, uses.frame.instances_before(other, site))
                first = isl.subtract_map(first, later)
            awaited = isl.compose(instances(uses.frame, waiter), element(uses, await_))
            first = isl.compose(isl.inverse(first), awaited)
            if not isl.is_empty(first):
                yield _Event(site, await_, first)


def _await_queries(
    uses: BarrierUses, orders: Orders, await_: Site, waiter: Holder, depth: int
) -> Iterator[tuple[Site, isl.Map]]:
    """The Awaits (with their thread) and the operations at which they turn out unfollowed."""
    frame = uses.frame
    ranks = uses.ranks
    waited = isl.restrict_domain(element(uses, await_), ranks.waiting(await_))
    records = instances(frame, waiter)
    arrived: list[tuple[Site, isl.Map, isl.Map]] = []
    for arrive in uses.arrives:
        due = ranks.due(arrive, await_, depth)
        that = isl.intersect_map(rel.pairs(waited, targets(uses, arrive)), isl.inverse(due))
        that = frame.same_allocation(that, await_, arrive, uses.name)
        if isl.is_empty(that):
            continue
        that = isl.compose(records, that)
        arrived.append((arrive, that, _followed(orders, waiter, arrive, that)))
    if not arrived:
        return
    for site in (*uses.awaits, *uses.frees):
        asked: isl.Map | None = None
        for arrive, that, _ in arrived:
            here = isl.compose(that, earlier(uses, arrive, site))
            asked = here if asked is None else isl.union_map(asked, here)
        assert asked is not None
        if site in uses.awaits:
            final = isl.intersect_map(
                rel.pairs(waited, element(uses, site)),
                ranks.later_bound(await_, site, depth),
            )
        else:
            final = isl.compose(waited, isl.inverse(every_element(uses, site)))
        final = isl.intersect_map(final, earlier(uses, await_, site))
        asked = isl.intersect_map(asked, isl.compose(records, final))
        for arrive, _, ordered in arrived:
            asked = isl.subtract_map(asked, isl.compose(ordered, earlier(uses, arrive, site)))
        if not isl.is_empty(asked):
            yield site, rel.coalesce(asked)


def _followed(orders: Orders, waiter: Holder, arrive: Site, that: isl.Map) -> isl.Map:
    """Selects the pairs of Awaits and arrivals of which a thread of the arrival is ordered after
    the Await."""
    left = that
    for granted in orders.by_grants(waiter):
        left = isl.subtract_map(left, orders.some_thread(waiter, granted, arrive))
        if isl.is_empty(left):
            return that
    return isl.subtract_map(that, left)


# --- (iii) --------------------------------------------------------------------------------------


def _waiters_ahead(uses: BarrierUses, orders: Orders, depth: int) -> Iterator[_Event]:
    """(iii) each thread of an Await for arrival r >= d on an element is ordered after an Await for
    arrival r - d on it."""
    for site in uses.awaits:
        asked = isl.restrict_domain(element(uses, site), uses.ranks.waiting(site, depth))
        if isl.is_empty(asked):
            continue
        counts = {await_: orders.phase_before(await_, site, depth) for await_ in uses.awaits}
        failing = _unordered(uses, orders, site, asked, counts)
        if not isl.is_empty(failing):
            yield _Event(site, None, failing)


def phase_before(uses: BarrierUses, await_: Site, site: Site, depth: int) -> isl.Map:
    """The Awaits for arrival r - d, and those for arrival r on their element that come later."""
    ranks = uses.ranks
    bounds = ranks.bound_after(await_, site, depth)
    same = rel.pairs(element(uses, await_), element(uses, site))
    return isl.intersect_map(isl.intersect_map(same, bounds), earlier(uses, await_, site))
