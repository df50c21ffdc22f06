"""Lemmas on counts: that the expressions found for them are what they are called.

Arrives on an element of one allocation are in a total order.  Where the expression grows from
each to each later one, is never negative, and each value above 0 has an earlier Arrive with the
value below it, the expression is the number of earlier Arrives: by induction on the order.
Likewise for Awaits, and for what is counted at other instances.
"""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.nodes import BExpr, CExpr, Int
from exogpu.machine.amir import Await
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.barriers import BarrierUses, earlier
from exogpu.symbolic.certify.drafts import Certifier, Draft
from exogpu.symbolic.certify.formulas import (
    Instance,
    at_most,
    before,
    element_of,
    equal,
    every,
    exists,
    less,
    plus,
    same_allocation,
)
from exogpu.symbolic.sites import Site, home_of


def own_element(instance: Instance) -> tuple[CExpr, ...]:
    """The element on which an instance counts: the home of an Arrive or trailing barrier."""
    op = instance.site.op
    access = op.barrier if isinstance(op, Await) else home_of(instance.site)
    return element_of(instance, access)


def same_element(first: Instance, second: Instance) -> BExpr:
    """Both count on one element."""
    pairs = zip(own_element(first), own_element(second), strict=True)
    return every(equal(one, other) for one, other in pairs)


def cells(uses: BarrierUses, site: Site) -> isl.Map:
    """`site -> element` on which it counts."""
    access = site.op.barrier if isinstance(site.op, Await) else home_of(site)
    return uses.frame.cells(site, access)


def count_lemmas(certifier: Certifier, uses: BarrierUses) -> Iterator[Draft]:
    """The lemmas on the counts of one barrier."""
    for site in (*uses.arrives, *uses.trailing):
        yield _lemma(certifier, uses, site, arrivals=True)
    for site in uses.awaits:
        assert isinstance(site.op, Await)
        yield _lemma(certifier, uses, site, arrivals=site.op.n >= 0)


def _lemma(certifier: Certifier, uses: BarrierUses, site: Site, *, arrivals: bool) -> Draft:
    table = certifier.ranks(uses.name)
    counted = uses.arrives if arrivals else uses.awaits
    counter = table.arrivals if arrivals else table.awaits
    model, name = certifier.model, uses.name
    script = certifier.script()
    here = script.free(site, "here.")
    script.assume(exists(here))
    value = script.define("count", counter(here))
    failures = [script.node("negative", [less(value, Int(0))])]
    for other in counted:
        label = script.label(other)
        there = script.free(other, f"{label}.")
        other_value = script.define(f"{label}.count", counter(there))
        failures.append(
            script.node(
                f"{label}.counts_more",
                [
                    exists(there),
                    same_allocation(model, there, here, name),
                    before(there, here),
                    same_element(there, here),
                    at_most(value, other_value),
                ],
            )
        )
    steps: list[str] = []
    for other in counted:
        for candidate in _previous(certifier, uses, here, other, arrivals=arrivals):
            label = script.label(other)
            there = script.instance(candidate, label)
            other_value = script.define(f"{label}.count", counter(there))
            steps.append(
                script.node(
                    f"{label}.is_previous",
                    [
                        exists(there),
                        same_allocation(model, there, here, name),
                        before(there, here),
                        same_element(there, here),
                        equal(other_value, plus(value, -1)),
                    ],
                )
            )
    unreached = [at_most(Int(1), value), *([f"(not {step})"] for step in steps)]
    failures.append(script.node("unreached", unreached))
    script.expose(failures)
    op = site.op
    claim = (
        f"The count at line {op.origin.span.line} ({op.origin.text}) is the number of earlier "
        f"{'Arrives' if arrivals else 'Awaits'} on its element of {name.name}, within one "
        "allocation."
    )
    return Draft(None, name, None, site, claim, script.text(claim))


def _previous(
    certifier: Certifier, uses: BarrierUses, here: Instance, other: Site, *, arrivals: bool
) -> list[Instance]:
    site = here.site
    table = certifier.ranks(uses.name)
    values = rel.pairs(
        rel.graph(rel.plus(table.count(site, arrivals=arrivals), -1)),
        rel.graph(table.count(other, arrivals=arrivals)),
    )
    same = rel.pairs(cells(uses, site), cells(uses, other))
    relation = isl.intersect_map(values, same)
    relation = isl.intersect_map(relation, isl.inverse(earlier(uses, other, site)))
    return certifier.partners(uses.frame, relation, here, other)
