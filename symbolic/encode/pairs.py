"""Obligations on pairs of accesses: each record that a check meets is visible to it, or cleared.

Every Record and Check of one variable that could meet is an obligation, whatever ISL found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from exogpu.amir.nodes import Check, Record
from exogpu.ir.names import Sym
from exogpu.machine.literal import hazard
from exogpu.symbolic.encode.chains import Chains, Rules, candidates
from exogpu.symbolic.encode.drafts import Certifier, Draft
from exogpu.symbolic.encode.formulas import (
    FALSE,
    before,
    everyone,
    exists,
    in_shape,
    inside,
    same_allocation,
)
from exogpu.symbolic.encode.witness import Ends, Gone, Seen
from exogpu.symbolic.find.closure import always_visible
from exogpu.symbolic.find.obligations import Discharged
from exogpu.symbolic.find.sites import Site


def pairs(certifier: Certifier, discharged: Iterable[Discharged]) -> Iterator[Draft]:
    """An obligation for every Record and Check that could meet."""
    evidence: dict[tuple[Site, Site], list[Discharged]] = {}
    for one in discharged:
        key = (one.dependence.record, one.dependence.check)
        evidence.setdefault(key, []).append(one)
    for record in certifier.model.sites:
        if not isinstance(record.op, Record):
            continue
        for check in certifier.model.sites:
            op = check.op
            if not isinstance(op, Check) or op.access.name != record.op.access.name:
                continue
            if op.mutates == record.op.mutate:
                yield _pair(certifier, record, check, evidence.get((record, check), ()))


def _pair(certifier: Certifier, record: Site, check: Site, evidence: Iterable[Discharged]) -> Draft:
    made, asked = record.op, check.op
    assert isinstance(made, Record) and isinstance(asked, Check)
    name, model = made.access.name, certifier.model
    kind = hazard(asked)
    if always_visible(made, asked):
        why = "atomics are visible to each other's threads"
        return Draft(kind, name, record, check, _claim(record, check, why), "")
    script = certifier.script()
    first, second = script.free(record, "first."), script.free(check, "second.")
    order = before(first, second)
    if order == FALSE:
        why = "the first never comes earlier"
        return Draft(kind, name, record, check, _claim(record, check, why), "")
    rank = len(model.variables[name].shape)
    element = tuple(script.constant(Sym(f"element{at}")) for at in range(rank))
    script.assume(exists(first))
    script.assume(exists(second))
    script.assume(order)
    script.assume(same_allocation(model, first, second, name))
    script.assume(in_shape(model, name, element))
    script.assume(inside(first, made.access, element))
    script.assume(inside(second, asked.access, element))
    one_record = made.convergent or made.timeline is None or everyone(record)
    one_is_enough = asked.convergent or everyone(check)
    ends = Ends(
        first,
        None if one_record else script.thread(first, "first.thread"),
        second,
        None if one_is_enough else script.thread(second, "second.thread"),
        element,
    )
    witnesses = tuple(w for found in evidence for w in _witnesses(certifier, found, ends))
    chains = Chains(script, model, certifier.ranks, ends)
    rules = Rules(model.program.policy, made)
    ways = [
        chains.gone(w, name) if isinstance(w, Gone) else chains.seen(w, rules) for w in witnesses
    ]
    script.refute(candidates(ways))
    claim = _claim(record, check, "")
    return Draft(kind, name, record, check, claim, script.text(claim), ends, witnesses)


def _witnesses(certifier: Certifier, found: Discharged, ends: Ends) -> Iterator[Seen | Gone]:
    finder = certifier.beside(found.dependence.frame, ends.check)
    for how in found.ordered:
        yield from finder.seen(how, ends)
    for cleared in found.cleared:
        yield from finder.gone(cleared, ends)


def _claim(record: Site, check: Site, why: str) -> str:
    made, asked = record.op, check.op
    assert isinstance(made, Record) and isinstance(asked, Check)
    access = "write" if made.mutate else "read"
    claim = (
        f"No {hazard(asked).value} on {made.access.name.name}: the {access} at line "
        f"{made.origin.span.line} ({made.origin.text}) is visible at line "
        f"{asked.origin.span.line} ({asked.origin.text}) wherever both touch one element, the "
        "first earlier, or has been cleared."
    )
    return f"{claim} By the rules alone: {why}." if why else claim
