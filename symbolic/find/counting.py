"""Arrive and await counts of one barrier as ISL has them, and the comparisons they allow.

Under nested symbolic loops a count is no expression.  There the common outer loops of a barrier's
sites are set apart (`symbolic.encode.ranks`), and instances are compared by order (`Nest`).
"""

from __future__ import annotations

from collections.abc import Sequence

from exogpu.amir.nodes import Await, Loop
from exogpu.ir.names import Sym
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.find.barriers import BarrierUses
from exogpu.symbolic.find.counts import Counts
from exogpu.symbolic.find.domains import Model
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.find.nests import Nest
from exogpu.symbolic.sites import Site, UndecidedError, counted_on


def cells(frame: Frame, site: Site) -> isl.Map:
    """`site -> element` on which it counts."""
    return frame.cells(site, counted_on(site))


class Counting:
    """The counts of one barrier, at each of its sites.

    Raises UndecidedError where they are neither expressions nor those of a nest.
    """

    def __init__(self, model: Model, uses: BarrierUses) -> None:
        self.model = model
        self.uses = uses
        self.name: Sym = uses.name
        self.ranks = uses.ranks
        self.counts: Counts = uses.ranks
        """Within one iteration of the loops that are set apart."""
        self.nest: Nest | None = None
        self.apart: tuple[Loop, ...] = ()
        """All loops whose iterations are counted apart, those of the allocation among them."""
        sites = (*uses.arrives, *uses.trailing, *uses.awaits, *uses.slots)
        try:
            for site in sites:
                self._all_counts(site)
        except UndecidedError as reason:
            self._by_order(sites, reason)

    def _all_counts(self, site: Site) -> None:
        if isinstance(site.op, Await):
            self.ranks.bound(site)
        else:
            self.ranks.arrivals(site, counted_on(site))

    def _by_order(self, sites: Sequence[Site], reason: UndecidedError) -> None:
        self.nest = self.ranks.nest(self.name, reason)
        assert self.nest.inner is not None
        self.counts = self.nest.inner
        self.apart = self.nest.loops
        depth = len(self.apart)
        # One allocation lives through all iterations of the last of these loops.
        if len(self.model.scope(self.name, reason.span)) >= depth:
            raise reason
        for site in sites:
            if site.loops[:depth] != self.apart and self.nest.begins(site) is None:
                raise reason

    # --- counts ---------------------------------------------------------------------------

    def count(self, site: Site, *, arrivals: bool) -> rel.Count:
        """Counts the Arrives, or Awaits, that come before an instance on its element."""
        if arrivals:
            return self.counts.arrivals(site, counted_on(site))
        assert isinstance(site.op, Await) and site.op.n < 0
        return rel.plus(self.counts.bound(site), -(site.op.n + 1))

    def totals(self) -> rel.Count:
        """Counts the Arrives on each element in one iteration of the loops set apart."""
        return self.counts.whole(
            self.counts.arrives(self.name), self.counts.frame.elements(self.name)
        )

    # --- pairs ----------------------------------------------------------------------------

    def same_cells(self, first: Site, second: Site) -> isl.Map:
        """The pairs on one element of one allocation."""
        frame = self.uses.frame
        same = rel.pairs(cells(frame, first), cells(frame, second))
        return frame.same_allocation(same, first, second, self.name)

    def previous(self, site: Site, other: Site, *, arrivals: bool) -> isl.Map:
        """`site -> other`, the latest before it on the element."""
        frame = self.counts.frame
        values = rel.pairs(
            rel.graph(rel.plus(self.count(site, arrivals=arrivals), -1)),
            rel.graph(self.count(other, arrivals=arrivals)),
        )
        relation = isl.intersect_map(values, rel.pairs(cells(frame, site), cells(frame, other)))
        earlier = frame.earlier(other, site, self.name)
        return isl.intersect_map(relation, isl.inverse(earlier))

    def last(self, site: Site, *, arrivals: bool) -> isl.Map:
        """`element -> site`, the last on it in an iteration of the loops set apart."""
        relation = rel.pairs(
            rel.graph(rel.plus(self.totals(), -1)),
            rel.graph(self.count(site, arrivals=arrivals)),
        )
        return isl.intersect_map(relation, isl.inverse(cells(self.counts.frame, site)))

    def graph(self, site: Site, *, arrivals: bool) -> isl.Map:
        """`site -> [count]`, outside nests."""
        return rel.graph(self.count(site, arrivals=arrivals))

    def meeting(self, arrive: Site, await_: Site) -> isl.Map:
        """The pairs of an Arrive and the Await that counts as many before it."""
        if self.nest is not None:
            return isl.inverse(self.nest.meets(await_, arrive))
        return rel.pairs(self.graph(arrive, arrivals=True), self.graph(await_, arrivals=False))

    def trailed(self, site: Site, arrive: Site) -> isl.Map:
        """The pairs of a trailing barrier and the Arrive of its rank."""
        if self.nest is not None:
            return self.nest.after(site, 1)[arrive]
        return rel.pairs(self.graph(site, arrivals=True), self.graph(arrive, arrivals=True))

    def released(self, arrive: Site, await_: Site) -> isl.Map:
        """The pairs with `rank <= Max`."""
        return self.ranks.released(arrive, await_, 0)

    def enough(self, await_: Site, arrive: Site, pairs: isl.Map) -> isl.Map:
        """The pairs `await_ -> arrive`, of those given, with `Max <= rank`."""
        return isl.subtract_map(pairs, isl.inverse(self.ranks.released(arrive, await_, -1)))
