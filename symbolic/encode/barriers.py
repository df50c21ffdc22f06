"""Obligations on barriers: balance at the free, and no DEADLOCK (decision 3)."""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.amir.nodes import Await
from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, CExpr, Int
from exogpu.result.hazards import HazardKind
from exogpu.solvers import isl
from exogpu.solvers import isl_functions as functions
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode.counted import cells
from exogpu.symbolic.encode.drafts import Certifier, Draft
from exogpu.symbolic.encode.formulas import (
    Instance,
    at_most,
    before,
    equal,
    every,
    exists,
    inside,
    same_allocation,
    some,
)
from exogpu.symbolic.encode.ranks import own_element, same_element
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.find.barriers import BarrierUses, earlier, targets
from exogpu.symbolic.find.sites import Site, targets_of


def barrier_obligations(certifier: Certifier, uses: BarrierUses) -> Iterator[Draft]:
    """Balance and DEADLOCK of one barrier."""
    made = _Barrier(certifier, uses)
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
        yield made.await_has_arrives(await_)
        for arrive in uses.arrives:
            yield made.arrive_is_not_late(arrive, await_)


class _Barrier:
    """The obligations on one barrier."""

    def __init__(self, certifier: Certifier, uses: BarrierUses) -> None:
        self.certifier = certifier
        self.uses = uses
        self.model = certifier.model
        self.name: Sym = uses.name
        self.table = certifier.ranks(uses.name)

    # --- pieces of formulas ---------------------------------------------------------------

    def order(self, first: Instance, second: Instance) -> list[BExpr]:
        """Both in one allocation, the first earlier."""
        return [before(first, second), same_allocation(self.model, first, second, self.name)]

    def hits(self, arrive: Instance, await_: Instance) -> BExpr:
        """The Arrive targets the element of the Await."""
        element = own_element(await_)
        return some(inside(arrive, target, element) for target in targets_of(arrive.site))

    def draft(
        self, kind: HazardKind, first: Site | None, second: Site, claim: str, script: Script
    ) -> Draft:
        return Draft(kind, self.name, first, second, claim, script.text(claim))

    def some_partner(
        self,
        script: Script,
        here: Instance,
        relation: isl.Map,
        site: Site,
        free: Instance,
        value: CExpr,
        compare: str,
    ) -> list[str]:
        """Candidates for an instance of `site` on the same element before the free whose rank or
        bound is at least, or equal to, the value."""
        nodes = []
        for candidate in self.certifier.partners(self.uses.frame, relation, here, site):
            label, there = script.named(candidate)
            if not isinstance(site.op, Await):
                value_there = self.table.arrivals(script, there, label)
            elif compare == "bound":
                value_there = self.table.bound(script, there, label)
            else:
                value_there = self.table.awaits(script, there, label)
            self.table.relate(script, there, here)
            nodes.append(
                script.node(
                    f"{label}.matches",
                    [
                        exists(there),
                        *self.order(there, free),
                        same_element(there, here),
                        at_most(value, value_there)
                        if compare == "bound"
                        else equal(value, value_there),
                    ],
                )
            )
        return nodes

    def same_cells(self, first: Site, second: Site) -> isl.Map:
        """The pairs on one element of one allocation."""
        same = rel.pairs(cells(self.uses.frame, first), cells(self.uses.frame, second))
        return self.uses.frame.same_allocation(same, first, second, self.name)

    # --- balance --------------------------------------------------------------------------

    def arrive_is_awaited(self, site: Site, free: Site) -> Draft:
        """CheckBarrier, `a <= w`: some Await counts up to each Arrive."""
        script = self.certifier.script()
        here, last = script.free(site, "arrive."), script.free(free, "free.")
        script.assume(every([exists(here), exists(last), *self.order(here, last)]))
        rank = self.table.arrivals(script, here, "arrive")
        nodes = []
        for await_ in self.uses.awaits:
            assert isinstance(await_.op, Await)
            if await_.op.n >= 0:
                values, compare = self.table.released(site, await_), "bound"
            else:
                values, compare = self.table.meeting(site, await_), "equal"
            relation = isl.intersect_map(self.same_cells(site, await_), values)
            nodes += self.some_partner(script, here, relation, await_, last, rank, compare)
        script.refute(nodes)
        claim = (
            f"Each arrival at line {site.op.origin.span.line} ({site.op.origin.text}) is awaited "
            f"before {self.name.name} ends."
        )
        return self.draft(HazardKind.BARRIER, site, free, claim, script)

    def await_is_arrived(self, site: Site, free: Site) -> Draft:
        """CheckBarrier, `w <= a`: some Arrive has the rank that each Await counts."""
        script = self.certifier.script()
        here, last = script.free(site, "await."), script.free(free, "free.")
        script.assume(every([exists(here), exists(last), *self.order(here, last)]))
        count = self.table.awaits(script, here, "await")
        nodes = []
        for arrive in self.uses.arrives:
            met = isl.inverse(self.table.meeting(arrive, site))
            relation = isl.intersect_map(self.same_cells(site, arrive), met)
            nodes += self.some_partner(script, here, relation, arrive, last, count, "equal")
        script.refute(nodes)
        claim = (
            f"Each Await at line {site.op.origin.span.line} ({site.op.origin.text}) has an "
            f"arrival of its own before {self.name.name} ends."
        )
        return self.draft(HazardKind.BARRIER, site, free, claim, script)

    # --- DEADLOCK -------------------------------------------------------------------------

    def trailing_arrives(self, site: Site, free: Site) -> Draft:
        """Decision 3: a trailing tag needs a later home Arrive of its rank."""
        script = self.certifier.script()
        here, last = script.free(site, "trailing."), script.free(free, "free.")
        script.assume(every([exists(here), exists(last), *self.order(here, last)]))
        rank = self.table.arrivals(script, here, "trailing")
        nodes = []
        for arrive in self.uses.arrives:
            trailed = self.table.trailed(site, arrive)
            relation = isl.intersect_map(self.same_cells(site, arrive), trailed)
            nodes += self.some_partner(script, here, relation, arrive, last, rank, "equal")
        script.refute(nodes)
        claim = (
            f"The arrival that line {site.op.origin.span.line} ({site.op.origin.text}) trails "
            f"happens before {self.name.name} ends."
        )
        return self.draft(HazardKind.DEADLOCK, site, free, claim, script)

    def await_has_arrives(self, site: Site) -> Draft:
        """Decision 3: an Await of `bound` needs, before it, an Arrive on its element, and more
        than `bound` from every home whose Arrives target it."""
        script = self.certifier.script()
        here = script.free(site, "await.")
        script.assume(exists(here))
        bound = self.table.bound(script, here, "await")
        script.assume(at_most(Int(0), bound))
        ways = [f"(not {node})" for node in self._some_arrive(script, here)]
        failures = [script.node("starved", [[way] for way in ways])]
        for arrive in self.uses.arrives:
            label = script.label(arrive)
            other = script.free(arrive, f"{label}.")
            enough = self._enough(script, here, other, bound)
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

    def _some_arrive(self, script: Script, here: Instance) -> list[str]:
        nodes = []
        for arrive in self.uses.arrives:
            met = rel.pairs(cells(self.uses.frame, here.site), targets(self.uses, arrive))
            relation = isl.intersect_map(met, isl.inverse(earlier(self.uses, arrive, here.site)))
            waiting = self.uses.ranks.waiting(here.site)
            relation = isl.restrict_domain(relation, waiting)
            for candidate in self.certifier.partners(self.uses.frame, relation, here, arrive):
                label, there = script.named(candidate)
                parts = [exists(there), *self.order(there, here), self.hits(there, here)]
                nodes.append(script.node(f"{label}.signals", parts))
        return nodes

    def _enough(self, script: Script, here: Instance, other: Instance, bound: CExpr) -> list[str]:
        """Candidates for an Arrive before the Await, of the other's home, of rank `bound` or
        more."""
        uses, nodes = self.uses, []
        met = isl.intersect_map(
            rel.pairs(cells(uses.frame, here.site), targets(uses, other.site)),
            isl.inverse(earlier(uses, other.site, here.site)),
        )
        for arrive in uses.arrives:
            before_it = isl.inverse(earlier(uses, arrive, here.site))
            late = self.table.enough(here.site, arrive, before_it)
            same = self.same_cells(other.site, arrive)
            relation = functions.among(functions.joined(late, same), met)
            if isl.is_empty(relation):
                continue
            finder = self.certifier.beside(uses.frame, here)
            inputs = (*finder.inner(here), *finder.inner(other))
            for values in finder.values(functions.smallest(relation), inputs):
                label, there = script.named(finder.instance(arrive, values))
                rank = self.table.arrivals(script, there, label)
                self.table.relate(script, there, here)
                self.table.relate(script, there, other)
                nodes.append(
                    script.node(
                        f"{label}.is_enough",
                        [
                            exists(there),
                            *self.order(there, here),
                            same_element(there, other),
                            at_most(bound, rank),
                        ],
                    )
                )
        return nodes

    def arrive_is_not_late(self, site: Site, await_: Site) -> Draft:
        """Decision 3: no earlier Await on a target needed this very arrival, or a later one of
        the same home."""
        script = self.certifier.script()
        here, there = script.free(site, "arrive."), script.free(await_, "await.")
        script.assume(every([exists(here), exists(there), *self.order(there, here)]))
        script.assume(self.hits(here, there))
        rank = self.table.arrivals(script, here, "arrive")
        bound = self.table.bound(script, there, "await")
        self.table.relate(script, there, here)
        script.assume(at_most(rank, bound))
        claim = (
            f"No DEADLOCK: no Await at line {await_.op.origin.span.line} "
            f"({await_.op.origin.text}) waits for a later arrival at line "
            f"{site.op.origin.span.line} ({site.op.origin.text})."
        )
        return self.draft(HazardKind.DEADLOCK, await_, site, claim, script)
