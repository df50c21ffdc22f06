"""Lemmas on counts: that the expressions found for them are what they are called.

Arrives on an element of one allocation are in a total order.  Where the expression grows from
each to each later one, is never negative, and each value above 0 has an earlier Arrive with the
value below it, the expression is the number of earlier Arrives: by induction on the order.
Likewise for Awaits, and for what is counted at other instances.  In a nest (`ranks`) all this is
said of one iteration of the loops that are set apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exogpu.amir.nodes import Await
from exogpu.diagnostics.verdict import Lemma
from exogpu.ir.nodes import BExpr, CExpr, Int
from exogpu.ir.types import Sym
from exogpu.ir.walk import substitute
from exogpu.symbolic.encode import formulas
from exogpu.symbolic.encode.encoder import Draft, Encoder
from exogpu.symbolic.encode.formulas import at_most, less_than
from exogpu.symbolic.encode.rank_table import RankTable, own_element, same_element
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.sites import Site


def count_lemmas(encoder: Encoder, table: RankTable) -> Iterator[Draft]:
    """The lemmas on the counts of one barrier."""
    if table.numbered:
        yield from _lemmas(encoder, table)


def lemmas_on(encoder: Encoder, name: Sym) -> Iterator[Draft]:
    """The same, of a barrier whose counts no proof needs."""
    return _lemmas(encoder, RankTable(encoder, name, numbered=True))


def _lemmas(encoder: Encoder, table: RankTable) -> Iterator[Draft]:
    made = _Lemmas(encoder, table)
    for site in (*table.uses.arrives, *table.uses.trailing, *table.uses.slots):
        yield made.count(site, arrivals=True)
    for site in table.uses.awaits:
        assert isinstance(site.op, Await)
        yield made.count(site, arrivals=site.op.n >= 0)
    if table.outer:
        yield made.total()


class _Lemmas:
    """The lemmas on one barrier."""

    def __init__(self, encoder: Encoder, table: RankTable) -> None:
        self.encoder = encoder
        self.table = table
        self.uses = table.uses

    def same_iteration(self, first: formulas.Instance, second: formulas.Instance) -> BExpr:
        """In one allocation and one iteration of the loops that are set apart."""
        one = formulas.agree(first, second, (loop.iterator for loop in self.table.apart))
        return formulas.conjunction_of(
            [formulas.same_allocation(self.table.placed, first, second, self.uses.name), one]
        )

    def _claim(self, site: Site, arrivals: bool) -> str:
        what = "Arrives" if arrivals else "Awaits"
        span = "one iteration of the outer loops" if self.table.outer else "one allocation"
        return (
            f"The count at line {site.op.origin.span.line} ({site.op.origin.text}) is the number "
            f"of earlier {what} on its element of {self.table.called}, within {span}."
        )

    def count(self, site: Site, *, arrivals: bool) -> Draft:
        """The expression at a site counts."""
        table = self.table
        counted = self.uses.arrives if arrivals else self.uses.awaits
        script = self.encoder.script()
        here = script.free(site, "here.")
        script.assume_exists(here)
        value = script.define("count", table.inner_count(here, arrivals=arrivals))
        within = table.in_iteration(here)
        failures = [script.node("negative", [less_than(value, Int(0))])]
        for other in counted:
            label = script.label(other)
            there = script.free(other, f"{label}.")
            more = script.define(f"{label}.count", table.inner_count(there, arrivals=arrivals))
            parts = [
                formulas.exists(there),
                self.same_iteration(there, within),
                formulas.runs_before(there, within),
            ]
            parts += [same_element(there, here), at_most(value, more)]
            failures.append(script.node(f"{label}.counts_more", parts))
        steps: list[str] = []
        meaning = self.encoder.meaning({"here": here})
        found = () if within is not here else self.encoder.sought.partners("previous", site.number)
        for at in found:
            label, there = script.name_instance(meaning.partner(at, counted))
            less_one = script.define(f"{label}.count", table.inner_count(there, arrivals=arrivals))
            parts = [
                formulas.exists(there),
                self.same_iteration(there, here),
                formulas.runs_before(there, here),
            ]
            parts += [same_element(there, here), formulas.equal(less_one, formulas.plus(value, -1))]
            steps.append(script.node(f"{label}.is_previous", parts))
        failures.append(script.node("unreached", [at_most(Int(1), value), *_none_of(steps)]))
        script.expose(failures)
        claim = self._claim(site, arrivals)
        kind = Lemma.INNER if table.outer else Lemma.COUNT
        return Draft(kind, self.uses.name, None, site, claim, script.text(claim))

    # --- nests ----------------------------------------------------------------------------

    def total(self) -> Draft:
        """Each iteration of the outer loops has as many Arrives on an element as the expression
        says, and as many Awaits where these wait for numbered arrivals."""
        uses, table = self.uses, self.table
        script = self.encoder.script()
        outer: dict[Sym, CExpr] = {}
        for loop in self.table.apart:
            outer[loop.iterator] = script.constant(Sym(loop.iterator.name), "outer.")
            script.assume(at_most(substitute(loop.lo, outer), outer[loop.iterator]))
            script.assume(less_than(outer[loop.iterator], substitute(loop.hi, outer)))
        shape = table.placed.variables[uses.name].shape
        element = tuple(script.constant(Sym(f"element{at}")) for at in range(len(shape)))
        script.assume(formulas.in_shape(table.placed, uses.name, element))
        total = script.define("total", table.total(outer, element))
        failures = [script.node("negative", [less_than(total, Int(0))])]
        newest = any(isinstance(site.op, Await) and site.op.n >= 0 for site in uses.awaits)
        sides = ((uses.arrives, True), (uses.awaits, False))
        for counted, arrivals in sides[:1] if newest else sides:
            for site in counted:
                label = script.label(site)
                there = script.free(site, f"{label}.")
                value = script.define(f"{label}.count", table.inner_count(there, arrivals=arrivals))
                parts = [*self._exists_on(there, outer, element), at_most(total, value)]
                failures.append(script.node(f"{label}.counts_more", parts))
            last = [
                node
                for site in counted
                for node in self._last_candidates(script, site, outer, element, total, arrivals)
            ]
            what = "arrive" if arrivals else "await"
            parts = [at_most(Int(1), total)]
            failures.append(script.node(f"no_last_{what}", [*parts, *_none_of(last)]))
        script.expose(failures)
        claim = (
            f"Each iteration of the outer loops has as many Arrives on an element of "
            f"{table.called} as the expression says."
            if newest
            else "Each iteration of the outer loops has as many Arrives as Awaits on an element of "
            f"{table.called}, as many as the expression says."
        )
        return Draft(Lemma.TOTAL, uses.name, None, uses.arrives[0], claim, script.text(claim))

    def _exists_on(
        self, there: formulas.Instance, outer: dict[Sym, CExpr], element: Sequence[CExpr]
    ) -> list[BExpr]:
        """The instance exists, in this iteration and on this element."""
        same = [formulas.equal(there.values[name], value) for name, value in outer.items()]
        on = [
            formulas.equal(one, other)
            for one, other in zip(own_element(there), element, strict=True)
        ]
        return [formulas.exists(there), formulas.conjunction_of(same), formulas.conjunction_of(on)]

    def _last_candidates(
        self,
        script: Script,
        site: Site,
        outer: dict[Sym, CExpr],
        element: Sequence[CExpr],
        total: CExpr,
        arrivals: bool,
    ) -> Iterator[str]:
        """Candidates for the last Arrive, or Await, on the element."""
        table = self.table
        meaning = self.encoder.meaning({}, element=tuple(element), outer=outer)
        for at in self.encoder.sought.partners("last", site.number):
            label, there = script.name_instance(meaning.partner(at, [site]))
            value = script.define(f"{label}.count", table.inner_count(there, arrivals=arrivals))
            parts = [
                *self._exists_on(there, outer, element),
                formulas.equal(value, formulas.plus(total, -1)),
            ]
            yield script.node(f"{label}.is_last", parts)


def _none_of(nodes: Sequence[str]) -> list[list[str]]:
    return [[f"(not {node})"] for node in nodes]
