"""Proposes the Arrive or Await that answers another: the candidates for the instances that counts
speak of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from exogpu.amir.nodes import Await
from exogpu.ir.names import Sym
from exogpu.ir.nodes import CExpr
from exogpu.solvers import isl
from exogpu.solvers import isl_functions as functions
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode.witness import At, element_names, names_of
from exogpu.symbolic.find.barriers import BarrierUses, earlier, targets
from exogpu.symbolic.find.counting import Counting, cells
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.sites import Site

if TYPE_CHECKING:
    from exogpu.symbolic.find.witness import Seeker


class Partners:
    """The partners of one barrier's instances."""

    def __init__(self, seeker: Seeker, uses: BarrierUses, counting: Counting) -> None:
        self.seeker = seeker
        self.uses = uses
        self.counting = counting
        self.called = seeker.model.called

    def _given(self, frame: Frame, relation: isl.Map, here: Site, there: Site) -> Iterator[At]:
        """The candidates for the instance of `there` that a relation gives one of `here`."""
        if isl.is_empty(relation):
            return
        own = names_of(here, "here", self.called)
        finder = self.seeker.finder(frame, own)
        inputs = finder.inner(here, own)
        for values in finder.values(functions.smallest(relation), inputs):
            yield finder.instance(there, values)

    # --- counts ---------------------------------------------------------------------------

    def previous(self, site: Site) -> Iterator[At]:
        """For what is counted at a site: the one before."""
        arrivals = not isinstance(site.op, Await) or site.op.n >= 0
        for other in self.uses.arrives if arrivals else self.uses.awaits:
            relation = self.counting.previous(site, other, arrivals=arrivals)
            yield from self._given(self.counting.counts.frame, relation, site, other)

    def last(self, site: Site) -> Iterator[At]:
        """The last Arrive, or Await, of this site on an element."""
        frame = self.counting.counts.frame
        relation = self.counting.last(site, arrivals=not isinstance(site.op, Await))
        if isl.is_empty(relation):
            return
        outer: Mapping[Sym, CExpr] = names_of(site, "outer", self.called)
        finder = self.seeker.finder(frame, outer)
        element = element_names(len(self.seeker.model.variables[self.uses.name].shape))
        for values in finder.values(functions.smallest(relation), element):
            yield finder.instance(site, values)

    # --- balance --------------------------------------------------------------------------

    def awaited(self, site: Site) -> Iterator[At]:
        """The Awaits that count up to an Arrive."""
        for await_ in self.uses.awaits:
            assert isinstance(await_.op, Await)
            if await_.op.n >= 0:
                values = self.counting.released(site, await_)
            else:
                values = self.counting.meeting(site, await_)
            relation = isl.intersect_map(self.counting.same_cells(site, await_), values)
            yield from self._given(self.uses.frame, relation, site, await_)

    def arrived(self, site: Site) -> Iterator[At]:
        """The Arrive of the rank that an Await counts."""
        for arrive in self.uses.arrives:
            met = isl.inverse(self.counting.meeting(arrive, site))
            relation = isl.intersect_map(self.counting.same_cells(site, arrive), met)
            yield from self._given(self.uses.frame, relation, site, arrive)

    def trailed(self, site: Site) -> Iterator[At]:
        """The Arrive of a trailing barrier's rank."""
        for arrive in self.uses.arrives:
            trailed = self.counting.trailed(site, arrive)
            relation = isl.intersect_map(self.counting.same_cells(site, arrive), trailed)
            yield from self._given(self.uses.frame, relation, site, arrive)

    # --- DEADLOCK -------------------------------------------------------------------------

    def signals(self, site: Site) -> Iterator[At]:
        """Some Arrive that targets an Await's element, before it."""
        for arrive in self.uses.arrives:
            relation = isl.restrict_domain(self._met(site, arrive), self.uses.ranks.waiting(site))
            yield from self._given(self.uses.frame, relation, site, arrive)

    def enough(self, site: Site, other: Site) -> Iterator[At]:
        """An Arrive before an Await, of the other's home, of the rank that the Await needs."""
        uses, met = self.uses, self._met(site, other)
        for arrive in uses.arrives:
            before_it = isl.inverse(earlier(uses, arrive, site))
            late = self.counting.enough(site, arrive, before_it)
            same = self.counting.same_cells(other, arrive)
            relation = functions.among(functions.joined(late, same), met)
            if isl.is_empty(relation):
                continue
            own = names_of(site, "here", self.called)
            theirs = names_of(other, "other", self.called)
            finder = self.seeker.finder(uses.frame, own)
            inputs = (*finder.inner(site, own), *finder.inner(other, theirs))
            # Of what an Await for all but the newest finds, the newest is next to it.
            chosen = functions.largest if self._newest() else functions.smallest
            for values in finder.values(chosen(relation), inputs):
                yield finder.instance(arrive, values)

    def _newest(self) -> bool:
        nest = self.counting.nest
        return nest is not None and nest.newest

    def _met(self, site: Site, arrive: Site) -> isl.Map:
        """`site -> arrive`, the Arrives on an Await's element before it."""
        uses = self.uses
        met = rel.pairs(cells(uses.frame, site), targets(uses, arrive))
        return isl.intersect_map(met, isl.inverse(earlier(uses, arrive, site)))
