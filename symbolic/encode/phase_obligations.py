"""Obligations of PHASE (decision `mbarrier-phase`): on an mbarrier no arrival runs a ring ahead of
a waiter, and no waiter a ring ahead of the arrivals.

The order is of execution: it starts at an Await with its threads, and every sync for which
threads wait for others passes it on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import BExpr, CExpr, Int
from exogpu.ir.types import Sym
from exogpu.machine.literal_records import own_arrival
from exogpu.symbolic.encode import formulas
from exogpu.symbolic.encode.chain_formulas import Chains, ExecutionOrder
from exogpu.symbolic.encode.encoder import Draft, Encoder, Ends, Meaning
from exogpu.symbolic.encode.formulas import (
    conjunction_of,
    executes,
    exists,
    received,
    runs_before,
    same_task,
)
from exogpu.symbolic.encode.pieces import linear
from exogpu.symbolic.encode.rank_table import RankTable, own_element
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.encode.slot_counts import Slots
from exogpu.symbolic.encode.witness import After, Values, WitnessError
from exogpu.symbolic.sites import Site, UndecidedError, targets_of

NUMBERED: Final = -1
"""The skip count of an Await that waits for a numbered arrival, as all do on an mbarrier."""

DEEPEST: Final = 32
"""The deepest ring for which PHASE is asked, where the program gives no depth."""


def phase_obligations(
    encoder: Encoder, table: RankTable, ranks: Callable[[Sym], RankTable]
) -> Iterator[Draft]:
    """PHASE of one mbarrier.

    Raises UndecidedError where no one depth holds for all its allocations.
    """
    uses, called = table.uses, encoder.placed.called[table.name]
    given, found = encoder.placed.variables[table.name].depth, encoder.sought.depth(called)
    if given is not None and found is not None:
        raise WitnessError(f"the program says how deep the ring of {called} is")
    depth = found if given is None else given
    if depth is None:
        if not uses.frees:
            return  # A depth that must be found is asked for at the free.
        span = (*uses.awaits, *uses.frees)[0].op.origin.span
        raise UndecidedError(f"no one ring depth holds for {called}", span)
    if given is None and not 1 <= depth <= DEEPEST:
        raise WitnessError(f"a ring of {called} is not {depth} deep")
    table.follow(depth)
    made = _Phase(encoder, table, ranks, depth)
    for site in (*uses.arrives, *uses.trailing):
        yield made.not_early(site)
    for await_ in uses.awaits:
        for arrive in uses.arrives:
            yield made.followed(await_, arrive)
    for await_ in uses.awaits:
        yield made.not_ahead(await_)


@dataclass(frozen=True, slots=True, eq=False)
class _OrderClaim:
    """A claim to prove: a thread of an instance is ordered after an Await that counts, on one
    element."""

    script: Script
    here: formulas.Instance
    on: Values
    thread: CExpr
    found: tuple[After, ...]
    meaning: Meaning
    suits: Callable[[CExpr], BExpr]
    """The formula that an Await of this bound counts."""


class _Phase:
    """PHASE of one mbarrier at one depth."""

    def __init__(
        self,
        encoder: Encoder,
        table: RankTable,
        ranks: Callable[[Sym], RankTable],
        depth: int,
    ) -> None:
        self.encoder = encoder
        self.placed = encoder.placed
        self.table = table
        self.ranks = ranks
        self.depth = depth
        self.uses = table.uses
        self.name: Sym = table.name

    # --- (i) ------------------------------------------------------------------------------

    def not_early(self, site: Site) -> Draft:
        """(i) every thread of arrival r + d on an element, and of every instruction trailing on
        it, is ordered after an Await for arrival r on it; under `paper`, for r or a later one."""
        if formulas.everyone(site):
            raise UndecidedError("an arrival on an mbarrier at CPU scope", site.op.origin.span)
        script = self.encoder.script()
        here = script.free(site, "arrival.")
        script.assume_exists(here)
        shape = self.placed.variables[self.name].shape
        on = tuple(script.constant(Sym(f"element{at}")) for at in range(len(shape)))
        script.assume(formulas.in_shape(self.placed, self.name, on))
        script.assume(
            formulas.disjunction_of(
                formulas.lies_in_window(here, target, on) for target in targets_of(site)
            )
        )
        thread = script.thread(here, "arrival.thread")
        rank, policy = self.table.arrivals(script, here, "arrival"), self.placed.program.policy
        script.assume(formulas.at_most(Int(self.depth), rank))
        asked = _OrderClaim(
            script,
            here,
            on,
            thread,
            self.encoder.sought.ordered("not_early", site.number),
            self.encoder.meaning({"here": here}, {"here": thread}, on),
            lambda bound: received(policy, NUMBERED, formulas.plus(rank, -self.depth), bound),
        )
        script.refute(list(self._await_candidates(asked)))
        later = "" if own_arrival(policy, NUMBERED) else ", or a later one"
        claim = (
            f"No arrival at line {site.op.origin.span.line} ({site.op.origin.text}) on "
            f"{self.table.called} runs {self.depth} ahead of a waiter: each of its threads is "
            f"ordered after an Await for the arrival that many before it{later}."
        )
        return Draft(HazardKind.PHASE, self.name, None, site, claim, script.text(claim))

    # --- (iii) ----------------------------------------------------------------------------

    def not_ahead(self, site: Site) -> Draft:
        """(iii) each thread of an Await for arrival r >= d on an element is ordered after an Await
        for arrival r - d on it."""
        if formulas.everyone(site):
            raise UndecidedError("an Await on an mbarrier at CPU scope", site.op.origin.span)
        script = self.encoder.script()
        here = script.free(site, "await.")
        script.assume_exists(here)
        thread = script.thread(here, "await.thread")
        bound = self.table.await_bound(script, here, "await")
        script.assume(formulas.at_most(Int(self.depth), bound))
        asked = _OrderClaim(
            script,
            here,
            own_element(here),
            thread,
            self.encoder.sought.ordered("not_ahead", site.number),
            self.encoder.meaning({"here": here}, {"here": thread}),
            lambda other: formulas.equal(formulas.plus(bound, -self.depth), other),
        )
        script.refute(list(self._await_candidates(asked)))
        claim = (
            f"No Await at line {site.op.origin.span.line} ({site.op.origin.text}) runs "
            f"{self.depth} ahead of the arrivals: each of its threads is ordered after an Await "
            "for the arrival that many before the one it waits for."
        )
        return Draft(HazardKind.PHASE, self.name, None, site, claim, script.text(claim))

    # --- after an Await -------------------------------------------------------------------

    def _await_candidates(self, asked: _OrderClaim) -> Iterator[str]:
        """Candidates for the Await that a thread of the instance is ordered after."""
        script, here, thread = asked.script, asked.here, asked.thread
        for one in asked.found:
            label, waits = script.name_instance(asked.meaning.partner(one.at, self.uses.awaits))
            bound = self.table.await_bound(script, waits, label)
            self.table.relate(script, waits, here)
            there = own_element(waits)
            counts: list[BExpr] = [
                exists(waits),
                runs_before(waits, here),
                formulas.same_allocation(self.placed, waits, here, self.name),
                conjunction_of(
                    formulas.equal(left, right) for left, right in zip(there, asked.on, strict=True)
                ),
                asked.suits(bound),
            ]
            if one.granted is None:
                parts = [*counts, same_task(self.placed, waits, here), executes(thread, waits)]
                yield script.node(f"{label}.is_before", parts)
                continue
            ends = Ends(waits, None, here, thread, asked.on)
            slots = Slots(script, self.placed, self.ranks)
            chains = Chains(script, self.placed, self.ranks, slots, ends, asked.meaning)
            found = chains.grant_formula(one.granted, ExecutionOrder(self.placed))
            if found is None:
                continue
            node, at = found
            parts = [runs_before(at, here), same_task(self.placed, at, here), executes(thread, at)]
            yield script.node(f"{label}.is_before", [[node], *counts, *parts])

    # --- (ii) -----------------------------------------------------------------------------

    def followed(self, await_: Site, arrive: Site) -> Draft:
        """(ii) for each Await of r by thread g, some thread of arrival r + d is ordered after
        it; vacuous where arrival r + d does not exist."""
        if formulas.everyone(await_):
            raise UndecidedError("an Await on an mbarrier at CPU scope", await_.op.origin.span)
        script = self.encoder.script()
        waits, other = script.free(await_, "await."), script.free(arrive, "arrival.")
        script.assume_exists(waits)
        script.assume_exists(other)
        script.assume(formulas.same_allocation(self.placed, waits, other, self.name))
        on = own_element(waits)
        script.assume(
            formulas.disjunction_of(
                formulas.lies_in_window(other, target, on) for target in targets_of(arrive)
            )
        )
        thread = script.thread(waits, "await.thread")
        bound = self.table.await_bound(script, waits, "await")
        script.assume(formulas.at_most(Int(0), bound))
        rank = self.table.arrivals(script, other, "arrival")
        self.table.relate(script, other, waits)
        script.assume(formulas.equal(rank, linear(self.depth, [(1, bound)])))
        script.refute(list(self._followers(script, waits, thread, bound)))
        claim = (
            f"Each thread of the Await at line {await_.op.origin.span.line} "
            f"({await_.op.origin.text}) is waited for by the arrival {self.depth} later, where "
            f"line {arrive.op.origin.span.line} ({arrive.op.origin.text}) makes one."
        )
        return Draft(HazardKind.PHASE, self.name, await_, arrive, claim, script.text(claim))

    def _followers(
        self, script: Script, waits: formulas.Instance, thread: CExpr, bound: CExpr
    ) -> Iterator[str]:
        """Candidates for the arrival that is ordered after the thread of an Await."""
        meaning = self.encoder.meaning({"here": waits}, {"here": thread})
        for one in self.encoder.sought.ordered("followed", waits.site.number):
            label, there = script.name_instance(meaning.partner(one.at, self.uses.arrives))
            rank = self.table.arrivals(script, there, label)
            self.table.relate(script, there, waits)
            on = own_element(waits)
            parts: list[BExpr] = [
                exists(there),
                formulas.same_allocation(self.placed, waits, there, self.name),
                formulas.disjunction_of(
                    formulas.lies_in_window(there, target, on) for target in targets_of(there.site)
                ),
                formulas.equal(rank, linear(self.depth, [(1, bound)])),
            ]
            if one.granted is None:
                parts += [runs_before(waits, there), same_task(self.placed, waits, there)]
                parts.append(executes(thread, there))
                yield script.node(f"{label}.follows", parts)
                continue
            ends = Ends(waits, thread, there, None, ())
            slots = Slots(script, self.placed, self.ranks)
            chains = Chains(script, self.placed, self.ranks, slots, ends, meaning)
            found = chains.grant_formula(one.granted, ExecutionOrder(self.placed))
            if found is None:
                continue
            node, at = found
            shared = chains.common_thread(at, there, one.threads)
            more = [runs_before(at, there), same_task(self.placed, at, there), shared]
            yield script.node(f"{label}.follows", [[node], *parts, *more])
