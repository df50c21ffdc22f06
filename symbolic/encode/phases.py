"""Obligations of PHASE (decision 12): on an mbarrier no arrival runs a ring ahead of a waiter, and
no waiter a ring ahead of the arrivals.

The order is of execution: it starts at an Await with its threads, and every sync passes it on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, CExpr, Int
from exogpu.result.hazards import HazardKind
from exogpu.solvers import isl
from exogpu.solvers import isl_functions as functions
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode.chains import Chains, ExecutionOrder
from exogpu.symbolic.encode.drafts import Certifier, Draft
from exogpu.symbolic.encode.expressions import linear
from exogpu.symbolic.encode.formulas import (
    Instance,
    at_most,
    before,
    equal,
    every,
    everyone,
    executes,
    exists,
    in_shape,
    inside,
    plus,
    same_allocation,
    same_task,
    some,
)
from exogpu.symbolic.encode.ranks import own_element
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.encode.witness import Ends, Finder, Granted, Trail, Values
from exogpu.symbolic.find.barriers import BarrierUses, element, targets
from exogpu.symbolic.find.closure import FULL, Grants, Holder, first_seen, instances
from exogpu.symbolic.find.phase import Orders, late_enough, phase_before
from exogpu.symbolic.find.sites import Site, UndecidedError, targets_of


def phase_obligations(certifier: Certifier, orders: Orders) -> Iterator[Draft]:
    """PHASE of one mbarrier.

    Raises UndecidedError where no one depth holds for all its allocations.
    """
    if orders.depth is None:
        if not orders.uses.frees:
            return  # A depth that must be found is asked for at the free.
        span = (*orders.uses.awaits, *orders.uses.frees)[0].op.origin.span
        raise UndecidedError(f"no one ring depth holds for {orders.uses.name.name}", span)
    made = _Phase(certifier, orders, orders.depth)
    for site in (*orders.uses.arrives, *orders.uses.trailing):
        yield made.not_early(site)
    for await_ in orders.uses.awaits:
        for arrive in orders.uses.arrives:
            yield made.followed(await_, arrive)
    for await_ in orders.uses.awaits:
        yield made.not_ahead(await_)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """That a thread of an instance is ordered after an Await that counts, on one element."""

    script: Script
    here: Instance
    on: Values
    thread: CExpr
    where: isl.Map
    """The instances and elements of which it is asked."""
    counts: Callable[[Site], isl.Map]
    """`Await -> instance`, of those that count."""
    suits: Callable[[CExpr], BExpr]
    """Whether an Await of this bound counts, as a formula."""


class _Phase:
    """PHASE of one mbarrier at one depth."""

    def __init__(self, certifier: Certifier, orders: Orders, depth: int) -> None:
        self.certifier = certifier
        self.orders = orders
        self.depth = depth
        self.uses: BarrierUses = orders.uses
        self.model = certifier.model
        self.name: Sym = self.uses.name
        self.table = certifier.ranks(self.name)

    # --- (i) ------------------------------------------------------------------------------

    def not_early(self, site: Site) -> Draft:
        """(i) every thread of arrival r + d on an element, and of every instruction trailing on
        it, is ordered after some Await for arrival r or later on it."""
        if everyone(site):
            raise UndecidedError("an arrival on an mbarrier at CPU scope", site.op.origin.span)
        script = self.certifier.script()
        here = script.free(site, "arrival.")
        script.assume(exists(here))
        shape = self.model.variables[self.name].shape
        on = tuple(script.constant(Sym(f"element{at}")) for at in range(len(shape)))
        script.assume(in_shape(self.model, self.name, on))
        script.assume(some(inside(here, target, on) for target in targets_of(site)))
        thread = script.thread(here, "arrival.thread")
        rank = self.table.arrivals(script, here, "arrival")
        script.assume(at_most(Int(self.depth), rank))
        uses = self.uses
        asked = _Asked(
            script,
            here,
            on,
            thread,
            isl.restrict_domain(targets(uses, site), uses.ranks.deep(site, self.depth)),
            lambda await_: late_enough(uses, await_, site, self.depth),
            lambda bound: at_most(plus(rank, -self.depth), bound),
        )
        script.refute(list(self._awaited(asked)))
        claim = (
            f"No arrival at line {site.op.origin.span.line} ({site.op.origin.text}) on "
            f"{self.name.name} runs {self.depth} ahead of a waiter: each of its threads is "
            "ordered after an Await for the arrival that many before it, or a later one."
        )
        return Draft(HazardKind.PHASE, self.name, None, site, claim, script.text(claim))

    # --- (iii) ----------------------------------------------------------------------------

    def not_ahead(self, site: Site) -> Draft:
        """(iii) each thread of an Await for arrival r >= d on an element is ordered after an Await
        for arrival r - d on it."""
        if everyone(site):
            raise UndecidedError("an Await on an mbarrier at CPU scope", site.op.origin.span)
        script = self.certifier.script()
        here = script.free(site, "await.")
        script.assume(exists(here))
        thread = script.thread(here, "await.thread")
        bound = self.table.bound(script, here, "await")
        script.assume(at_most(Int(self.depth), bound))
        uses = self.uses
        asked = _Asked(
            script,
            here,
            own_element(here),
            thread,
            isl.restrict_domain(element(uses, site), uses.ranks.waiting(site, self.depth)),
            lambda await_: phase_before(uses, await_, site, self.depth),
            lambda other: equal(plus(bound, -self.depth), other),
        )
        script.refute(list(self._awaited(asked)))
        claim = (
            f"No Await at line {site.op.origin.span.line} ({site.op.origin.text}) runs "
            f"{self.depth} ahead of the arrivals: each of its threads is ordered after an Await "
            "for the arrival that many before the one it waits for."
        )
        return Draft(HazardKind.PHASE, self.name, None, site, claim, script.text(claim))

    # --- after an Await -------------------------------------------------------------------

    def _awaited(self, asked: _Asked) -> Iterator[str]:
        """Candidates for the Await that a thread of the instance is ordered after."""
        uses, site, left = self.uses, asked.here.site, asked.where
        for by_thread in (False, True):
            # First all threads of the instance at once, then each for itself.
            if by_thread:
                left = isl.compose(isl.inverse(uses.frame.with_thread(site)), left)
            for await_ in uses.awaits:
                for granted in (None, *sorted(self.orders.heard(_any(await_)).full)):
                    if isl.is_empty(left):
                        return
                    found = self._before(asked, await_, granted, by_thread)
                    found = isl.inverse(found)
                    relation = functions.joined(found, isl.inverse(element(uses, await_)))
                    relation = functions.among(relation, left)
                    if not isl.is_empty(relation):
                        left = isl.subtract_map(left, functions.inputs_of(relation))
                        yield from self._chains_to(asked, await_, granted, relation, by_thread)

    def _reached(self, by: Site, site: Site, by_thread: bool) -> isl.Map:
        """`by -> site`, all of whose threads, or the one that is a coordinate, execute `by`."""
        frame = self.uses.frame
        return frame.thread_after(by, site) if by_thread else frame.covered(by, site)

    def _before(self, asked: _Asked, await_: Site, granted: int | None, by_thread: bool) -> isl.Map:
        """The Awaits that count after which an instance is ordered, by one grant."""
        site, counts = asked.here.site, asked.counts(await_)
        if by_thread:
            counts = isl.compose(counts, self.uses.frame.with_thread(site))
        if granted is None:
            return isl.intersect_map(self._reached(await_, site, by_thread), counts)
        heard = self.orders.heard(_any(await_)).full[granted]
        reached = self._reached(self.orders.syncs.site(granted), site, by_thread)
        return isl.intersect_map(isl.compose(heard, reached), counts)

    def _chains_to(
        self, asked: _Asked, await_: Site, granted: int | None, relation: isl.Map, by_thread: bool
    ) -> Iterator[str]:
        """The chains from the Awaits that a relation `[instance -> element] -> Await` gives."""
        here = asked.here
        finder = self.certifier.beside(self.uses.frame, here)
        inner = (*finder.inner(here), asked.thread) if by_thread else finder.inner(here)
        start = functions.smallest(relation)
        heard = self.orders.heard(_any(await_))
        for values in finder.values(start, (*inner, *asked.on)):
            chain = None
            if granted is not None:
                by = self.orders.syncs.site(granted)
                pairs = isl.inverse(functions.first_of(functions.graph(start)))
                reached = self._reached(by, here.site, by_thread)
                last = functions.joined(heard.full[granted], isl.inverse(reached))
                function = functions.smallest(functions.among(last, pairs))
                chain = (heard, by, function, (*values, *inner))
            yield from self._is_after(asked, await_, values, chain)

    def _is_after(
        self,
        asked: _Asked,
        await_: Site,
        values: Values,
        chain: tuple[Grants, Site, functions.Function, Values] | None,
    ) -> Iterator[str]:
        """The thread of the instance is ordered after this Await, which counts."""
        script, here, thread = asked.script, asked.here, asked.thread
        finder = self.certifier.beside(self.uses.frame, here)
        label, waits = script.named(finder.instance(await_, values))
        bound = self.table.bound(script, waits, label)
        self.table.relate(script, waits, here)
        there = own_element(waits)
        counts: list[BExpr] = [
            exists(waits),
            before(waits, here),
            same_allocation(self.model, waits, here, self.name),
            every(equal(one, other) for one, other in zip(there, asked.on, strict=True)),
            asked.suits(bound),
        ]
        if chain is None:
            parts = [*counts, same_task(self.model, waits, here), executes(thread, waits)]
            yield script.node(f"{label}.is_before", parts)
            return
        heard, by, function, inputs = chain
        ends = Ends(waits, None, here, thread, asked.on)
        chains = Chains(script, self.model, self.certifier.ranks, ends)
        for node, at in self._heard(finder, chains, heard, by, function, inputs, values):
            parts = [
                *counts,
                before(at, here),
                same_task(self.model, at, here),
                executes(thread, at),
            ]
            yield script.node(f"{label}.is_before", [[node], *parts])

    def _heard(
        self,
        finder: Finder,
        chains: Chains,
        heard: Grants,
        by: Site,
        function: functions.Function,
        inputs: Values,
        record: Values,
    ) -> Iterator[tuple[str, Instance]]:
        """Candidates for an instance of `by` whose threads hear of the Await."""
        each = chains.ends.record_thread is not None
        trail = Trail(finder, chains.ends.record.site, record, each)
        needed = functions.first_of(functions.graph(function))
        at = finder.values(function, inputs)
        for one, ways in zip(at, trail.ways(by, FULL, heard.steps, needed, at), strict=True):
            granted = Granted(finder.instance(by, one), FULL, tuple(ways))
            found = chains.granted(granted, ExecutionOrder())
            if found is not None:
                yield found

    # --- (ii) -----------------------------------------------------------------------------

    def followed(self, await_: Site, arrive: Site) -> Draft:
        """(ii) for each Await of r by thread g, some thread of arrival r + d is ordered after
        it; vacuous where arrival r + d does not exist."""
        if everyone(await_):
            raise UndecidedError("an Await on an mbarrier at CPU scope", await_.op.origin.span)
        script = self.certifier.script()
        waits, other = script.free(await_, "await."), script.free(arrive, "arrival.")
        script.assume(exists(waits))
        script.assume(exists(other))
        script.assume(same_allocation(self.model, waits, other, self.name))
        on = own_element(waits)
        script.assume(some(inside(other, target, on) for target in targets_of(arrive)))
        thread = script.thread(waits, "await.thread")
        bound = self.table.bound(script, waits, "await")
        script.assume(at_most(Int(0), bound))
        rank = self.table.arrivals(script, other, "arrival")
        self.table.relate(script, other, waits)
        script.assume(equal(rank, linear(self.depth, [(1, bound)])))
        script.refute(list(self._followers(script, waits, thread, bound)))
        claim = (
            f"Each thread of the Await at line {await_.op.origin.span.line} "
            f"({await_.op.origin.text}) is waited for by the arrival {self.depth} later, where "
            f"line {arrive.op.origin.span.line} ({arrive.op.origin.text}) makes one."
        )
        return Draft(HazardKind.PHASE, self.name, await_, arrive, claim, script.text(claim))

    def _followers(
        self, script: Script, waits: Instance, thread: CExpr, bound: CExpr
    ) -> Iterator[str]:
        """Candidates for the arrival that is ordered after the thread of an Await."""
        uses, await_ = self.uses, waits.site
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
            heard = self.orders.heard(waiter)
            for arrive, due in due_at:
                for granted in (None, *sorted(heard.full)):
                    found = self._after(waiter, granted, arrive, due)
                    found = isl.restrict_domain(found, left)
                    if not isl.is_empty(found):
                        left = isl.subtract(left, isl.domain(found))
                        yield from self._chains_from(
                            script, waits, thread, bound, waiter, granted, arrive, found
                        )

    def _due(self, await_: Site, arrive: Site) -> isl.Map:
        """The Awaits and the arrivals `depth` later on their elements."""
        uses = self.uses
        waited = isl.restrict_domain(element(uses, await_), uses.ranks.waiting(await_))
        due = isl.subtract_map(
            uses.ranks.released(arrive, await_, self.depth),
            uses.ranks.released(arrive, await_, self.depth - 1),
        )
        that = isl.intersect_map(rel.pairs(waited, targets(uses, arrive)), isl.inverse(due))
        return uses.frame.same_allocation(that, await_, arrive, self.name)

    def _after(self, waiter: Holder, granted: int | None, arrive: Site, due: isl.Map) -> isl.Map:
        """The Awaits (with their thread, where exact) and the arrivals due that are ordered after
        them, by one grant."""
        frame = self.uses.frame
        due = isl.compose(instances(frame, waiter), due)
        if granted is None:
            return isl.intersect_map(first_seen(frame, waiter, arrive), due)
        by = self.orders.syncs.site(granted)
        heard = self.orders.heard(waiter).full[granted]
        return isl.intersect_map(isl.compose(heard, frame.shared(by, arrive)), due)

    def _chains_from(
        self,
        script: Script,
        waits: Instance,
        thread: CExpr,
        bound: CExpr,
        waiter: Holder,
        granted: int | None,
        arrive: Site,
        found: isl.Map,
    ) -> Iterator[str]:
        """The chains from an Await to the arrivals that a relation gives it."""
        frame, name = self.uses.frame, self.name
        finder = self.certifier.beside(frame, waits)
        own = finder.inner(waits)
        inputs = (*own, thread) if waiter.with_members else own
        start = functions.smallest(found)
        for values in finder.values(start, inputs):
            label, there = script.named(finder.instance(arrive, values))
            rank = self.table.arrivals(script, there, label)
            self.table.relate(script, there, waits)
            on = own_element(waits)
            parts: list[BExpr] = [
                exists(there),
                same_allocation(self.model, waits, there, name),
                some(inside(there, target, on) for target in targets_of(arrive)),
                equal(rank, linear(self.depth, [(1, bound)])),
            ]
            if granted is None:
                parts += [before(waits, there), same_task(self.model, waits, there)]
                parts.append(executes(thread, there))
                yield script.node(f"{label}.follows", parts)
                continue
            by = self.orders.syncs.site(granted)
            heard = self.orders.heard(waiter)
            last = functions.joined(heard.full[granted], isl.inverse(frame.shared(by, arrive)))
            function = functions.smallest(functions.among(last, functions.graph(start)))
            ends = Ends(waits, thread, there, None, ())
            chains = Chains(script, self.model, self.certifier.ranks, ends)
            at_inputs = (*inputs, *values)
            for node, at in self._heard(finder, chains, heard, by, function, at_inputs, inputs):
                threads = finder.common(by, arrive, finder.inner(at), values)
                shared = chains.common(at, there, threads)
                more = [before(at, there), same_task(self.model, at, there), shared]
                yield script.node(f"{label}.follows", [[node], *parts, *more])


def _any(await_: Site) -> Holder:
    """An Await as one record that all its threads see."""
    return Holder(await_, False, True)
