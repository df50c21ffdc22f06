"""Conditions of the certificates, each dropped or weakened: then a wrong program is certified.

Each program (`dropped_*`) violates the machine's rules at some size and is not certified; without
the one condition it is.  Some need a careless analysis too, whose evidence only the condition
refuses.  Not here, since they follow from others: that an Arrive comes before the Await that it
releases (else it is late: DEADLOCK), and that the element of an Await lies in its barrier.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from exogpu.amir import nodes as amir
from exogpu.amir.nodes import Clear
from exogpu.machine import literal
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.solvers.smt import ask_z3
from exogpu.symbolic import prove
from exogpu.symbolic.search.analysis import Evidence, analyse
from exogpu.symbolic.search.dependences import Cleared
from exogpu.symbolic.sites import Site, UndecidedError
from tests.machine import decisions, pitfalls
from tests.machine.build import Builder
from tests.symbolic import dropped_barriers, dropped_chains, dropped_rules, dropped_writes
from tests.symbolic.careless import MUTANTS as CARELESS
from tests.symbolic.dropped import CASES, COUNTS, Case, reads, write
from tests.symbolic.suspects import told, told_by

MODULES = (dropped_barriers, dropped_chains, dropped_rules, dropped_writes)
"""They add to the cases."""


def violates(program: amir.Program, size: int) -> bool:
    return bool(literal.run(program, {"K": size}))


def certified(evidence: Evidence) -> bool:
    try:
        return all(
            not draft.script or ask_z3(draft.script).word == "unsat"
            for draft in prove.drafts(evidence)
        )
    except UndecidedError:
        return False


def test_every_module_has_cases() -> None:
    found = {case.program.__module__ for case in CASES}
    assert found == {module.__name__ for module in MODULES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_condition_is_needed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder()
    case.program(b, b.size("K"))
    program = b.program()
    assert any(violates(program, size) for size in range(1, 7))
    if case.careless is not None:
        (COUNTS.get(case.careless) or CARELESS[case.careless][1])(monkeypatch)
    evidence = analyse(program).evidence
    assert evidence is not None
    assert not certified(evidence)
    case.change(monkeypatch)
    assert certified(evidence)


# --- evidence of careless analyses ----------------------------------------------------------------

OVERLOOK = (
    "proxies_need_no_fence",
    "temporal_becomes_full",
    "temporal_suffices_for_reads",
    "records_are_ordered_at_once",
    "every_sync_is_transitive",
    "one_thread_suffices",
    "tasks_share_threads",
    "whole_windows_are_cleared",
    "the_last_write_is_enough",
    "a_partial_access_ends_the_slot",
    "atomics_never_conflict",
    "loops_run_at_least_once",
    "guards_always_hold",
    "deadlock_counts_the_home_alone",
    "awaits_are_counted",
    "balance_is_not_asked",
    "one_more_in_flight",
    "one_less_in_flight",
    "a_copy_completes_everywhere",
    "tags_outlive_their_barrier",
    "late_arrives_are_in_time",
    "tags_need_no_arrive",
    "phase_is_for_one_thread",
    "phase_takes_a_wgmma_fence_for_a_barrier",
    "phase_takes_a_commit_group_for_a_barrier",
    "phase_forgets_trailing_instructions",
    "waiters_may_run_ahead",
    "any_phase_of_the_ring_is_enough",
)
"""The careless readings that find nothing in some wrong program."""


@pytest.mark.parametrize("name", OVERLOOK)
def test_what_a_careless_analysis_overlooks_is_not_certified(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = [*told(), *told_by(pitfalls), *told_by(decisions)]
    CARELESS[name][1](monkeypatch)
    overlooked = 0
    for program, expected in programs:
        if not any(violations for _, violations in expected):
            continue
        findings = analyse(program)
        if findings.violations or findings.undecided:
            continue
        assert findings.evidence is not None
        assert not certified(findings.evidence)
        overlooked += 1
        if overlooked == 2:
            return
    assert overlooked


# --- forged evidence ------------------------------------------------------------------------------


def forged(evidence: Evidence, clear: Site) -> Evidence:
    """The evidence, which says that this Clear comes between each record and its check."""

    def says(one: Discharged) -> Discharged:
        frame, record, check = one.dependence.frame, one.dependence.record, one.dependence.check
        cells = [frame.cells(site, site.op.access) for site in (record, check)]
        met = rel.met_on(one.dependence.pairs, *cells)
        after, until = frame.instances_before(record, clear), frame.instances_before(clear, check)
        assert not isl.is_empty(met)
        return replace(one, cleared=(Cleared(clear, after, until, met),), left=None)

    discharged = {pair: [*map(says, some)] for pair, some in evidence.discharged.items()}
    return replace(evidence, discharged=discharged)


@pytest.mark.parametrize("mutates", [False, True])
def test_clear_of_other_records(mutates: bool) -> None:
    b = Builder()
    x = b.data("x")
    write(b, x)
    b.clear(x[()], mutates=mutates)
    reads(b, x)
    program = b.program()
    evidence = analyse(program).evidence
    assert evidence is not None
    (clear,) = (site for site in evidence.model.sites if isinstance(site.op, Clear))
    assert bool(literal.run(program, {})) is not mutates
    assert certified(forged(evidence, clear)) is mutates
