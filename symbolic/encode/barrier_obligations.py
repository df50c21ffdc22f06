"""Obligations on barriers: balance at the free, and no DEADLOCK (decision `await-counts`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exogpu.amir.nodes import Await
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import BExpr, CExpr, Int
from exogpu.ir.types import Sym
from exogpu.symbolic.encode import formulas
from exogpu.symbolic.encode.encoder import Draft, Encoder, Meaning
from exogpu.symbolic.encode.formulas import at_most, equal, exists, runs_before
from exogpu.symbolic.encode.rank_table import RankTable, own_element, same_element
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.encode.witness import Aim
from exogpu.symbolic.sites import Site, targets_of


def barrier_obligations(encoder: Encoder, table: RankTable) -> Iterator[Draft]:
    """Balance and DEADLOCK of one barrier."""
    made, uses = _Barrier(encoder, table), table.uses
    for free in uses.frees:
        for site in uses.arrives:
            yield made.arrive_is_awaited(site, free)
        for site in uses.awaits:
            assert isinstance(site.op, Await)
            if site.op.n < 0:
                yield made.await_is_arrived(site, free)
        for site in uses.trailing:
            yield made.trailing_arrives(site, free)
    for await_ in uses.awaits:
        if table.numbered:
            yield made.await_has_arrives(await_)
        for arrive in uses.arrives:
            yield made.arrive_is_not_late(arrive, await_)


class _Barrier:
    """The obligations on one barrier."""

    def __init__(self, encoder: Encoder, table: RankTable) -> None:
        self.encoder = encoder
        self.placed = encoder.placed
        self.table = table
        self.uses = table.uses
        self.name: Sym = table.name
        self.called = table.called

    # --- pieces of formulas ---------------------------------------------------------------

    def order(self, first: formulas.Instance, second: formulas.Instance) -> list[BExpr]:
        """Both in one allocation, the first earlier."""
        return [
            runs_before(first, second),
            formulas.same_allocation(self.placed, first, second, self.name),
        ]

    def hits(self, arrive: formulas.Instance, await_: formulas.Instance) -> BExpr:
        """The Arrive targets the element of the Await."""
        element = own_element(await_)
        return formulas.disjunction_of(
            formulas.lies_in_window(arrive, target, element) for target in targets_of(arrive.site)
        )

    def draft(
        self, kind: HazardKind, first: Site | None, second: Site, claim: str, script: Script
    ) -> Draft:
        return Draft(kind, self.name, first, second, claim, script.text(claim))

    def some_partner(
        self,
        script: Script,
        here: formulas.Instance,
        aim: Aim,
        sites: Sequence[Site],
        free: formulas.Instance,
        value: CExpr,
    ) -> list[str]:
        """Candidates for an instance of one of the sites, on the same element before the free,
        whose number is the value; or whose bound is at least that, where an Await waits for all
        but the newest."""
        nodes = []
        meaning = self.encoder.meaning({"here": here})
        for at in self.encoder.sought.partners(aim, here.site.number):
            label, there = script.name_instance(meaning.partner(at, sites))
            op = there.site.op
            if not isinstance(op, Await):
                fits = equal(value, self.table.arrivals(script, there, label))
            elif op.n >= 0:
                fits = at_most(value, self.table.await_bound(script, there, label))
            else:
                fits = equal(value, self.table.awaits(script, there, label))
            self.table.relate(script, there, here)
            parts = [exists(there), *self.order(there, free), same_element(there, here), fits]
            nodes.append(script.node(f"{label}.matches", parts))
        return nodes

    # --- balance --------------------------------------------------------------------------

    def arrive_is_awaited(self, site: Site, free: Site) -> Draft:
        """CheckBarrier, `a <= w`: some Await counts up to each Arrive."""
        claim = f"Each arrival at {_place(site)} is awaited before {self.called} ends."
        script = self._has_partner(site, free, "arrive", "awaited", self.uses.awaits)
        return self.draft(HazardKind.BARRIER, site, free, claim, script)

    def await_is_arrived(self, site: Site, free: Site) -> Draft:
        """CheckBarrier, `w <= a`: some Arrive has the rank that each Await counts."""
        claim = f"Each Await at {_place(site)} has an arrival of its own before {self.called} ends."
        script = self._has_partner(site, free, "await", "arrived", self.uses.arrives)
        return self.draft(HazardKind.BARRIER, site, free, claim, script)

    def _has_partner(
        self, site: Site, free: Site, word: str, aim: Aim, sites: Sequence[Site]
    ) -> Script:
        """Makes the script that each instance of a site before the free has a partner among the
        sites."""
        script = self.encoder.script()
        here, last = script.free(site, f"{word}."), script.free(free, "free.")
        script.assume(
            formulas.conjunction_of([exists(here), exists(last), *self.order(here, last)])
        )
        number = self.table.awaits if isinstance(site.op, Await) else self.table.arrivals
        value = number(script, here, word)
        script.refute(self.some_partner(script, here, aim, sites, last, value))
        return script

    # --- DEADLOCK -------------------------------------------------------------------------

    def trailing_arrives(self, site: Site, free: Site) -> Draft:
        """Decision `await-counts`: a trailing tag needs a later home Arrive of its rank."""
        claim = f"The arrival that {_place(site)} trails happens before {self.called} ends."
        script = self._has_partner(site, free, "trailing", "trailed", self.uses.arrives)
        return self.draft(HazardKind.DEADLOCK, site, free, claim, script)

    def await_has_arrives(self, site: Site) -> Draft:
        """Decision `await-counts`: an Await of `bound` needs, before it, an Arrive on its element,
        and more than `bound` from every home whose Arrives target it."""
        script = self.encoder.script()
        here = script.free(site, "await.")
        script.assume_exists(here)
        bound = self.table.await_bound(script, here, "await")
        script.assume(at_most(Int(0), bound))
        ways = [f"(not {node})" for node in self._some_arrive(script, here)]
        failures = [script.node("starved", [[way] for way in ways])]
        for arrive in self.uses.arrives:
            label = script.label(arrive)
            other = script.free(arrive, f"{label}.")
            enough = self._earlier_arrives(script, here, other, bound)
            hypothesis = [exists(other), *self.order(other, here), self.hits(other, here)]
            negated = [[f"(not {node})"] for node in enough]
            failures.append(script.node(f"{label}.home_is_late", [*hypothesis, *negated]))
        script.expose(failures)
        claim = (
            f"No DEADLOCK: the arrivals that line {site.op.origin.span.line} "
            f"({site.op.origin.text}) waits for come earlier in program order, from every home "
            "that signals its element."
        )
        return self.draft(HazardKind.DEADLOCK, None, site, claim, script)

    def _some_arrive(self, script: Script, here: formulas.Instance) -> list[str]:
        nodes = []
        meaning = self.encoder.meaning({"here": here})
        for at in self.encoder.sought.partners("signals", here.site.number):
            label, there = script.name_instance(meaning.partner(at, self.uses.arrives))
            parts = [exists(there), *self.order(there, here), self.hits(there, here)]
            nodes.append(script.node(f"{label}.signals", parts))
        return nodes

    def _earlier_arrives(
        self, script: Script, here: formulas.Instance, other: formulas.Instance, bound: CExpr
    ) -> list[str]:
        """Candidates for an Arrive before the Await, of the other's home, of rank `bound` or
        more."""
        nodes = []
        meaning: Meaning = self.encoder.meaning({"here": here, "other": other})
        sites = (here.site.number, other.site.number)
        for at in self.encoder.sought.partners("enough", *sites):
            label, there = script.name_instance(meaning.partner(at, self.uses.arrives))
            rank = self.table.arrivals(script, there, label)
            self.table.relate(script, there, here)
            self.table.relate(script, there, other)
            parts = [exists(there), *self.order(there, here), same_element(there, other)]
            nodes.append(script.node(f"{label}.is_enough", [*parts, at_most(bound, rank)]))
        return nodes

    def arrive_is_not_late(self, site: Site, await_: Site) -> Draft:
        """Decision `await-counts`: no earlier Await on a target needed this very arrival, or a
        later one of the same home.  Decision `flags`: of a flag it needs all arrivals."""
        script = self.encoder.script()
        here, there = script.free(site, "arrive."), script.free(await_, "await.")
        script.assume(
            formulas.conjunction_of([exists(here), exists(there), *self.order(there, here)])
        )
        script.assume(self.hits(here, there))
        if not self.placed.variables[self.name].counts_all:
            rank = self.table.arrivals(script, here, "arrive")
            bound = self.table.await_bound(script, there, "await")
            self.table.relate(script, there, here)
            script.assume(at_most(rank, bound))
        claim = (
            f"No DEADLOCK: no Await at line {await_.op.origin.span.line} "
            f"({await_.op.origin.text}) waits for a later arrival at line "
            f"{site.op.origin.span.line} ({site.op.origin.text})."
        )
        return self.draft(HazardKind.DEADLOCK, await_, site, claim, script)


def _place(site: Site) -> str:
    return f"line {site.op.origin.span.line} ({site.op.origin.text})"
