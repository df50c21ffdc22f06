"""The synchronisation operations of a frame, and which instances one grant leads to the next."""

from __future__ import annotations

from collections.abc import Iterator, Set
from copy import copy

from exogpu.amir.nodes import Arrive, Await, Fence, Record
from exogpu.ir.nodes import Access
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.find.ranks import Ranks
from exogpu.symbolic.find.slots import SlotPairs
from exogpu.symbolic.sites import Site, UndecidedError, home_of, loaded_from


class Syncs:
    """The synchronisation operations of a frame, and from each grant to the next."""

    def __init__(self, frame: Frame, ranks: Ranks | None = None) -> None:
        self.frame = frame
        self.ranks = Ranks(frame) if ranks is None else ranks
        """Whether threads of two tasks are two does not matter to them."""
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

        def some(sites: list[Site]) -> list[Site]:
            return [site for site in sites if loaded_from(site) <= loaded]

        if not self.frame.model.loads:
            return self
        all_of = [*self.fences, *self.arrives, *self.awaits, *self.trailing]
        kept = frozenset(some(all_of))
        if len(kept) == len(all_of):
            return self
        if kept not in self._certain:
            made = copy(self)
            made.fences, made.arrives = some(self.fences), some(self.arrives)
            made.awaits, made.trailing = some(self.awaits), some(self.trailing)
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
                self._edges[key] = rel.empty_like(self.frame.before(site, await_))
        return self._edges[key]

    def released(self, site: Site) -> tuple[tuple[Site, isl.Map], ...]:
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
        for await_, edge in self.released(site):
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
            reached = [await_ for await_, _ in self.released(site)]
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
        shared = self.frame.shared(granted, site)
        if isinstance(site.op, Fence):
            return shared
        key = (granted.number, site.number, next_.number)
        if key not in self._hop:
            self._hop[key] = rel.coalesce(isl.compose(shared, self.edge(site, next_)))
        return self._hop[key]
