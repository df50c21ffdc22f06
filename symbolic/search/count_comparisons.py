"""Arrive and await counts of one barrier as ISL has them, and the comparisons they allow.

Under nested symbolic loops a count is no expression.  There the common outer loops of a barrier's
sites are set apart (`symbolic.encode.rank_table`), and instances are compared by order (`Nest`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from exogpu.amir.nodes import Await, Loop
from exogpu.ir.nodes import CExpr
from exogpu.ir.types import Sym
from exogpu.solvers import isl, isl_functions
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode.witness import At, element_names, names_of
from exogpu.symbolic.search import barrier_balance
from exogpu.symbolic.search.barrier_balance import BarrierUses, targets
from exogpu.symbolic.search.counts import Counts
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.instance_model import Model
from exogpu.symbolic.search.nested_counts import Nest
from exogpu.symbolic.sites import Site, UndecidedError, counted_on

if TYPE_CHECKING:
    from exogpu.symbolic.search.witness_builder import Seeker


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
            self.ranks.await_limit(site)
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
        return rel.plus(self.counts.await_limit(site), -(site.op.n + 1))

    def totals(self) -> rel.Count:
        """Counts the Arrives on each element in one iteration of the loops set apart."""
        return self.counts.total_counts(
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

    def last_instances(self, site: Site, *, arrivals: bool) -> isl.Map:
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
            return self.nest.arrives_after(site, 1)[arrive]
        return rel.pairs(self.graph(site, arrivals=True), self.graph(arrive, arrivals=True))

    def released_pairs(self, arrive: Site, await_: Site) -> isl.Map:
        """The pairs with `rank <= Max`."""
        return self.ranks.released_pairs(arrive, await_, 0)

    def sufficient_pairs(self, await_: Site, arrive: Site, pairs: isl.Map) -> isl.Map:
        """The pairs `await_ -> arrive`, of those given, with `Max <= rank`."""
        return isl.subtract_map(pairs, isl.inverse(self.ranks.released_pairs(arrive, await_, -1)))


# Proposes the Arrive or Await that answers another: the candidates for the instances that counts
# speak of.


class Partners:
    """The partners of one barrier's instances."""

    def __init__(self, seeker: Seeker, uses: BarrierUses, counting: Counting) -> None:
        self.seeker = seeker
        self.uses = uses
        self.counting = counting
        self.called = seeker.model.called

    def _candidates_at(
        self, frame: Frame, relation: isl.Map, here: Site, there: Site
    ) -> Iterator[At]:
        """The candidates for the instance of `there` that a relation gives one of `here`."""
        if isl.is_empty(relation):
            return
        own = names_of(here, "here", self.called)
        finder = self.seeker.finder(frame, own)
        inputs = finder.dimension_values(here, own)
        for values in finder.values(isl_functions.smallest(relation), inputs):
            yield finder.instance(there, values)

    # --- counts ---------------------------------------------------------------------------

    def previous(self, site: Site) -> Iterator[At]:
        """For what is counted at a site: the one before."""
        arrivals = not isinstance(site.op, Await) or site.op.n >= 0
        for other in self.uses.arrives if arrivals else self.uses.awaits:
            relation = self.counting.previous(site, other, arrivals=arrivals)
            yield from self._candidates_at(self.counting.counts.frame, relation, site, other)

    def last_on_element(self, site: Site) -> Iterator[At]:
        """The last Arrive, or Await, of this site on an element."""
        frame = self.counting.counts.frame
        relation = self.counting.last_instances(site, arrivals=not isinstance(site.op, Await))
        if isl.is_empty(relation):
            return
        outer: Mapping[Sym, CExpr] = names_of(site, "outer", self.called)
        finder = self.seeker.finder(frame, outer)
        element = element_names(len(self.seeker.model.variables[self.uses.name].shape))
        for values in finder.values(isl_functions.smallest(relation), element):
            yield finder.instance(site, values)

    # --- balance --------------------------------------------------------------------------

    def awaits(self, site: Site) -> Iterator[At]:
        """The Awaits that count up to an Arrive."""
        for await_ in self.uses.awaits:
            assert isinstance(await_.op, Await)
            if await_.op.n >= 0:
                values = self.counting.released_pairs(site, await_)
            else:
                values = self.counting.meeting(site, await_)
            relation = isl.intersect_map(self.counting.same_cells(site, await_), values)
            yield from self._candidates_at(self.uses.frame, relation, site, await_)

    def arrives(self, site: Site) -> Iterator[At]:
        """The Arrive of the rank that an Await counts."""
        for arrive in self.uses.arrives:
            met = isl.inverse(self.counting.meeting(arrive, site))
            relation = isl.intersect_map(self.counting.same_cells(site, arrive), met)
            yield from self._candidates_at(self.uses.frame, relation, site, arrive)

    def trailed(self, site: Site) -> Iterator[At]:
        """The Arrive of a trailing barrier's rank."""
        for arrive in self.uses.arrives:
            trailed = self.counting.trailed(site, arrive)
            relation = isl.intersect_map(self.counting.same_cells(site, arrive), trailed)
            yield from self._candidates_at(self.uses.frame, relation, site, arrive)

    # --- DEADLOCK -------------------------------------------------------------------------

    def signals(self, site: Site) -> Iterator[At]:
        """Some Arrive that targets an Await's element, before it."""
        for arrive in self.uses.arrives:
            relation = isl.restrict_domain(self._met(site, arrive), self.uses.ranks.waiting(site))
            yield from self._candidates_at(self.uses.frame, relation, site, arrive)

    def sufficient_arrivals(self, site: Site, other: Site) -> Iterator[At]:
        """An Arrive before an Await, of the other's home, of the rank that the Await needs."""
        uses, met = self.uses, self._met(site, other)
        for arrive in uses.arrives:
            before_it = isl.inverse(barrier_balance.earlier(uses, arrive, site))
            late = self.counting.sufficient_pairs(site, arrive, before_it)
            same = self.counting.same_cells(other, arrive)
            relation = isl_functions.among(isl_functions.joined(late, same), met)
            if isl.is_empty(relation):
                continue
            own = names_of(site, "here", self.called)
            theirs = names_of(other, "other", self.called)
            finder = self.seeker.finder(uses.frame, own)
            inputs = (*finder.dimension_values(site, own), *finder.dimension_values(other, theirs))
            # Of what an Await for all but the newest finds, the newest is next to it.
            chosen = isl_functions.largest if self._newest() else isl_functions.smallest
            for values in finder.values(chosen(relation), inputs):
                yield finder.instance(arrive, values)

    def _newest(self) -> bool:
        nest = self.counting.nest
        return nest is not None and nest.newest

    def _met(self, site: Site, arrive: Site) -> isl.Map:
        """`site -> arrive`, the Arrives on an Await's element before it."""
        uses = self.uses
        met = rel.pairs(cells(uses.frame, site), targets(uses, arrive))
        return isl.intersect_map(met, isl.inverse(barrier_balance.earlier(uses, arrive, site)))
