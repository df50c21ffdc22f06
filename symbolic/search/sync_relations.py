"""The synchronisation operations of a frame, and which instances one grant leads to the next."""

from __future__ import annotations

from collections.abc import Iterator, Set
from copy import copy
from dataclasses import dataclass

from exogpu.amir.nodes import Arrive, Await, Fence, Record
from exogpu.ir.nodes import Access
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode.witness import Label
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.rank_comparisons import Ranks, SlotPairs
from exogpu.symbolic.sites import Site, UndecidedError, home_of, loaded_from


class Syncs:
    """The synchronisation operations of a frame, and from each grant to the next."""

    def __init__(self, frame: Frame, ranks: Ranks | None = None) -> None:
        self.frame = frame
        self.ranks = Ranks(frame) if ranks is None else ranks
        """Threads of two tasks may be two or one: it does not matter to them."""
        self.slots = SlotPairs(frame, self.ranks)
        self.fences = [site for site in frame.sites if isinstance(site.op, Fence)]
        self.arrives = [site for site in frame.sites if isinstance(site.op, Arrive)]
        self.awaits = [site for site in frame.sites if isinstance(site.op, Await)]
        self.trailing = [
            site
            for site in frame.sites
            if isinstance(site.op, Record) and site.op.trailing is not None
        ]
        self._sites = {site.number: site for site in frame.sites}
        self.missing: dict[tuple[int, int], UndecidedError] = {}
        self._edges: dict[tuple[int, int], isl.Map] = {}
        self._released: dict[int, tuple[tuple[Site, isl.Map], ...]] = {}
        self._hop: dict[tuple[int, int, int], isl.Map] = {}
        self._hops: dict[tuple[int, int], tuple[tuple[Site, isl.Map], ...]] = {}
        self._onward: dict[int, tuple[tuple[Site, Site, isl.Map], ...]] = {}
        self._certain: dict[frozenset[Site], Syncs] = {}

    def certain(self, loaded: Set[Access]) -> Syncs:
        """Returns the syncs whose execution depends on no loaded values but these; without these
        values nobody knows whether another one is executed."""

        def select(sites: list[Site]) -> list[Site]:
            return [site for site in sites if loaded_from(site) <= loaded]

        if not self.frame.model.loads:
            return self
        all_of = [*self.fences, *self.arrives, *self.awaits, *self.trailing]
        kept = frozenset(select(all_of))
        if len(kept) == len(all_of):
            return self
        if kept not in self._certain:
            made = copy(self)
            made.fences, made.arrives = select(self.fences), select(self.arrives)
            made.awaits, made.trailing = select(self.awaits), select(self.trailing)
            made._released, made._hops, made._onward = {}, {}, {}
            self._certain[kept] = made
        return self._certain[kept]

    @property
    def firing(self) -> list[Site]:
        return [*self.fences, *self.arrives]

    @property
    def joining(self) -> list[Site]:
        """Returns the syncs that pass execution order on (decision `mbarrier-phase`)."""
        joins = self.frame.model.joins
        return [*(site for site in self.firing if joins(site)), *self.trailing]

    @property
    def between_tasks(self) -> bool:
        """Tests whether tasks wait for each other, so that chains are as long as there are
        tasks."""
        variables = self.frame.model.variables
        barriers = (site.op.barrier for site in self.awaits if isinstance(site.op, Await))
        return any(variables[barrier.name].counts_all for barrier in barriers)

    @property
    def granting(self) -> list[Site]:
        return [*self.fences, *self.awaits]

    def site(self, number: int) -> Site:
        """The site of a number."""
        return self._sites[number]

    def edge(self, site: Site, await_: Site) -> isl.Map:
        """From an Arrive or trailing Record to an Await (`Ranks.edge`); nothing, and a note in
        `missing`, where it is undecided."""
        key = (site.number, await_.number)
        if key not in self._edges:
            try:
                self._edges[key] = self.ranks.edge(site, await_)
            except UndecidedError as reason:
                self.missing[key] = reason
                self._edges[key] = rel.empty_like(self.frame.instances_before(site, await_))
        return self._edges[key]

    def released_awaits(self, site: Site) -> tuple[tuple[Site, isl.Map], ...]:
        """The Awaits that a barrier's tags release, with the edges."""
        if site.number not in self._released:
            self._released[site.number] = tuple(self._all_released(site))
        return self._released[site.number]

    def _all_released(self, site: Site) -> Iterator[tuple[Site, isl.Map]]:
        name = home_of(site).name
        for await_ in self.awaits:
            assert isinstance(await_.op, Await)
            if await_.op.barrier.name == name:
                edge = self.edge(site, await_)
                if not isl.is_empty(edge):
                    yield await_, edge

    def grants(self, fired: isl.Map, site: Site) -> Iterator[tuple[Site, isl.Map]]:
        """Yields the granting sites that follow when a Fence or Arrive fires."""
        if isl.is_empty(fired):
            return
        if isinstance(site.op, Fence):
            yield site, fired
            return
        for await_, edge in self.released_awaits(site):
            yield await_, isl.compose(fired, edge)

    def hops(self, granted: Site, site: Site) -> tuple[tuple[Site, isl.Map], ...]:
        """From an instance that granted, over a later one of `site` with a shared thread, to what
        that one's firing grants."""
        key = (granted.number, site.number)
        if key not in self._hops:
            self._hops[key] = tuple(self._all_hops(granted, site))
        return self._hops[key]

    def _all_hops(self, granted: Site, site: Site) -> Iterator[tuple[Site, isl.Map]]:
        if isinstance(site.op, Fence):
            reached = [site]
        else:
            reached = [await_ for await_, _ in self.released_awaits(site)]
        for next_ in reached:
            found = self.hop(granted, site, next_)
            if not isl.is_empty(found):
                yield next_, found

    def onward(self, granted: Site) -> tuple[tuple[Site, Site, isl.Map], ...]:
        """The hops in execution order from an instance that granted: the sync, what it grants and
        the pairs, without those that lead to no more than the hops before them."""
        if granted.number not in self._onward:
            self._onward[granted.number] = tuple(self._all_onward(granted))
        return self._onward[granted.number]

    def _all_onward(self, granted: Site) -> Iterator[tuple[Site, Site, isl.Map]]:
        reached: dict[int, isl.Map] = {}
        for site in self.joining:
            for next_, pairs in self.hops(granted, site):
                known = reached.get(next_.number)
                if known is not None and isl.is_subset_map(pairs, known):
                    continue
                reached[next_.number] = pairs if known is None else isl.union_map(known, pairs)
                yield site, next_, pairs

    def hop(self, granted: Site, site: Site, next_: Site) -> isl.Map:
        """The part of `hops` that leads to `next_`."""
        shared = self.frame.pairs_sharing_thread(granted, site)
        if isinstance(site.op, Fence):
            return shared
        key = (granted.number, site.number, next_.number)
        if key not in self._hop:
            self._hop[key] = rel.coalesce(isl.compose(shared, self.edge(site, next_)))
        return self._hop[key]


# Records of one site as the closure sees them, and which later instances there are for them.


@dataclass(frozen=True, slots=True)
class Holder:
    """Records of one site as the closure sees them.

    Of a record per thread, either each thread is a coordinate (`members`), or the instance
    stands for all its threads at once: then what is found holds for every one of them, and
    something may be missed.
    """

    site: Site
    each: bool
    """One record a thread."""
    exact: bool

    @property
    def op(self) -> Record:
        assert isinstance(self.site.op, Record)
        return self.site.op

    @property
    def with_members(self) -> bool:
        return self.each and self.exact

    @property
    def name(self) -> str:
        return f"{self.site.tuple_name}t"


def holder(frame: Frame, site: Site, *, exact: bool) -> Holder:
    """The records of a Record: one a thread, unless convergent, without timeline or at CPU
    scope."""
    op = site.op
    assert isinstance(op, Record)
    one = op.convergent or op.timeline is None or frame.everyone(site)
    return Holder(site, not one, exact)


def members(frame: Frame, records: Holder) -> isl.Map:
    """`S7h[k, t] -> T[t]`: the thread of a record."""
    return rel.output_of_extended(frame.threads(records.site), records.name)


def instances(frame: Frame, records: Holder) -> isl.Map:
    """`S7h[k, t] -> S7[k]`, or the identity where members are no coordinates."""
    if not records.with_members:
        return rel.identity(frame.domain(records.site))
    return isl.inverse(rel.extend_input(frame.threads(records.site), records.name))


def first_seen(frame: Frame, records: Holder, site: Site) -> isl.Map:
    """The records and the later instances of `site` executed by a thread that made the record:
    by every one, where the instance stands for all its threads."""
    if not records.each:
        return frame.pairs_sharing_thread(records.site, site)
    if not records.exact:
        return frame.covers(records.site, site)
    later = frame.same_task(frame.instances_before(records.site, site), records.site, site)
    later = isl.compose(instances(frame, records), later)
    if frame.everyone(site):
        return later
    return isl.intersect_map(later, rel.pairs(members(frame, records), frame.threads(site)))


class Later:
    """By granting site, the records with all its later instances: no grant goes beyond these."""

    def __init__(self, frame: Frame, records: Holder) -> None:
        self._frame = frame
        self._records = records
        self._all: dict[int, isl.Map] = {}
        self._holds: dict[tuple[Label, int], tuple[isl.Map, bool]] = {}

    def holds(self, label: Label, site: Site, known: isl.Map | None) -> bool:
        """Tests whether the pairs known to be granted at a site are all there can be."""
        if known is None:
            return False
        asked, found = self._holds.get((label, site.number), (None, False))
        if asked is not known:
            found = isl.is_subset_map(self._later_instances(site), known)
            self._holds[label, site.number] = known, found
        return found

    def _later_instances(self, site: Site) -> isl.Map:
        if site.number not in self._all:
            made = instances(self._frame, self._records)
            before = self._frame.instances_before(self._records.site, site)
            self._all[site.number] = isl.compose(made, before)
        return self._all[site.number]
