"""Finds with ISL the execution orders that PHASE asks for (decision `mbarrier-phase`): an Await
before a thread, an arrival after a thread, and the chains between.

The order is of execution: it starts at an Await with its threads, and every sync for which
threads wait for others passes it on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exogpu.ir.nodes import CExpr
from exogpu.ir.types import Sym
from exogpu.solvers import isl, isl_functions
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode import witness
from exogpu.symbolic.encode.formulas import Instance, everyone
from exogpu.symbolic.encode.rank_table import own_element
from exogpu.symbolic.search.barrier_balance import BarrierUses, element, targets
from exogpu.symbolic.search.chain_expressions import Finder, Pair, Trail
from exogpu.symbolic.search.phase import Orders, any_thread
from exogpu.symbolic.search.sync_relations import Holder, instances
from exogpu.symbolic.search.visibility import Grants
from exogpu.symbolic.sites import Site

if TYPE_CHECKING:
    from exogpu.symbolic.search.witness_builder import Seeker


@dataclass(frozen=True, slots=True, eq=False)
class _OrderQuery:
    """A query: which Awaits that count is a thread of an instance ordered after, on one element?"""

    site: Site
    own: Mapping[Sym, CExpr]
    thread: CExpr
    on: witness.Values
    where: isl.Map
    """The instances and elements of which it is asked."""
    counts: Callable[[Site], isl.Map]
    """`Await -> instance`, of those that count."""


class Ordering:
    """The orders that PHASE of one mbarrier asks for, at one depth."""

    def __init__(self, seeker: Seeker, orders: Orders, depth: int) -> None:
        self.seeker = seeker
        self.orders = orders
        self.depth = depth
        self.uses: BarrierUses = orders.uses

    def not_early(self, site: Site) -> Iterator[witness.After]:
        """(i) Awaits for arrival r (under `paper` or later), before a thread of arrival r + d."""
        uses, model = self.uses, self.seeker.model
        return self._await_candidates(
            _OrderQuery(
                site,
                witness.names_of(site, "here", model.called),
                witness.witness_integer(f"here.{witness.THREAD}"),
                witness.element_names(len(model.variables[uses.name].shape)),
                isl.restrict_domain(targets(uses, site), uses.ranks.deep(site, self.depth)),
                lambda await_: self.orders.slot_awaited(await_, site, self.depth),
            )
        )

    def not_ahead(self, site: Site) -> Iterator[witness.After]:
        """(iii) Awaits for arrival r - d, before a thread of an Await for r."""
        uses = self.uses
        own = witness.names_of(site, "here", self.seeker.model.called)
        return self._await_candidates(
            _OrderQuery(
                site,
                own,
                witness.witness_integer(f"here.{witness.THREAD}"),
                self.seeker.in_witness(own_element(Instance(site, own))),
                isl.restrict_domain(element(uses, site), uses.ranks.waiting(site, self.depth)),
                lambda await_: self.orders.phase_before(await_, site, self.depth),
            )
        )

    # --- after an Await -------------------------------------------------------------------

    def _await_candidates(self, asked: _OrderQuery) -> Iterator[witness.After]:
        """Candidates for the Await that a thread of the instance is ordered after."""
        uses, site, left = self.uses, asked.site, asked.where
        if everyone(site):
            return
        for by_thread in (False, True):
            # First all threads of the instance at once, then each for itself.
            if by_thread:
                left = isl.compose(isl.inverse(uses.frame.with_thread(site)), left)
            for await_ in uses.awaits:
                for granted in self.orders.by_grants(any_thread(await_)):
                    if isl.is_empty(left):
                        return
                    found = self._awaits_before(asked, await_, granted, by_thread)
                    found = isl.inverse(found)
                    relation = isl_functions.joined(found, isl.inverse(element(uses, await_)))
                    relation = isl_functions.among(relation, left)
                    if not isl.is_empty(relation):
                        left = isl.subtract_map(left, isl_functions.inputs_of(relation))
                        yield from self._chains_to(asked, await_, granted, relation, by_thread)

    def _execution_map(self, by: Site, site: Site, by_thread: bool) -> isl.Map:
        """`by -> site`, all of whose threads, or the one that is a coordinate, execute `by`."""
        frame = self.uses.frame
        return frame.thread_after(by, site) if by_thread else frame.covered_pairs(by, site)

    def _awaits_before(
        self, asked: _OrderQuery, await_: Site, granted: int | None, by_thread: bool
    ) -> isl.Map:
        """The Awaits that count after which an instance is ordered, by one grant."""
        site, counts = asked.site, asked.counts(await_)
        if by_thread:
            counts = isl.compose(counts, self.uses.frame.with_thread(site))
        ordered = self.orders.all_threads(await_, granted, site, each=by_thread)
        return isl.intersect_map(ordered, counts)

    def _chains_to(
        self,
        asked: _OrderQuery,
        await_: Site,
        granted: int | None,
        relation: isl.Map,
        by_thread: bool,
    ) -> Iterator[witness.After]:
        """The chains from the Awaits that a relation `[instance -> element] -> Await` gives."""
        site = asked.site
        finder = self.seeker.finder(self.uses.frame, asked.own)
        inner = finder.dimension_values(site, asked.own)
        if by_thread:
            inner = (*inner, asked.thread)
        # A ring of Arrives back has many cases; the grant next to the instance has not.
        extreme = isl_functions.largest if self.seeker.model.slots else isl_functions.smallest
        start = extreme(relation)
        heard = self.orders.grants_after(any_thread(await_))
        waits = finder.values(start, (*inner, *asked.on))
        if granted is None:
            yield from (
                witness.After(finder.instance(await_, values), None, ()) for values in waits
            )
            return
        by = self.orders.syncs.site(granted)
        pairs = isl.inverse(isl_functions.first_of(isl_functions.graph(start)))
        reached = self._execution_map(by, site, by_thread)
        last = finder.middle(heard.full[granted], isl.inverse(reached), pairs)
        trail = Trail(finder, await_, False)
        ends = [(values, inner) for values in waits]
        for values, hear in zip(
            waits, _arrivals_that_hear(trail, heard, by, last, ends), strict=True
        ):
            yield from (witness.After(finder.instance(await_, values), one, ()) for one, _ in hear)

    # --- (ii) -----------------------------------------------------------------------------

    def followed(self, await_: Site) -> Iterator[witness.After]:
        """(ii) Candidates for the arrival that is ordered after the thread of an Await."""
        uses = self.uses
        if everyone(await_):
            return
        due_at = [(arrive, self._due(await_, arrive)) for arrive in uses.arrives]
        left = isl.domain(due_at[0][1])
        for _, due in due_at[1:]:
            left = isl.union(left, isl.domain(due))
        for exact in (False, True):
            # First all threads of the Await at once, then each for itself.
            waiter = Holder(await_, True, exact)
            if isl.is_empty(left):
                return
            if exact:
                left = isl.apply(left, isl.inverse(instances(uses.frame, waiter)))
            for arrive, due in due_at:
                for granted in self.orders.by_grants(waiter):
                    found = self._arrivals_after(waiter, granted, arrive, due)
                    found = isl.restrict_domain(found, left)
                    if not isl.is_empty(found):
                        left = isl.subtract(left, isl.domain(found))
                        yield from self._chains_from(waiter, granted, arrive, found)

    def _due(self, await_: Site, arrive: Site) -> isl.Map:
        """The Awaits and the arrivals `depth` later on their elements."""
        uses = self.uses
        waited = isl.restrict_domain(element(uses, await_), uses.ranks.waiting(await_))
        due = uses.ranks.due(arrive, await_, self.depth)
        that = isl.intersect_map(rel.pairs(waited, targets(uses, arrive)), isl.inverse(due))
        return uses.frame.same_allocation(that, await_, arrive, uses.name)

    def _arrivals_after(
        self, waiter: Holder, granted: int | None, arrive: Site, due: isl.Map
    ) -> isl.Map:
        """The Awaits (with their thread, where exact) and the arrivals due that are ordered after
        them, by one grant."""
        due = isl.compose(instances(self.uses.frame, waiter), due)
        return isl.intersect_map(self.orders.some_thread(waiter, granted, arrive), due)

    def _chains_from(
        self, waiter: Holder, granted: int | None, arrive: Site, found: isl.Map
    ) -> Iterator[witness.After]:
        """The chains from an Await to the arrivals that a relation gives it."""
        frame, await_ = self.uses.frame, waiter.site
        own = witness.names_of(await_, "here", self.seeker.model.called)
        finder = self.seeker.finder(frame, own)
        inputs = finder.dimension_values(await_, own)
        if waiter.with_members:
            inputs = (*inputs, witness.witness_integer(f"here.{witness.THREAD}"))
        start = isl_functions.smallest(found)
        arrivals = finder.values(start, inputs)
        if granted is None:
            yield from (
                witness.After(finder.instance(arrive, values), None, ()) for values in arrivals
            )
            return
        by = self.orders.syncs.site(granted)
        heard = self.orders.grants_after(waiter)
        shared = isl.inverse(frame.pairs_sharing_thread(by, arrive))
        last = finder.middle(heard.full[granted], shared, isl_functions.graph(start))
        trail = Trail(finder, await_, True)
        ends = [(inputs, values) for values in arrivals]
        for values, hear in zip(
            arrivals, _arrivals_that_hear(trail, heard, by, last, ends), strict=True
        ):
            there = finder.instance(arrive, values)
            for one, at in hear:
                yield witness.After(there, one, finder.common_threads(by, arrive, at, values))


def _arrivals_that_hear(
    trail: Trail, heard: Grants, by: Site, found: isl_functions.Between, ends: Sequence[Pair]
) -> list[list[tuple[witness.Granted, witness.Values]]]:
    """For each Await and what is ordered after it, candidates for an instance of `by` whose threads
    hear of the Await."""
    finder: Finder = trail.finder
    at = [
        [(one, hears) for hears in finder.candidates_between(found, one, second)]
        for one, second in ends
    ]
    flat = [pair for several in at for pair in several]
    ways = iter(trail.ways(by, witness.FULL, heard.steps, found.left, flat))
    return [
        [
            (witness.Granted(finder.instance(by, one), witness.FULL, tuple(next(ways))), one)
            for _, one in several
        ]
        for several in at
    ]
