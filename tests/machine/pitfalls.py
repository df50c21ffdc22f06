"""Where a synchronisation checker goes wrong: small programs and the right answer.

Each case is a program and the violations that a run which collects all of them must find, as
(kind, variable, index, line of the failing operation); every interpreter must find them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.types import BarrierMechanism, QualTL
from exogpu.machine import fast, literal
from exogpu.machine.observer import Violation
from tests.machine.build import (
    ATOMIC,
    BARRIER,
    COMMIT,
    DEADLOCK,
    FREE,
    FULL,
    PHASE,
    Q0,
    Q1,
    Q2,
    RAW,
    TEMPORAL,
    TMA,
    UNORDERED,
    WAR,
    WAW,
    Builder,
    add,
    at_least,
    mod,
    mul,
    t,
)

WGD = QualTL.WG_D


def run_fast(*arguments: object, **options: object) -> tuple[Violation, ...]:
    return fast.run(*arguments, **options).violations


INTERPRETERS = {"literal": literal.run, "fast": run_fast}
"""A new interpreter joins every test of this folder here."""

PAPER, PTX = Policy.PAPER, Policy.PTX
BOTH = (PAPER, PTX)


@pytest.fixture(params=INTERPRETERS)
def run(request: pytest.FixtureRequest) -> Callable[..., tuple[Violation, ...]]:
    return INTERPRETERS[request.param]


def facts(violations: tuple[Violation, ...]) -> list[tuple[object, ...]]:
    return [(v.kind, v.variable, v.index, v.check.origin.span.line) for v in violations]


def line(op: amir.Op) -> int:
    return op.origin.span.line


def all_of(run, b: Builder, policy: Policy, **sizes: int) -> list[tuple[object, ...]]:
    """Every violation; and the run that stops must stop at the first of them."""
    program = b.program(policy)
    every = run(program, sizes, collect=True)
    assert run(program, sizes) == every[:1]
    return facts(every)


CTA0, CTA1 = t(0), t(1)


# 1 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_multicast_count(run, policy):
    b = Builder()
    x, z = b.data("A"), b.barrier("z", 2, depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.write(x[()], CTA1, Q0)
        b.arrive(CTA0, Q0, z[0], z[1])
        b.arrive(CTA1, Q0, z[1], z[0])
        b.await_(z[0], CTA0, Q0)
        b.read(x[()], CTA0, Q0)
        # z[1] is awaited too, so that the barrier balances at its free.
        b.await_(z[1], CTA1, Q0)
        b.free_barrier(z)
    # Safe: CTA 1 tags z[0] with its own home's count 0, which the first Await waits for.
    assert all_of(run, b, policy) == []


# 2 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_deadlock_across_ctas(run, policy):
    b = Builder()
    z, y = b.barrier("z", 2, depth=1), b.barrier("y", depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.alloc(y)
        b.arrive(CTA0, Q0, z[0], z[1])
        early = b.await_(z[0], CTA0, Q0)
        b.arrive(CTA0, Q0, y[()])
        b.await_(y[()], CTA1, Q0)
        late = b.arrive(CTA1, Q0, z[1], z[0])
        b.await_(z[1], CTA1, Q0)
        b.free_barrier(y)
        b.free_barrier(z)
    # DEADLOCK: z[0] needs CTA 1's arrive, which waits for y, which waits for z[0].  Seen at the
    # late Arrive, since only then z[1] is known to be a home of z[0].
    program = b.program(policy)
    (found,) = run(program, {}, collect=True)
    assert facts((found,)) == [(DEADLOCK, "z", (0,), line(late))]
    assert found.record is early


# 3 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_await_of_no_arrive_is_balanced(run, policy):
    b = Builder()
    z = b.barrier("z", mechanism=COMMIT)
    b.alloc(z)
    b.await_(z[()], t(0), Q0, n=0)
    b.free_barrier(z)
    assert all_of(run, b, policy) == []  # balanced: w stays 0


@pytest.mark.parametrize("policy", BOTH)
def test_arrive_after_the_await_is_unbalanced(run, policy):
    b = Builder()
    z = b.barrier("z", mechanism=COMMIT)
    b.alloc(z)
    b.await_(z[()], t(0), Q0, n=0)
    b.arrive(t(0), Q0, z[()])
    free = b.free_barrier(z)
    assert all_of(run, b, policy) == [(BARRIER, "z", (), line(free))]  # a = 1, w = 0


# 4 ----------------------------------------------------------------------------------------


def two_groups(b: Builder, original, end) -> tuple[amir.Op, amir.Op]:
    """RecordRead(A, original) by t2, then the temporal grant of g on Q0, then `end`."""
    x, g = b.data("A"), b.barrier("g", mechanism=COMMIT)
    b.alloc(g)
    b.record(x[()], t(2), original)
    b.arrive(t(2), Q2, g[()])
    b.await_(g[()], t(2), temporal=Q0, n=0)
    end(b)
    return b.write(x[()], t(2), Q1)


@pytest.mark.parametrize("policy", BOTH)
def test_non_transitive_steps_keep_the_original_timeline(run, policy):
    b = Builder()
    e = b.barrier("e", mechanism=COMMIT)

    def second_group(b: Builder) -> None:
        b.arrive(t(2), Q0, e[()])
        b.await_(e[()], t(2), temporal=Q1, n=0)

    b.alloc(e)
    _, of_reads = two_groups(b, Q2, second_group)
    # WAR: the second Arrive must not fire, the record's own timeline is Q2.
    assert all_of(run, b, policy) == [(WAR, "A", (), line(of_reads))]


@pytest.mark.parametrize("policy", BOTH)
def test_non_transitive_fence_fires_on_a_temporal_grant_of_the_original_timeline(run, policy):
    b = Builder()
    x, g = b.data("A"), b.barrier("g", mechanism=COMMIT)
    b.alloc(g)
    b.record(x[()], t(2), Q1, level=UNORDERED)
    b.arrive(t(2), Q1, g[()])
    b.await_(g[()], t(3), temporal=Q1, n=0)
    b.fence(t(3), Q1, (), Q0)
    b.write(x[()], t(3), Q0)
    # Safe: the record is Q1's, and thread 3 sees it there (temporally) before the Fence.
    assert all_of(run, b, policy) == []


# 5 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_a_check_by_several_threads(run, policy):
    b = Builder()
    x = b.data("A")
    b.record(x[()], t(2), Q0)
    check = b.check(x[()], t(1, 2), Q0, mutates=False, level=TEMPORAL)
    # Error: thread 1 sees nothing, and that thread 2 does is no help.
    assert all_of(run, b, policy) == [(WAR, "A", (), line(check))]


@pytest.mark.parametrize("policy", BOTH)
def test_a_convergent_check_by_several_threads(run, policy):
    b = Builder()
    x = b.data("A")
    b.record(x[()], t(2), Q0)
    b.check(x[()], t(1, 2), Q0, mutates=False, level=TEMPORAL, convergent=True)
    assert all_of(run, b, policy) == []  # one of the threads is enough


# 6 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_kills_are_per_element(run, policy):
    b = Builder()
    x = b.data("A", 3)
    with b.loop("k", 4, 5) as k:
        b.record(x[0:3], t(0), Q0)
        b.clear(x[mod(k, 3)], mutates=False)
        check = b.check(x[0:3], t(1), Q0, mutates=False, level=TEMPORAL)
    # 4 mod 3 = 1 is cleared; the two other elements still have their record.
    assert all_of(run, b, policy) == [
        (WAR, "A", (0,), line(check)),
        (WAR, "A", (2,), line(check)),
    ]


# 7 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_atomics_pile_up(run, policy):
    b = Builder()
    x = b.data("A")
    first = b.record(x[()], t(0), Q1, mutate=True, level=UNORDERED, atomic=Q1)
    second = b.record(x[()], t(1), Q1, mutate=True, level=UNORDERED, atomic=Q1)
    # A third atomic mutate may join them in any order ...
    b.check(x[()], t(2), Q1, mutates=True, level=ATOMIC)
    b.fence(t(1, 2), Q1, Q1)  # threads 1 and 2: only the second is ordered before thread 2
    check = b.read(x[()], t(2), Q1)
    # ... but a read ordered after the second only still races with the first.
    (found,) = run(b.program(policy), {}, collect=True)
    assert facts((found,)) == [(RAW, "A", (), line(check))]
    assert found.record is first
    assert found.record is not second


# 8 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_earliest_is_not_always_best(run, policy):
    b = Builder()
    x = b.data("A")
    b.write(x[()], t(0), Q0)
    b.fence(t(0, 2), Q0, (), Q1)
    early = b.read(x[()], t(1), Q1)
    b.fence(t(0, 2), Q0, Q1)
    b.read(x[()], t(1), Q1)
    # The first sync gives temporal order only, the later one full order: the second read is safe.
    assert all_of(run, b, policy) == [(RAW, "A", (), line(early))]


# 9 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("with_first_fence", [False, True])
def test_more_synchronisation_never_hurts(run, policy, with_first_fence):
    b = Builder()
    x = b.data("A")
    b.record(x[()], t(0), Q1, mutate=True, level=UNORDERED)
    if with_first_fence:
        b.fence(t(0), Q1, (), Q1)
    b.fence(t(0, 2), Q1, Q0, transitive=True)
    b.read(x[()], t(1), Q0)
    # Safe with and without the temporal fence, under ptx too: own access still witnesses.
    assert all_of(run, b, policy) == []


# 10 ---------------------------------------------------------------------------------------


def temporal_then_full(b: Builder):
    x = b.data("A")
    b.write(x[()], t(0), Q0)
    b.fence(t(0, 2), Q0, (), Q0)
    b.fence(t(1, 2), Q0, Q0, transitive=True)
    return x


@pytest.mark.parametrize("policy", BOTH)
def test_temporal_does_not_become_full(run, policy):
    b = Builder()
    x = temporal_then_full(b)
    check = b.read(x[()], t(2), Q0)
    # ptx: RAW.  Paper: accepted, its witness asks for `unordered` or better.
    expected = [(RAW, "A", (), line(check))] if policy is PTX else []
    assert all_of(run, b, policy) == expected


@pytest.mark.parametrize("policy", BOTH)
def test_an_overwrite_needs_temporal_only(run, policy):
    b = Builder()
    x = temporal_then_full(b)
    b.write(x[()], t(2), Q0)
    assert all_of(run, b, policy) == []  # safe under both


# 11 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_tags_of_an_earlier_task(run, policy):
    b = Builder()
    x, z = b.data("A"), b.barrier("z", depth=1)
    with b.tasks("task", 0, 2):
        b.alloc(z)
        of_mutates, _ = b.write(x[()], t(0), Q1)
        b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(0), Q1)
        b.free_barrier(z)
    # A race, whatever the counts: threads of two tasks are never ordered.
    program = b.program(policy)
    (found,) = run(program, {}, collect=True)
    assert facts((found,)) == [(WAW, "A", (), line(of_mutates))]
    assert (found.task, found.record_task) == (2, 1)


@pytest.mark.parametrize("policy", BOTH)
def test_tags_of_an_earlier_allocation(run, policy):
    b = Builder()
    x, z = b.data("A"), b.barrier("z", mechanism=COMMIT)
    b.alloc(z)
    b.write(x[()], t(0), Q1)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(0), Q1, n=0)
    b.free_barrier(z)
    b.alloc(z)
    b.arrive(t(1), Q1, z[()])
    b.await_(z[()], t(1), Q1, n=0)
    check = b.read(x[()], t(1), Q1)
    # The tag 0 of the first allocation is not the 0 that the second one awaits.
    assert all_of(run, b, policy) == [(RAW, "A", (), line(check))]


# 12 ---------------------------------------------------------------------------------------


def after_a_temporal_await(b: Builder):
    x, z = b.data("x"), b.barrier("z", mechanism=COMMIT)
    b.alloc(z)
    b.write(x[()], t(0), Q1)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1), (), Q1, n=0)
    return x


@pytest.mark.parametrize("policy", BOTH)
def test_update_after_a_temporal_await(run, policy):
    b = Builder()
    x = after_a_temporal_await(b)
    of_mutates, _ = b.write(x[()], t(1), Q1, reads=True)
    assert all_of(run, b, policy) == [(RAW, "x", (), line(of_mutates))]  # x += 2 reads x


@pytest.mark.parametrize("policy", BOTH)
def test_overwrite_after_a_temporal_await(run, policy):
    b = Builder()
    x = after_a_temporal_await(b)
    b.write(x[()], t(1), Q1)
    assert all_of(run, b, policy) == []  # x = 2 does not


@pytest.mark.parametrize("policy", BOTH)
def test_read_of_another_variable_after_a_temporal_await(run, policy):
    b = Builder()
    y = after_a_temporal_await(b)
    x = b.data("target")
    check = b.read(y[()], t(1), Q1)
    b.write(x[()], t(1), Q1)
    assert all_of(run, b, policy) == [(RAW, "x", (), line(check))]  # target = x + 2


# 13 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_partial_access_to_a_ring_slot(run, policy):
    b = Builder()
    x = b.data("ring", 2, 4)
    b.read(x[0, 0:4], t(0), Q1)
    b.read(x[0, 2:4], t(1), Q1)
    b.fence(t(0, 3), Q1, Q1)  # threads 0 .. 2
    b.read(x[0, 2:4], t(1), Q1)  # the other half is read again, after the release
    _, of_reads = b.write(x[0, 0:4], t(2), Q1)
    # WAR on the half that was not released; the partial access did not lose the slot's state.
    assert all_of(run, b, policy) == [
        (WAR, "ring", (0, 2), line(of_reads)),
        (WAR, "ring", (0, 3), line(of_reads)),
    ]


# 14 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("trips", [0, 1, 2])
def test_accumulator_after_a_loop_that_never_ran(run, policy, trips):
    b = Builder()
    n = b.size("n")
    acc, g = b.data("acc"), b.barrier("g", mechanism=COMMIT)
    b.alloc(g)
    with b.loop("k", 0, n):
        b.write(acc[()], t(0), Q2, reads=True, level=FULL)
        b.arrive(t(0), Q2, g[()])
    b.await_(g[()], t(0), Q0, n=0)
    b.read(acc[()], t(0), Q0)
    b.free_barrier(g)
    assert all_of(run, b, policy, n=trips) == []  # zero trips: no record, a = w = 0


def lagged_ring(depth: int, skip: int, lag: int) -> Builder:
    """A producer and a consumer around a ring of `depth` slots; the consumer releases slot
    k - lag at iteration k, and the producer awaits `~skip` on it."""
    b = Builder()
    n = b.size("n")
    ring = b.data("ring", depth)
    full = b.barrier("full", depth, depth=1 + skip)
    empty = b.barrier("empty", depth, depth=1 + skip)
    with b.tasks("task", 0, 1):
        b.alloc(full)
        b.alloc(empty)
        with b.loop("k", 0, n) as k:
            b.await_(empty[mod(k, depth)], t(0), (), Q1, n=-skip - 1)
            b.write(ring[mod(k, depth)], t(0), Q1)
            b.arrive(t(0), Q1, full[mod(k, depth)])
            b.await_(full[mod(k, depth)], t(1), Q1)
            b.read(ring[mod(k, depth)], t(1), Q1)
            with b.when(at_least(k, lag)):
                b.arrive(t(1), Q1, empty[mod(add(k, -lag), depth)])
        b.release(full)
        b.release(empty)
    return b


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("trips", [0, 1, 2, 5, 9])
def test_guard_beyond_the_trip_count(run, policy, trips):
    # k >= 4 with fewer than 4 iterations: nothing is ever released, and nothing needs to be; at
    # trip k >= 5 the producer awaits the release of slot k - 5, made in trip k - 1.
    b = lagged_ring(depth=5, skip=1, lag=4)
    assert all_of(run, b, policy, n=trips) == []


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_ring_depth_1(run, policy, trips):
    b = lagged_ring(depth=1, skip=1, lag=0)
    assert all_of(run, b, policy, n=trips) == []


@pytest.mark.parametrize("policy", BOTH)
def test_release_that_lags_too_far(run, policy):
    # With one slot and a lag of 1, the second trip awaits the release of the first trip's slot,
    # which comes later in the second trip.
    b = lagged_ring(depth=1, skip=1, lag=1)
    assert all_of(run, b, policy, n=1) == []
    found = all_of(run, b, policy, n=2)
    assert found[0][0] is DEADLOCK


# 15 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize(("outer", "inner"), [(0, 3), (2, 0), (2, 7), (3, 4)])
def test_ranks_under_nested_loops(run, policy, depth, outer, inner):
    b = Builder()
    n_i, n_k = b.size("I"), b.size("K")
    ring = b.data("ring", depth)
    full = b.barrier("full", depth, depth=2)
    empty = b.barrier("empty", depth, depth=2)
    with b.tasks("task", 0, 1):
        b.alloc(full)
        b.alloc(empty)
        with b.loop("i", 0, n_i), b.loop("k", 0, n_k) as k:
            slot = mod(k, depth)
            b.await_(empty[slot], t(0), (), Q1, n=-2)
            b.write(ring[slot], t(0), Q1)
            b.arrive(t(0), Q1, full[slot])
            b.await_(full[slot], t(1), Q1)
            b.read(ring[slot], t(1), Q1)
            b.arrive(t(1), Q1, empty[slot])
        b.free_barrier(full)
        b.free_barrier(empty)
    # Safe for all I, K, though the count is i * ceil(K / depth) + floor(k / depth).
    assert all_of(run, b, policy, I=outer, K=inner) == []


# 16 ---------------------------------------------------------------------------------------


def copied_to_all(b: Builder, ctas: int, use, awaits: dict[int, int]) -> amir.Op:
    """A multicast into every CTA's copy; threads await a CTA's barrier (thread -> CTA), the cluster
    is fenced, the copies are used, and the other barriers are awaited at last."""
    x, z = b.data("A", ctas, shared=True), b.barrier("z", ctas, depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.multicast(lambda c: x[c], lambda c: t(mul(2, c)), lambda c: z[c], ctas)
        with b.loop("c", 0, ctas) as c:
            b.arrive(t(mul(2, c)), (), z[c])
        for thread, cta in awaits.items():
            b.await_(z[cta], t(thread), Q1)
        b.fence(t(0, 2 * ctas), Q1, Q1, transitive=True)
        check = use(b, x, ctas)
        for cta in sorted(set(range(ctas)) - set(awaits.values())):
            b.await_(z[cta], t(2 * cta), Q1)
        b.free_barrier(z)
    return check


USES = {
    RAW: lambda b, x, ctas: b.read(x[ctas - 1], t(2 * ctas - 2), Q1),
    WAW: lambda b, x, ctas: b.write(x[ctas - 1], t(2 * ctas - 2), Q1)[0],
    FREE: lambda b, x, ctas: b.free(x[0:ctas], t(0, 2 * ctas))[0],
}
"""By hazard, the use of the last CTA's copy, or of all, that may be early."""


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("kind", USES)
@pytest.mark.parametrize("ctas", [2, 4])
def test_a_copy_completes_on_the_barrier_of_its_cta(run, policy, kind, ctas):
    b = Builder()
    check = copied_to_all(b, ctas, USES[kind], {0: 0})
    # CTA 0's wait says nothing of the other CTAs' copies.
    late = range(1, ctas) if kind is FREE else (ctas - 1,)
    found = set(all_of(run, b, policy))
    assert found == {(kind, "A", (e,), line(check)) for e in late}


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("kind", USES)
@pytest.mark.parametrize("waiter", [0, 1])
def test_a_copy_is_there_once_its_own_cta_has_waited(run, policy, kind, waiter):
    b = Builder()
    # By the reader itself, or by another thread of its CTA, which the fence orders before it.
    copied_to_all(b, 2, USES[kind], {2 + waiter: 1, 0: 0})
    assert all_of(run, b, policy) == []


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("awaits", [{0: 0}, {2: 1}])
def test_a_source_has_been_read_when_any_copy_completes(run, policy, awaits):
    b = Builder()
    x, z = b.data("source"), b.barrier("z", 2, depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        with b.loop("home", 0, 2) as c:
            trailing = amir.Trailing(z[c], (z[0:2],))
            b.record(x[()], t(mul(2, c)), TMA, level=UNORDERED, trailing=trailing)
        with b.loop("c", 0, 2) as c:
            b.arrive(t(mul(2, c)), (), z[c])
        for thread, element in awaits.items():
            b.await_(z[element], t(thread), Q1)
        b.fence(t(0, 4), Q1, Q1, transitive=True)
        b.write(x[()], t(0), Q1)
        b.release(z)
    assert all_of(run, b, policy) == []


# 17 ---------------------------------------------------------------------------------------


def two_arrivals(b: Builder, depth: int | None, first) -> amir.Op:
    """Thread 0 arrives, writes and arrives again; `first` await number 0, thread 1 number 1."""
    x, z = b.data("x"), b.barrier("z", depth=depth)
    b.alloc(z)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], first, Q1)
    b.fence(first, ())
    b.write(x[()], t(0), Q1)
    b.arrive(t(0), Q1, z[()])
    wait = b.await_(z[()], t(1), Q1)
    b.read(x[()], t(1), Q1)
    b.free_barrier(z)
    return wait


@pytest.mark.parametrize("policy", BOTH)
def test_a_waiter_must_not_run_ahead(run, policy):
    b = Builder()
    wait = two_arrivals(b, 1, t(0))
    # The fresh mbarrier answers as if phase 1 were over: thread 1 reads what was never written.
    assert all_of(run, b, policy) == [(PHASE, "z", (), line(wait))]
    (found,) = run(b.program(policy), {}, collect=True)
    assert found.record is None


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("depth", [1, 2, None])
def test_a_waiter_that_awaits_each_phase(run, policy, depth):
    b = Builder()
    two_arrivals(b, depth, t(0, 2))
    assert all_of(run, b, policy) == []


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("depth", [2, None])
def test_a_deeper_ring_has_a_barrier_for_each(run, policy, depth):
    b = Builder()
    two_arrivals(b, depth, t(0))
    assert all_of(run, b, policy) == []


def number_0_for_another(b: Builder, depth: int | None, *, told: bool) -> amir.Op:
    """Thread 1 awaits number 0 and thread 2 the numbers 1 and 2; thread 0, which arrives, hears of
    both before number 2.  Returns the Await for number 2."""
    z, y = b.barrier("z", depth=depth), b.barrier("y", 2, depth=1)
    b.alloc(z)
    b.alloc(y)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1), Q1)
    b.arrive(t(1), Q1, y[0])
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(2), Q1)
    b.arrive(t(2), Q1, y[1])
    b.await_(y[0], t(0, 3, 2) if told else t(0), Q1)
    b.await_(y[1], t(0), Q1)
    b.arrive(t(0), Q1, z[()])
    wait = b.await_(z[()], t(2), Q1)
    b.free_barrier(z)
    return wait


@pytest.mark.parametrize("policy", BOTH)
def test_a_later_phase_of_another_barrier_is_not_enough(run, policy):
    # Thread 2 has awaited number 1 when it awaits number 2.  That tells nothing of number 0,
    # which was on the mbarrier of number 2: its bytes may still be on their way.
    b = Builder()
    wait = number_0_for_another(b, 2, told=False)
    assert all_of(run, b, policy) == [(PHASE, "z", (), line(wait))]
    for depth, told in ((2, True), (3, False), (None, False)):
        b = Builder()
        number_0_for_another(b, depth, told=told)
        assert all_of(run, b, policy) == []


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_alternating_waiters(run, policy, trips):
    # Threads 1 and 2 take turns: a thread skips each second phase of the one mbarrier.
    b = Builder()
    count = b.size("K")
    z = b.barrier("z", depth=1)
    b.alloc(z)
    with b.loop("k", 0, count) as k:
        b.arrive(t(0), Q1, z[()])
        wait = b.await_(z[()], t(add(mod(k, 2), 1)), Q1)
        b.fence(t(0, 2), ())
        b.fence(t(0, 2, 2), ())
    b.free_barrier(z)
    found = run(b.program(policy), {"K": trips}, collect=True)
    ahead = [v for v in found if v.check is wait and v.record is None]
    # The Fences after an Await of thread 1 tell thread 2, but not those after one of thread 2.
    assert [dict(v.iteration)["k"] for v in ahead] == list(range(2, trips, 2))


# 18 ---------------------------------------------------------------------------------------


def stored(policy: Policy, fences: tuple[str, ...], *, others: bool = False, wide: bool = True):
    """Thread 0 writes S, fences before or after it and arrives; thread 1 awaits and copies S out.
    With `others` thread 2 writes an element too, and only arrives."""
    b = Builder()
    s, z = b.data("S", 2), b.barrier("z", depth=1)
    ordinary, proxied = SYNC_TIMELINES["cuda_in_order"], SYNC_TIMELINES["cuda_generic_and_async"]
    pre, post = ordinary.sets_under(policy).full, ordinary.sets_under(policy)
    proxied = proxied if wide else SYNC_TIMELINES["cuda_async_proxy"]
    with b.tasks("task", 0, 1):
        b.alloc(z)
        if "before" in fences:
            b.fence_tl(t(0), ordinary, proxied, policy)
        b.write(s[0], t(0), Q1)
        if others:
            b.write(s[1], t(2), Q1)
        if "after" in fences:
            b.fence_tl(t(0), ordinary, proxied, policy)
        b.arrive(t(0, 2, 2), pre, z[()], transitive=True)
        b.await_(z[()], t(1), post.full, post.temporal)
        check = b.read(s[0:2], t(1), QualTL.TMA_G, level=UNORDERED)
        b.free_barrier(z)
    return b, check


def test_a_proxy_fence_at_the_writer(run):
    b, _ = stored(PTX, ("after",))
    assert all_of(run, b, PTX) == []


def test_a_proxy_fence_of_the_async_proxy_alone(run):
    # The writer lets the Arrive fire by its own access, and has crossed by the fence.
    b, _ = stored(PTX, ("after",), wide=False)
    assert all_of(run, b, PTX) == []


@pytest.mark.parametrize("fences", [(), ("before",)])
def test_no_proxy_fence_after_the_write(run, fences):
    b, check = stored(PTX, fences)
    assert all_of(run, b, PTX) == [(RAW, "S", (0,), line(check))]


@pytest.mark.parametrize("wide", [True, False])
def test_a_proxy_fence_of_another_writer(run, wide):
    b, check = stored(PTX, ("after",), others=True, wide=wide)
    assert all_of(run, b, PTX) == [(RAW, "S", (1,), line(check))]


@pytest.mark.parametrize("arriving", [0, 1])
def test_the_thread_that_arrives_has_crossed(run, arriving):
    b = Builder()
    s, z = b.data("S"), b.barrier("z", depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.write(s[()], t(0, 2), Q1, convergent=True)
        b.fence(t(0), Q1, TMA, transitive=True)
        b.arrive(t(arriving), Q1, z[()], transitive=True)
        b.await_(z[()], t(2), Q1, TMA)
        check = b.read(s[()], t(2), TMA, level=UNORDERED)
        b.free_barrier(z)
    # Both threads have written S; thread 0 alone has executed the proxy fence.
    expected = [(RAW, "S", (), line(check))] if arriving == 1 else []
    assert all_of(run, b, PTX) == expected


def test_paper_asks_for_the_proxy_fence_at_the_end(run):
    b, check = stored(PAPER, ("after",))
    assert all_of(run, b, PAPER) == [(RAW, "S", (0,), line(check))]


# 19 ---------------------------------------------------------------------------------------


def overtaken(policy: Policy, fenced: bool) -> tuple[Builder, amir.Op]:
    """Thread 0 reads S and arrives; thread 1 awaits, in time only, and copies into S."""
    b = Builder()
    s, z = b.data("S"), b.barrier("z", depth=1)
    ordinary, proxied = SYNC_TIMELINES["cuda_in_order"], SYNC_TIMELINES["cuda_generic_and_async"]
    late = SYNC_TIMELINES["cuda_temporal"].sets_under(policy)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.read(s[()], t(0), Q1)
        if fenced:
            b.fence_tl(t(0), ordinary, proxied, policy)
        b.arrive(t(0), ordinary.sets_under(policy).full, z[()], transitive=True)
        b.await_(z[()], t(1), late.full, late.temporal)
        _, check = b.write(s[()], t(1), TMA, level=UNORDERED)
        b.free_barrier(z)
    return b, check


@pytest.mark.parametrize("policy", BOTH)
def test_a_proxy_fence_at_the_reader(run, policy):
    b, _ = overtaken(policy, fenced=True)
    assert all_of(run, b, policy) == []


@pytest.mark.parametrize("policy", BOTH)
def test_no_proxy_fence_at_the_reader(run, policy):
    b, check = overtaken(policy, fenced=False)
    expected = [(WAR, "S", (), line(check))] if policy is PTX else []
    assert all_of(run, b, policy) == expected


# 20 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("fence", ["cuda_in_order", "wgmma_fence_2"])
def test_registers_and_wgmma(run, policy, fence):
    """Decision `temporal-wgmma`."""
    b = Builder()
    d, ordinary = b.data("D"), SYNC_TIMELINES["cuda_in_order"]
    wait, first = SYNC_TIMELINES["wgmma_async"], SYNC_TIMELINES["wgmma_fence_1"]
    wgmma = {"reads": True, "convergent": True}
    with b.tasks("task", 0, 1):
        b.write(d[()], t(0), WGD, **wgmma)
        b.fence_tl(t(0), wait, ordinary, policy)
        b.read(d[()], t(0), Q0)
        if fence == "wgmma_fence_2":
            b.fence_tl(t(0), first, SYNC_TIMELINES[fence], policy)
        else:
            b.fence_tl(t(0), ordinary, ordinary, policy)
        _, check = b.write(d[()], t(0), WGD, **wgmma)
    # The registers are not fenced from wgmma: PTX asks for a wgmma.fence, the figures do not.
    unfenced = policy is PTX and fence == "cuda_in_order"
    assert all_of(run, b, policy) == ([(WAR, "D", (), line(check))] if unfenced else [])


@pytest.mark.parametrize("policy", BOTH)
def test_a_fence_that_joins_no_threads_passes_no_order_on(run, policy):
    # wgmma.fence orders a thread's own accesses: thread 0 may arrive again before 1 has waited.
    for joins in (True, False):
        b = Builder()
        z = b.barrier("z", depth=1)
        b.alloc(z)
        b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(1), Q1)
        b.fence(t(0, 2), (), joins=joins)
        arrive = b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(1), Q1)
        b.free_barrier(z)
        early = [(PHASE, "z", (), line(arrive))]
        assert all_of(run, b, policy)[:1] == ([] if joins else early)


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("mechanism", [BarrierMechanism.MBARRIER, BarrierMechanism.COMMIT_GROUP])
def test_for_its_commit_group_a_thread_waits_alone(run, policy, mechanism):
    b = Builder()
    z, g = b.barrier("z", depth=1), b.barrier("g", mechanism=mechanism, depth=1)
    b.alloc(z)
    b.alloc(g)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1), Q1)
    b.arrive(t(0, 2), Q1, g[()])
    alone = mechanism is BarrierMechanism.COMMIT_GROUP
    b.await_(g[()], t(0, 2), Q1, n=0 if alone else -1)
    arrive = b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1), Q1)
    b.free_barrier(z)
    b.free_barrier(g)
    early = [(PHASE, "z", (), line(arrive))]
    assert all_of(run, b, policy)[:1] == (early if alone else [])
