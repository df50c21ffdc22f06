"""Each careless reading of the rules, as a mutant of the prover: some program must tell it apart.

The programs are those of `test_agreement`; a mutant that agrees with the machine on all of them
would show that the tests do not look at the rule at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from exogpu.ir.types import Level
from exogpu.machine.amir import Check, Record
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic import (
    barriers,
    closure,
    dependences,
    frames,
    obligations,
    phase,
    ranks,
)
from exogpu.symbolic.prover import analyse
from tests.symbolic.agreement import admitting_zero, generated, machine_set, prover_set

SHAPES = ("chains", "straight_line", "groups", "tasked", "ring")
SUSPECTS = [(shape, seed) for seed in range(500, 514) for shape in SHAPES]
SUSPECTS += [("chains", seed) for seed in range(514, 550)]
SIZES = (1, 2, 5)


@cache
def suspect(shape: str, seed: int):
    """The program, its sizes, and the machine's violations at each."""
    program = admitting_zero(generated(shape, seed))
    sizes = [{"K": k} for k in SIZES] if program.params else [{}]
    return program, [(at, machine_set(program, at)) for at in sizes]


def told_apart() -> bool:
    """Whether some program's violations now differ from the machine's."""
    for shape, seed in SUSPECTS:
        program, expected = suspect(shape, seed)
        findings = analyse(program)
        if findings.undecided:
            continue
        if any(prover_set(findings, at) != theirs for at, theirs in expected):
            return True
    return False


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {}


def mutant(apply: Callable[[pytest.MonkeyPatch], None]) -> Callable[[pytest.MonkeyPatch], None]:
    MUTANTS[apply.__name__] = apply
    return apply


@mutant
def proxies_need_no_fence(patch):
    """Decision 7a forgotten: temporal entries of the async proxy hold for every record."""
    patch.setattr(closure, "temporal_side", lambda site, *_: site.op.temporal - site.op.full)


@mutant
def temporal_becomes_full(patch):
    """Decision 7b forgotten: a temporal grant witnesses a full one."""

    def passes(granted, site, original, policy):
        pre = closure.pre_side(site, original)
        met = pre & (granted.op.full | closure.temporal_side(granted, original, policy))
        return closure.Passes(bool(met), False, False)

    patch.setattr(closure, "passes", passes)


@mutant
def temporal_is_no_witness(patch):
    """A temporal grant passes nothing on: too few chains under strict."""
    kept = closure.passes

    def passes(*arguments):
        found = kept(*arguments)
        return replace(found, lowered=False, temporal=False)

    patch.setattr(closure, "passes", passes)


@mutant
def every_sync_is_transitive(patch):
    patch.setattr(closure, "pre_side", lambda site, original: site.op.pre)


@mutant
def one_record_for_all_threads(patch):
    def holder(frame, site, *, exact):
        return closure.Holder(site, False, exact)

    patch.setattr(obligations, "holder", holder)


@mutant
def one_thread_suffices(patch):
    """A check by several threads is satisfied by any of them."""
    patch.setattr(frames.Frame, "covered", frames.Frame.shared)


@mutant
def nothing_is_cleared(patch):
    """Clears are not seen: old records stay."""

    def met_through(after, until, first, middle, second):
        found = rel.met_on(after.apply_range(until), first, second)
        return found.subtract(found)

    patch.setattr(dependences.rel, "met_through", met_through)


@mutant
def whole_windows_are_cleared(patch):
    """A Clear of some elements of a window clears them all."""
    patch.setattr(
        dependences.rel,
        "met_through",
        lambda after, until, first, middle, second: rel.met_on(
            after.apply_range(until), first, second
        ),
    )


@mutant
def targets_count_for_themselves(patch):
    """Decision 15 forgotten: the rank of a multicast is the count of its last target."""
    patch.setattr(ranks, "home_of", lambda site: ranks.targets_of(site)[-1])
    patch.setattr(barriers, "home_of", lambda site: ranks.targets_of(site)[-1])


@mutant
def one_more_in_flight(patch):
    """Await off by one."""
    kept = ranks.Ranks.bound
    patch.setattr(ranks.Ranks, "bound", lambda self, site: rel.plus(kept(self, site), 1))


@mutant
def tasks_share_threads(patch):
    patch.setattr(frames.Frame, "same_task", lambda self, relation, first, second: relation)


@mutant
def records_are_ordered_at_once(patch):
    """The level of a record is not asked for: unordered accesses count as done."""

    def granted(records: Record, check: Check) -> bool:
        return records.timeline in check.timelines and records.level >= Level.UNORDERED

    patch.setattr(obligations, "granted_from_start", granted)


@mutant
def atomics_are_like_writes(patch):
    patch.setattr(dependences, "always_visible", lambda records, check: False)


@mutant
def trailing_barriers_tag_nothing(patch):
    kept = closure.Syncs.released

    def released(self, site):
        return iter(()) if isinstance(site.op, Record) else kept(self, site)

    patch.setattr(closure.Syncs, "released", released)


@mutant
def awaits_are_counted(patch):
    """Balance of commit groups: `w` is the number of Awaits, not the largest `a - n`."""
    patch.setattr(
        barriers,
        "_waited",
        lambda uses, query: uses.ranks.count(query, uses.ranks.awaits(uses.name)),
    )


@mutant
def phase_is_for_one_thread(patch):
    """PHASE (i) is asked of the arrival, not of each of its threads."""
    patch.setattr(
        phase._Orders,
        "all_threads",
        lambda self, await_, site, *, each: self.some_thread(
            closure.Holder(await_, False, True), site
        ),
    )
    kept = phase._followers
    patch.setattr(
        phase,
        "_followers",
        lambda uses, orders, site, depth, each, asked: kept(
            uses, orders, site, depth, False, asked
        ),
    )


@mutant
def phase_needs_no_answer(patch):
    """PHASE (ii) is forgotten."""
    patch.setattr(phase, "_unfollowed", lambda uses, orders, depth: iter(()))


def test_unchanged_prover_agrees() -> None:
    assert not told_apart()


@pytest.mark.parametrize("name", MUTANTS)
def test_careless_reading_is_told_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert told_apart()
