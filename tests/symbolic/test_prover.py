"""Single rules of the prover on small programs with a known answer for all sizes."""

from __future__ import annotations

from dataclasses import replace

from examples import erroneous_synchronisation as paper
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import Compare, Int
from exogpu.symbolic.search.analysis import analyse
from tests.machine.build import (
    COMMIT,
    MBARRIER,
    Q1,
    Q2,
    TEMPORAL,
    UNORDERED,
    WAR,
    Builder,
    add,
    at_least,
    mod,
    mul,
    sub,
    t,
)
from tests.symbolic.agreement import admitting_zero, check, safe_condition

TRIPS = [{"K": k} for k in range(8)]


def test_contradictory_preconditions_are_vacuous() -> None:
    b = Builder()
    k = b.size("K")
    b.write(b.data("x", 4)[0], t(0), Q1)
    program = b.program()
    never = Compare("<", k, Int(1))  # a size is at least 1
    findings = analyse(replace(program, preconditions=(never,)))
    assert findings.vacuous
    assert not analyse(program).vacuous


def test_a_clear_later_in_the_iteration_of_the_record() -> None:
    # x[0] is read in each trip k, cleared in trip 0 after the read, and checked in trip 1: of the
    # reads that the check may meet the one of trip 0 is gone.  (A flow analysis that kills by
    # iterations of the loop lets it pass.)
    b = Builder()
    k = b.size("K")
    x = b.data("x", 1)
    with b.loop("k", 0, k) as i:
        b.check(x[sub(i, 1)], t(2), Q2, mutates=False, level=TEMPORAL)
        b.clear(x[sub(i, 1)], mutates=False)
        b.record(x[0], t(2), Q1)
        b.clear(x[i], mutates=False)
    findings = check(admitting_zero(b.program()), TRIPS)
    assert findings.violations == ()


def test_kills_are_per_element() -> None:
    # Three reads, one of them cleared in each trip, up to trip 3 some are left.
    b = Builder()
    k = b.size("K")
    x = b.data("x", 3)
    b.record(x[0:3], t(0), Q1)
    with b.loop("k", 0, k) as i:
        b.clear(x[mod(i, 3)], mutates=False)
    b.check(x[0:3], t(1), Q1, mutates=False)
    program = admitting_zero(b.program())
    findings = check(program, TRIPS)
    assert {f.kind for f in findings.violations} == {WAR}
    assert safe_condition(program, findings) == "K >= 3"


def test_ring_that_is_safe_up_to_its_depth() -> None:
    # Nothing releases the slots: writing more than there are overtakes the reads.
    b = Builder()
    k = b.size("K")
    x, z = b.data("x", 4), b.barrier("z", 4, mechanism=COMMIT)
    b.alloc(z)
    with b.loop("k", 0, k) as i:
        b.write(x[mod(i, 4)], t(0), Q1)
        b.arrive(t(0), Q1, z[mod(i, 4)])
        b.await_(z[mod(i, 4)], t(1), Q1, n=0)
        b.read(x[mod(i, 4)], t(1), Q1, level=UNORDERED)
    program = admitting_zero(b.program())
    findings = check(program, TRIPS)
    assert safe_condition(program, findings) == "K <= 4"


def test_condition_on_a_remainder() -> None:
    # Pairs of trips: the second releases what the first wrote, and an odd last one is unreleased.
    b = Builder()
    k = b.size("K")
    x = b.data("x", 1)
    with b.loop("k", 0, k) as i:
        b.record(x[0], t(0), Q1, mutate=True)
        with b.when(Compare("==", mod(i, 2), Int(1))):
            b.clear(x[0], mutates=True)
    b.check(x[0], t(1), Q1, mutates=True)
    program = admitting_zero(b.program())
    findings = check(program, TRIPS)
    assert safe_condition(program, findings) == "K mod 2 = 0"


def test_threads_that_move_with_the_iteration() -> None:
    # Thread k mod 3 writes, all fence, thread (k + 1) mod 3 reads in the next trip.
    for members, safe in ((3, True), (2, False)):
        b = Builder()
        k = b.size("K")
        x = b.data("x", 3)
        with b.loop("k", 0, k) as i:
            b.write(x[mod(i, 3)], t(mod(i, 3)), Q1)
            b.fence(t(0, members), Q1, Q1, transitive=True)
            b.read(x[mod(i, 3)], t(mod(add(i, 1), 3)), Q1)
            b.fence(t(0, members), Q1, Q1, transitive=True)
        findings = check(admitting_zero(b.program()), TRIPS)
        assert (findings.violations == ()) == safe


def test_nothing_depends_on_how_large_a_constant_is() -> None:
    # A window of a thousand times as many elements, and as many threads: the same answer, by the
    # same number of obligations.
    found = []
    for scale in (1, 1000):
        b = Builder()
        k = b.size("K")
        x = b.data("x", 2, 8 * scale)
        full = b.barrier("full", mechanism=MBARRIER, depth=3)
        empty = b.barrier("empty", mechanism=MBARRIER, depth=3)
        b.alloc(full)
        b.alloc(empty)
        producer, consumer = t(0, 2 * scale), t(mul(1, 2 * scale), 4 * scale)
        with b.loop("k", 0, k) as i:
            slot = mod(i, 2)
            b.await_(empty[()], producer, (), Q1, n=-3)
            b.write(x[slot, 0 : 8 * scale], t(0), Q1)
            b.arrive(producer, Q1, full[()])
            b.await_(full[()], consumer, Q1)
            b.read(x[slot, 0 : 8 * scale], consumer, Q1)
            with b.when(at_least(i, 1)):
                b.arrive(consumer, Q1, empty[()])
        findings = analyse(b.program())
        assert not findings.undecided
        found.append(
            sorted((f.kind.name, f.check.op.origin.span.line) for f in findings.violations)
        )
    assert found[0] == found[1]


def test_paper_examples_for_all_sizes() -> None:
    # The erroneous ones are refuted under both policies, the repairs whose post side is
    # cuda_generic_and_async are not.
    for policy in Policy:
        for number in (1, 2, 3):
            wrong = vars(paper)[f"example_{number}"].amir(policy)
            repaired = vars(paper)[f"example_{number}_repaired"].amir(policy)
            assert analyse(wrong).violations
            found = analyse(repaired)
            assert (found.violations, found.undecided) == ((), ())
