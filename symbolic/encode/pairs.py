"""Obligations on pairs of accesses: each record that a check meets is visible to it, or cleared.

Every Record and Check of one variable that could meet is an obligation, whatever was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exogpu.amir.nodes import Check, Record
from exogpu.ir.names import Sym
from exogpu.machine.literal import hazard
from exogpu.symbolic.encode.chains import Chains, Rules, candidates
from exogpu.symbolic.encode.drafts import Draft, Encoder, Ends
from exogpu.symbolic.encode.formulas import every, everyone
from exogpu.symbolic.encode.ranks import RankTable
from exogpu.symbolic.encode.slots import Slots
from exogpu.symbolic.encode.witness import Gone
from exogpu.symbolic.placed import always_visible
from exogpu.symbolic.sites import Site


def pairs_of(encoder: Encoder, ranks: Callable[[Sym], RankTable], record: Site) -> Iterator[Draft]:
    """An obligation for every Check that a Record could meet."""
    assert isinstance(record.op, Record)
    for check in encoder.placed.sites:
        op = check.op
        if not isinstance(op, Check) or op.access.name != record.op.access.name:
            continue
        if op.mutates == record.op.mutate:
            yield _pair(encoder, ranks, record, check)


def each_for_itself(record: Site, check: Site) -> tuple[bool, bool]:
    """Tests whether every thread has a record of its own, and whether every thread of the check has
    to see it."""
    made, asked = record.op, check.op
    assert isinstance(made, Record) and isinstance(asked, Check)
    one_record = made.convergent or made.timeline is None or everyone(record)
    one_is_enough = asked.convergent or everyone(check)
    return not one_record, not one_is_enough


def _pair(encoder: Encoder, ranks: Callable[[Sym], RankTable], record: Site, check: Site) -> Draft:
    made, asked = record.op, check.op
    assert isinstance(made, Record) and isinstance(asked, Check)
    name, placed = made.access.name, encoder.placed
    kind, called = hazard(asked), placed.called[name]
    placed.passes_values(name, record, check)
    if always_visible(made, asked):
        why = "atomics are visible to each other's threads"
        return Draft(kind, name, record, check, _claim(called, record, check, why), "")
    met = encoder.meetings.of(record, check, name)
    if met is None:
        why = "the first never comes earlier"
        return Draft(kind, name, record, check, _claim(called, record, check, why), "")
    script, first, second, element = met.script, met.first, met.second, met.element
    script.assume_inside(first, element)
    script.assume_inside(second, element)
    found = encoder.sought.chains(record.number, check.number)
    slots = Slots(script, placed, ranks)
    script.assume(every(slots.known(first, made.access, found)))
    script.assume(every(slots.known(second, asked.access, found)))
    by_record, by_check = each_for_itself(record, check)
    ends = Ends(
        first,
        script.thread(first, "first.thread") if by_record else None,
        second,
        script.thread(second, "second.thread") if by_check else None,
        element,
    )
    meaning = encoder.meaning(
        {"first": first, "second": second},
        {"first": ends.record_thread, "second": ends.check_thread},
        element,
    )
    chains = Chains(script, placed, ranks, slots, ends, meaning)
    rules = Rules(placed.program.policy, made, placed.sites)
    ways = [
        chains.gone(one, name) if isinstance(one, Gone) else chains.seen(one, rules)
        for one in found
    ]
    slots.compare()
    script.refute(candidates(ways))
    claim = _claim(called, record, check, "")
    return Draft(kind, name, record, check, claim, script.text(claim), ends, meaning, found)


def _claim(called: str, record: Site, check: Site, why: str) -> str:
    made, asked = record.op, check.op
    assert isinstance(made, Record) and isinstance(asked, Check)
    access = "write" if made.mutate else "read"
    claim = (
        f"No {hazard(asked).value} on {called}: the {access} at line "
        f"{made.origin.span.line} ({made.origin.text}) is visible at line "
        f"{asked.origin.span.line} ({asked.origin.text}) wherever both touch one element, the "
        "first earlier, or has been cleared."
    )
    return f"{claim} By the rules alone: {why}." if why else claim
