"""The corrections of the paper's figures, one test each, by the name in `machine.literal`."""

from __future__ import annotations

import pytest

from exogpu.amir import nodes as amir
from exogpu.amir.slot_privacy import PrivateSlotError
from exogpu.analysis.threadmap import ThreadAxis, ThreadMap
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.nodes import Int
from exogpu.ir.types import QualTL
from exogpu.machine import literal
from exogpu.machine.index_contents import with_contents
from tests.machine.build import (
    ATOMIC,
    BARRIER,
    COMMIT,
    CPU,
    DEADLOCK,
    FREE,
    FULL,
    LEAK,
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
    WGS,
    Builder,
    add,
    at_least,
    mod,
    mul,
    t,
)
from tests.machine.pitfalls import BOTH, PAPER, PTX, all_of, facts, line
from tests.machine.shapes.loads import load
from tests.machine.shapes.slots import bound

# 1, 2 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_windows_are_half_open(run, policy):
    """Decision `half-open-windows`."""
    b = Builder()
    x = b.data("x", 4)
    b.record(x[1:3], t(0), Q0)
    check = b.check(x[0:4], t(1), Q0, mutates=False, level=TEMPORAL)
    # 1:3 is elements 1 and 2, not 3.
    assert all_of(run, b, policy) == [
        (WAR, "x", (1,), line(check)),
        (WAR, "x", (2,), line(check)),
    ]


@pytest.mark.parametrize("policy", BOTH)
def test_cpu_scope_is_everyone(run, policy):
    """Decision `figures-read`."""
    b = Builder()
    x = b.data("x")
    b.write(x[()], CPU, QualTL.CPU)
    b.read(x[()], CPU, QualTL.CPU)  # the CPU sees its own writes: one record for all of g
    b.fence(CPU, QualTL.CPU, Q1, transitive=True)
    with b.tasks("task", 0, 2):
        b.read(x[()], t(0, 4), Q1)  # every thread of every task sees it after the launch
    _, of_reads = b.write(x[()], CPU, QualTL.CPU)
    # ... but the CPU does not see the kernel's reads without a Fence back to it.
    program = b.program(policy)
    (found,) = run(program, {}, collect=True)
    assert facts((found,)) == [(WAR, "x", (), line(of_reads))]
    assert found.task is None


@pytest.mark.parametrize("policy", BOTH)
def test_a_cpu_fence_hears_every_task(run, policy):
    b = Builder()
    x = b.data("x")
    with b.tasks("task", 0, 2):
        b.read(x[()], t(3), Q1)
    b.fence(CPU, Q1, QualTL.CPU, transitive=True)
    b.write(x[()], CPU, QualTL.CPU)
    assert all_of(run, b, policy) == []


# 3 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("newest", [0, 1, 2])
def test_await_waits_for_all_but_the_newest(run, policy, newest):
    b = Builder()
    x, g = b.data("x", 2), b.barrier("g", mechanism=COMMIT)
    b.alloc(g)
    b.write(x[0], t(0), Q2, level=UNORDERED)
    b.arrive(t(0), Q2, g[()])
    b.write(x[1], t(0), Q2, level=UNORDERED)
    b.arrive(t(0), Q2, g[()])
    b.await_(g[()], t(0), Q0, n=newest)
    first, second = (b.read(x[i], t(0), Q0) for i in range(2))
    late = [(RAW, "x", (0,), line(first)), (RAW, "x", (1,), line(second))]
    # All but the newest n of the two groups are complete: the late ones race.
    assert all_of(run, b, policy) == late[2 - newest :]


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("skip", [0, 1])
def test_await_waits_for_the_numbered(run, policy, skip):
    b = Builder()
    x, z = b.data("x", 2), b.barrier("z", depth=2)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        for i in range(2):
            b.write(x[i], t(0), Q1)
            b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(1), Q1, n=-1 - skip)  # the first Await waits for arrive 0 - skip
        first = b.read(x[0], t(1), Q1)
        second = b.read(x[1], t(1), Q1)
        b.release(z)
    both = [(RAW, "x", (0,), line(first)), (RAW, "x", (1,), line(second))]
    assert all_of(run, b, policy) == both[1 - skip :]


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("trailing", [False, True])
def test_an_await_is_of_its_own_arrival(run, policy, trailing):
    b = Builder()
    x, z = b.data("x"), b.barrier("z", depth=2)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        copy = amir.Trailing(z[()], (z[()],)) if trailing else None
        b.write(x[()], t(0), Q1, trailing=copy)
        b.arrive(t(0), () if trailing else Q1, z[()])
        b.arrive(t(2), Q1, z[()])  # arrival 1 is of a thread that has not seen the write
        b.await_(z[()], t(3), Q1)
        b.await_(z[()], t(1), Q1)
        check = b.read(x[()], t(1), Q1)
        b.release(z)
    unseen = [(RAW, "x", (), line(check))]
    assert all_of(run, b, policy) == (unseen if policy is PTX else [])


@pytest.mark.parametrize("policy", BOTH)
def test_an_arrival_carries_what_its_threads_have_seen(run, policy):
    b = Builder()
    x, z = b.data("x"), b.barrier("z", depth=2)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.write(x[()], t(0), Q1)
        b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(2), Q1)
        b.arrive(t(2), Q1, z[()], transitive=True)
        b.await_(z[()], t(1), Q1)
        b.read(x[()], t(1), Q1)
        b.release(z)
    assert all_of(run, b, policy) == []


def later_waiter() -> Builder:
    """Arrival 2 on a ring of two mbarriers by a thread that has awaited arrival 1, not 0."""
    b = Builder()
    z = b.barrier("z", depth=2)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.arrive(t(0), Q1, z[()])
        b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(1), Q1)
        b.await_(z[()], t(0), Q1)
        b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(1), Q1)
        b.release(z)
    return b


@pytest.mark.parametrize("policy", BOTH)
def test_phase_asks_for_the_arrival_of_the_same_slot(run, policy):
    found = {f[0] for f in all_of(run, later_waiter(), policy)}
    # (i) under ptx; and by (ii) the first waiter is not waited for.
    assert found == {PHASE}
    arrives = run(later_waiter().program(policy), {}, collect=True)
    early = [v for v in arrives if isinstance(v.check, amir.Arrive)]
    assert bool(early) == (policy is PTX)


@pytest.mark.parametrize("policy", BOTH)
def test_deadlock_at_await(run, policy):
    b = Builder()
    z = b.barrier("z", 2, depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.arrive(t(0), Q1, z[0])
        b.await_(z[0], t(0), Q1)  # arrival 0 is there
        none = b.await_(z[1], t(0), Q1)  # nobody ever arrives on z[1]
        again = b.await_(z[0], t(0), Q1)  # arrival 1 is not there
        b.release(z)
    assert all_of(run, b, policy) == [
        (DEADLOCK, "z", (1,), line(none)),
        (DEADLOCK, "z", (0,), line(again)),
    ]


@pytest.mark.parametrize("policy", BOTH)
def test_deadlock_counts_every_home(run, policy):
    b = Builder()
    z = b.barrier("z", 2, depth=2)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.arrive(t(0), Q1, z[0], z[1])
        b.arrive(t(1), Q1, z[1], z[0])
        b.await_(z[0], t(0), Q1)
        b.arrive(t(0), Q1, z[0], z[1])
        wait = b.await_(z[0], t(0), Q1)
        b.release(z)
    # Home z[0] has two arrives, home z[1] only one: the second phase of z[0] is incomplete.
    # Counting the home alone would accept it.
    assert (DEADLOCK, "z", (0,), line(wait)) in all_of(run, b, policy)


@pytest.mark.parametrize("policy", BOTH)
def test_deadlock_at_later_arrive(run, policy):
    b = Builder()
    z = b.barrier("z", 2, depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.arrive(t(0), Q1, z[0])
        first = b.await_(z[0], t(0), Q1)
        late = b.arrive(t(1), Q1, z[1], z[0])
        b.release(z)
    # Only now z[1] is known to be a home of z[0], whose first phase it completes too late.
    (found,) = run(b.program(policy), {}, collect=True)
    assert facts((found,)) == [(DEADLOCK, "z", (0,), line(late))]
    assert found.record is first


@pytest.mark.parametrize("policy", BOTH)
def test_deadlock_of_a_trailing_tag(run, policy):
    b = Builder()
    x, z = b.data("x"), b.barrier("z", depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        trailing = amir.Trailing(z[()], (z[()],))
        record = b.record(x[()], t(0), TMA, mutate=True, level=UNORDERED, trailing=trailing)
        free = b.free_barrier(z)
    # The instruction signals phase 0, which no Arrive ever completes.
    (found,) = run(b.program(policy), {}, collect=True)
    assert facts((found,)) == [(DEADLOCK, "z", (), line(free))]
    assert found.record is record


@pytest.mark.parametrize("policy", BOTH)
def test_balance_at_free(run, policy):
    b = Builder()
    z = b.barrier("z", 2, depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.arrive(t(0), Q1, z[1])
        free = b.free_barrier(z)
    assert all_of(run, b, policy) == [(BARRIER, "z", (1,), line(free))]  # a = 1, w = 0


# 4 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("awaited", [False, True])
def test_a_record_without_timeline_is_invisible(run, policy, awaited):
    b = Builder()
    z = b.barrier("z", depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        trailing = amir.Trailing(z[()], (z[()],))
        b.record(z[()], t(0), None, trailing=trailing)
        b.arrive(t(0), (), z[()])
        b.fence(t(0, 2), {Q0, Q1, Q2, TMA}, {Q0, Q1, Q2}, transitive=True)
        if awaited:
            b.await_(z[()], t(0), Q1)
        _, of_reads = b.free(z[()], t(0))
        b.release(z)
    # Not even the thread that made it sees it, whatever it fences; the Await of its tag does.
    expected = [] if awaited else [(FREE, "z", (), line(of_reads))]
    assert all_of(run, b, policy) == expected


@pytest.mark.parametrize("policy", BOTH)
def test_an_arrive_without_timelines_tags_nothing(run, policy):
    """Decision `arrive-counts`."""
    b = Builder()
    x, z = b.data("x"), b.barrier("z", depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.write(x[()], t(0), Q1)
        b.arrive(t(0), (), z[()])
        b.await_(z[()], t(1), Q1)
        check = b.read(x[()], t(1), Q1)
        b.free_barrier(z)  # yet it counts: the barrier balances
    assert all_of(run, b, policy) == [(RAW, "x", (), line(check))]


# 6 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("trips", [0, 1, 2])
@pytest.mark.parametrize("tasks", [0, 1, 2])
def test_empty_loops_and_trips_of_one(run, policy, trips, tasks):
    """Decision `empty-loops`."""
    b = Builder()
    n, m = b.size("n"), b.size("m")
    x = b.data("x", 2, 2)
    with b.tasks("task", 0, m) as task, b.loop("k", 0, n) as k:
        b.write(x[task, k], t(0), Q1)
    assert all_of(run, b, policy, n=trips, m=tasks) == []


# 7 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize(
    ("reader", "post", "safe_under"),
    [
        # An ordinary read, then TMA: temporal order alone is enough for the paper only.
        (Q1, "cuda_in_order", {PAPER}),
        (Q1, "cuda_temporal", {PAPER}),
        # A proxy fence is enough for both.
        (Q1, "cuda_generic_and_async", {PAPER, PTX}),
        # Both accesses in the async proxy: temporal order is enough for both.
        (WGS, "cuda_in_order", {PAPER, PTX}),
    ],
)
def test_proxy_needs_a_proxy_fence(run, policy, reader, post, safe_under):
    b = Builder()
    x = b.data("x")
    b.read(x[()], t(0), reader, level=UNORDERED)
    b.fence_tl(t(0, 2), SYNC_TIMELINES["cuda_generic_and_async"], SYNC_TIMELINES[post], policy)
    _, of_reads = b.write(x[()], t(1), TMA, level=UNORDERED)
    expected = [] if policy in safe_under else [(WAR, "x", (), line(of_reads))]
    assert all_of(run, b, policy) == expected


@pytest.mark.parametrize("policy", BOTH)
def test_temporal_stays_temporal_through_a_barrier(run, policy):
    b = Builder()
    x, z = b.data("x"), b.barrier("z", depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.write(x[()], t(0), Q0)
        b.fence(t(0, 2), Q0, (), Q0)  # thread 1 is ordered temporally only
        b.arrive(t(1), Q0, z[()], transitive=True)
        b.await_(z[()], t(2), Q0)
        b.check(x[()], t(2), Q0, mutates=True, level=TEMPORAL)
        check = b.read(x[()], t(2), Q0)
        b.release(z)
    # ptx: the tag carries the level, so the Await grants temporal order.  Paper: full order.
    expected = [(RAW, "x", (), line(check))] if policy is PTX else []
    assert all_of(run, b, policy) == expected


@pytest.mark.parametrize("policy", BOTH)
def test_an_await_uses_the_best_tag(run, policy):
    b = Builder()
    x, z = b.data("x"), b.barrier("z", depth=2)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.write(x[()], t(0), Q0)
        b.fence(t(0, 2), Q0, (), Q0)
        b.arrive(t(1), Q0, z[()], transitive=True)  # tag 0, temporal
        b.arrive(t(0), Q0, z[()], transitive=True)  # tag 1, full
        b.await_(z[()], t(2), Q0)
        early = b.read(x[()], t(2), Q0)
        b.await_(z[()], t(2), Q0)
        b.read(x[()], t(2), Q0)
        b.release(z)
    # ptx: the first Await sees the temporal tag alone, the second the better one of both.
    expected = [(RAW, "x", (), line(early))] if policy is PTX else []
    found = [f for f in all_of(run, b, policy) if f[0] is not PHASE]
    assert found == expected


@pytest.mark.parametrize("policy", BOTH)
def test_a_full_entry_stays_one_under_a_temporal_witness(run, policy):
    b = Builder()
    x = b.data("x")
    b.read(x[()], t(0), Q1)
    b.fence(t(0, 2), Q1, (), Q1)  # thread 1 is ordered temporally
    b.fence(t(1, 2), Q1, TMA, transitive=True)  # and proxy-fences, towards thread 2
    b.write(x[()], t(2), TMA, level=UNORDERED)
    # The second sync has the async proxy in its full set: it is a proxy fence, and temporal
    # order is what an overwrite needs.
    assert all_of(run, b, policy) == []


# 9 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_tags_die_with_their_barrier(run, policy):
    b = Builder()
    x, g = b.data("x"), b.barrier("g", mechanism=COMMIT)
    b.alloc(g)
    b.write(x[()], t(0), Q1)
    b.arrive(t(0), Q1, g[()])
    b.release(g)
    b.alloc(g)
    b.arrive(t(0), (), g[()])
    b.await_(g[()], t(1), Q1, n=0)
    check = b.read(x[()], t(1), Q1)
    assert all_of(run, b, policy) == [(RAW, "x", (), line(check))]


@pytest.mark.parametrize("policy", BOTH)
def test_tasks_are_never_ordered(run, policy):
    """Decision `task-order`."""
    b = Builder()
    x = b.data("x")
    with b.tasks("task", 0, 3):
        b.fence(t(0, 2), {Q0, Q1}, {Q0, Q1}, transitive=True)
        b.write(x[()], t(0), Q1)
        b.fence(t(0, 2), {Q0, Q1}, {Q0, Q1}, transitive=True)
    # The same thread of the next task is another thread.  A write clears the one before it, so
    # tasks 2 and 3 report one record each.
    program = b.program(policy)
    found = run(program, {}, collect=True)
    assert [(v.kind, v.task, v.record_task) for v in found] == [(WAW, 2, 1), (WAW, 3, 2)]


# 12 ---------------------------------------------------------------------------------------


def ring(depth: int | None, *, release: bool = True) -> Builder:
    """A producer (0) and a consumer (1) on one mbarrier, which the consumer awaits; a second
    mbarrier lets the producer wait for the consumer, if it is released."""
    b = Builder()
    n = b.size("n")
    full, empty = b.barrier("full", depth=depth), b.barrier("empty", depth=8)
    with b.tasks("task", 0, 1):
        b.alloc(full)
        b.alloc(empty)
        with b.loop("k", 0, n):
            if release:
                b.await_(empty[()], t(0), n=-2)
            b.arrive(t(0), Q1, full[()])
            b.await_(full[()], t(1), Q1)
            if release:
                b.arrive(t(1), (), empty[()])
        b.free_barrier(full)
        b.release(empty)
    return b


@pytest.mark.parametrize("policy", BOTH)
def test_phase_of_a_released_ring(run, policy):
    """Decision `barrier-guards`."""
    # The producer waits for the consumer's previous trip, by execution order alone: the Arrives
    # on `empty` name no timeline.
    assert all_of(run, ring(1), policy, n=6) == []


@pytest.mark.parametrize("policy", BOTH)
def test_phase_of_a_ring_without_release(run, policy):
    b = ring(1, release=False)
    found = run(b.program(policy), {"n": 3}, collect=True)
    # Trip 1 arrives again without knowing of any Await: (i).  The Await of trip 1 finds that no
    # thread of arrival 1 came after the Await of trip 0: (ii).  So on for each trip.
    assert {v.kind for v in found} == {PHASE}
    first, second = found[:2]
    assert isinstance(first.check, amir.Arrive)
    assert first.iteration == (("task", 0), ("k", 1))
    assert isinstance(second.check, amir.Await)
    assert isinstance(second.record, amir.Await)
    assert (second.iteration[1], second.record_iteration[1]) == (("k", 1), ("k", 0))


@pytest.mark.parametrize("policy", BOTH)
def test_phase_is_vacuous_for_short_trip_counts(run, policy):
    # With depth 3 arrival r + 3 does not exist in three trips; in four it does.
    assert all_of(run, ring(3, release=False), policy, n=3) == []
    assert PHASE in {f[0] for f in all_of(run, ring(3, release=False), policy, n=4)}


@pytest.mark.parametrize("policy", BOTH)
def test_phase_depth_is_found(run, policy):
    # No depth given: of 8 trips without release depth 8 and more asks nothing ...
    assert all_of(run, ring(None, release=False), policy, n=8) == []
    # ... and no depth up to 32 serves more than 32 trips.
    b = ring(None, release=False)
    (found,) = run(b.program(policy), {"n": 33}, collect=True)
    assert (found.kind, found.variable) == (PHASE, "full")
    assert isinstance(found.check, amir.CheckBarrier)


@pytest.mark.parametrize("policy", BOTH)
def test_phase_asks_every_arriving_thread(run, policy):
    b = Builder()
    z, y = b.barrier("z", depth=1), b.barrier("y", depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.alloc(y)
        b.arrive(t(0, 2), Q1, z[()])
        b.await_(z[()], t(2), Q1)
        b.arrive(t(2), Q1, y[()])
        b.await_(y[()], t(0), Q1)  # thread 1 does not wait
        again = b.arrive(t(0, 2), Q1, z[()])
        b.await_(z[()], t(2), Q1)
        b.release(z)
        b.release(y)
    assert all_of(run, b, policy) == [(PHASE, "z", (), line(again))]


@pytest.mark.parametrize("policy", BOTH)
def test_phase_asks_for_every_awaiting_thread(run, policy):
    b = Builder()
    z, y = b.barrier("z", depth=1), b.barrier("y", depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.alloc(y)
        b.arrive(t(0), Q1, z[()])
        wait = b.await_(z[()], t(1, 2), Q1)
        b.arrive(t(1), Q1, y[()])  # thread 2 does not tell that it has waited
        b.await_(y[()], t(0), Q1)
        b.arrive(t(0), Q1, z[()])
        b.await_(y[()], t(0), Q1, n=-2)
        free = b.free_barrier(z)
        b.release(y)
    found = run(b.program(policy), {}, collect=True)
    # Seen at the free, since nobody awaits arrival 1; a != w is reported there too.
    assert facts(found) == [(BARRIER, "z", (), line(free)), (PHASE, "z", (), line(free))]
    assert found[1].record is wait


@pytest.mark.parametrize("policy", BOTH)
def test_phase_concerns_trailing_instructions(run, policy):
    b = Builder()
    x, z, y = b.data("x"), b.barrier("z", depth=1), b.barrier("y", depth=1)
    trailing = amir.Trailing(z[()], (z[()],))
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.alloc(y)
        b.arrive(t(0), (), z[()])
        b.await_(z[()], t(1), Q1)
        # Thread 0 starts a copy that signals phase 1 before it knows that phase 0 was awaited.
        early = b.record(x[()], t(0), TMA, level=UNORDERED, trailing=trailing)
        b.arrive(t(1), (), y[()])
        b.await_(y[()], t(0))
        b.arrive(t(0), (), z[()])
        b.await_(z[()], t(1), Q1)
        b.release(z)
        b.release(y)
    assert all_of(run, b, policy) == [(PHASE, "z", (), line(early))]


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("multicast", [False, True])
def test_phase_hears_trailing_instructions(run, policy, multicast):
    b = Builder()
    x = b.data("x")
    full, empty = b.barrier("full", 2, depth=1), b.barrier("empty", depth=1)
    with b.tasks("task", 0, 1):
        b.alloc(full)
        b.alloc(empty)
        b.arrive(t(0), (), empty[()])
        b.await_(empty[()], t(1))  # thread 1 knows that phase 0 of `empty` was awaited
        targets = full[0:2] if multicast else full[1:2]
        # ... and starts a copy that signals full[0] too, if it is multicast.
        b.record(x[()], t(1), TMA, level=UNORDERED, trailing=amir.Trailing(full[1], (targets,)))
        b.arrive(t(0), (), full[0])
        b.arrive(t(1), (), full[1])
        b.await_(full[0], t(0))
        again = b.arrive(t(0), (), empty[()])
        b.release(full)
        b.release(empty)
    # full[0] completes after the copy was issued, so after the Await: then thread 0 may arrive on
    # `empty` again.
    expected = [] if multicast else [(PHASE, "empty", (), line(again))]
    assert all_of(run, b, policy) == expected


# 13 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_elements_outside_are_dropped(run, policy):
    b = Builder()
    n = b.size("n")
    x = b.data("x", n)
    with b.loop("i", 0, 2) as i:
        # Tiles of 4 cover 5 elements: the second one has a single element inside.
        b.record(x[mul(4, i) : add(mul(4, i), 4)], t(0), Q0, mutate=True)
    check = b.check(x[0:100], t(1), Q0, mutates=True, level=TEMPORAL)
    found = all_of(run, b, policy, n=5)
    assert found == [(WAW, "x", (e,), line(check)) for e in range(5)]


# 15 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_trailing_tags_carry_the_home_count(run, policy):
    b = Builder()
    x, z = b.data("x", 2), b.barrier("z", 2, depth=2)
    with b.tasks("task", 0, 1):
        b.alloc(z)
        b.arrive(t(1), (), z[1])  # z[1] is one phase ahead of z[0]
        both = (z[0:2],)
        b.record(x[0], t(0), TMA, mutate=True, trailing=amir.Trailing(z[0], both))
        b.record(x[1], t(1), TMA, mutate=True, trailing=amir.Trailing(z[1], both))
        b.arrive(t(0), (), z[0], z[1])
        b.await_(z[0], t(2), Q1)  # arrival 0
        b.check(x[0], t(2), Q1, mutates=True, level=FULL, reads=True)
        late = b.check(x[1], t(2), Q1, mutates=True, level=FULL, reads=True)
        b.release(z)
    # x[1] is tagged with its own home's count 1 on both elements, so z[0]'s phase 0 misses it.
    assert all_of(run, b, policy) == [(RAW, "x", (1,), line(late))]


# 17 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_one_timeline_of_the_set_is_enough(run, policy):
    b = Builder()
    x = b.data("x")
    b.write(x[()], t(0), Q0)
    b.check(x[()], t(0), {Q0, Q1}, mutates=True)
    assert all_of(run, b, policy) == []


@pytest.mark.parametrize("policy", BOTH)
def test_threads_may_satisfy_a_check_by_different_timelines(run, policy):
    b = Builder()
    x = b.data("x")
    b.write(x[()], t(0), Q0)
    b.fence(t(0), Q0, Q1)
    b.fence(t(0, 2), Q0, Q2)
    b.check(x[()], t(0, 2), {Q0, Q2}, mutates=True)
    bad = b.check(x[()], t(0, 2), {Q0, Q1}, mutates=True)
    assert all_of(run, b, policy) == [(WAW, "x", (), line(bad))]


# order of violations ----------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_first_violation_is_smallest_index_then_earliest_record(run, policy):
    b = Builder()
    x = b.data("x", 3)
    b.record(x[2], t(0), Q0)
    second = b.record(x[1:3], t(0), Q0)
    third = b.record(x[1], t(0), Q0)
    b.check(x[0:3], t(1), Q0, mutates=False, level=TEMPORAL)
    program = b.program(policy)
    every = run(program, {}, collect=True)
    assert [v.index for v in every] == [(1,), (1,), (2,), (2,)]
    assert [v.record for v in every[:2]] == [second, third]
    assert run(program, {}) == every[:1]


@pytest.mark.parametrize("policy", BOTH)
def test_a_strided_thread_map(run, policy):
    b = Builder()
    x = b.data("x", 8)
    # Two threads (0 and 1) in each of two CTAs of 4: threads 0, 1, 4, 5.
    four = ThreadMap((ThreadAxis(4, Int(0), 2), ThreadAxis(1, Int(0), 2)))
    with b.loop("i", 0, 8) as i:
        b.record(x[i], t(i), Q0)
        bad = b.check(x[i], four, Q0, mutates=False, level=TEMPORAL, convergent=True)
    outside = (2, 3, 6, 7)
    assert all_of(run, b, policy) == [(WAR, "x", (i,), line(bad)) for i in outside]


@pytest.mark.parametrize("policy", BOTH)
def test_guards(run, policy):
    b = Builder()
    n = b.size("n")
    x = b.data("x")
    b.write(x[()], t(0), Q0)
    with b.when(at_least(mod(n, 4), 2)):
        of_mutates, _ = b.write(x[()], t(1), Q0)
    assert all_of(run, b, policy, n=5) == []
    assert all_of(run, b, policy, n=6) == [(WAW, "x", (), line(of_mutates))]


def test_policies_are_both_exercised():
    assert set(BOTH) == set(Policy)


# 27 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_what_resides_is_handed_over(run, policy):
    """Decision `resident-memory`."""
    b = Builder()
    x, z = b.data("x", resident=True), b.barrier("z", depth=1, resident=True)
    b.alloc(x)
    b.alloc(z)
    with b.tasks("task", 0, 3):
        # The thread that wrote in the task before writes here; the Await counts on.
        b.await_(z[()], t(1), (), Q1, -2)
        b.write(x[()], t(1), Q1)
        b.fence(t(0, 2), Q1, Q1)
        b.arrive(t(0), Q1, z[()])
    b.free_barrier(z)
    assert all_of(run, b, policy) == []


@pytest.mark.parametrize("policy", BOTH)
def test_what_resides_is_not_fresh_in_a_task(run, policy):
    b = Builder()
    x = b.data("x", resident=True)
    b.alloc(x)
    with b.tasks("task", 0, 2) as task:
        bad, _ = b.write(x[()], t(task), Q1)  # thread 0, then thread 1
    assert all_of(run, b, policy) == [(WAW, "x", (), line(bad))]


@pytest.mark.parametrize("policy", BOTH)
def test_no_value_leaks_from_task_to_task(run, policy):
    b = Builder()
    x = b.data("x", 2, resident=True)
    b.alloc(x)
    with b.tasks("task", 0, 2):
        bad = b.read(x[0], t(0), Q1)  # in the second task, what the first one wrote
        b.write(x[0], t(0), Q1)
        b.read(x[0], t(0), Q1)
    assert all_of(run, b, policy) == [(LEAK, "x", (0,), line(bad))]


@pytest.mark.parametrize("policy", BOTH)
def test_what_resides_orders_nothing_else_from_task_to_task(run, policy):
    b = Builder()
    y, z = b.data("y"), b.barrier("z", depth=2, resident=True)
    b.alloc(z)
    with b.tasks("task", 0, 2):
        b.await_(z[()], t(0), Q1, (), -2)
        bad, _ = b.write(y[()], t(0), Q1)  # another cluster may execute the other task
        b.arrive(t(0), Q1, z[()])
    b.free_barrier(z)
    assert all_of(run, b, policy) == [(WAW, "y", (), line(bad))]


# 42 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_a_slot_is_private_to_its_cluster(run, policy):
    for other in (False, True):
        b = Builder()
        x, y = b.data("x", 2, resident=True), b.data("y", 2)
        z = b.barrier("z", depth=2, resident=True)
        b.alloc(x)
        b.alloc(z)
        with b.tasks("task", 0, 2):
            with bound(b, z[()], 2) as slot:
                b.write((y if other else x)[slot], t(0), Q1)
            b.arrive(t(0), Q1, z[()])
            b.await_(z[()], t(0), Q1)
        b.free_barrier(z)
        if not other:
            assert all_of(run, b, policy) == []
            continue
        with pytest.raises(PrivateSlotError, match="indexes y, which does not reside"):
            run(b.program(policy, compared=False), {})


# 29 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_an_atomic_reads_what_it_changes(run, policy):
    b = Builder()
    x, y = b.data("x"), b.data("y")
    for of in (x, y):
        b.record(of[()], t(0), Q1, mutate=True, level=FULL)
    b.fence(t(0, 2), Q1, Q1)
    b.check(x[()], t(1), Q1, mutates=True, level=ATOMIC)  # ordered in full
    b.record(y[()], t(0), Q1, mutate=True, level=FULL)
    b.fence(t(0, 2), Q1, (), Q1)
    bad = b.check(y[()], t(1), Q1, mutates=True, level=ATOMIC)  # in time alone
    assert all_of(run, b, policy) == [(WAW, "y", (), line(bad))]


@pytest.mark.parametrize("policy", BOTH)
def test_what_is_out_of_order_is_not_atomic(run, policy):
    b = Builder()
    x = b.data("x")
    b.record(x[()], t(0), Q1, mutate=True, level=UNORDERED)
    bad = b.check(x[()], t(0), Q1, mutates=True, level=ATOMIC)  # by the same thread
    assert all_of(run, b, policy) == [(WAW, "x", (), line(bad))]


# 32 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", BOTH)
def test_a_value_is_what_the_array_has(run, policy):
    b = Builder()
    table, x = b.data("table", 3), b.data("x", 4)
    with b.tasks("g", 0, 3) as g, load(b, table[g], 0, 4) as at:
        bad, _ = b.write(x[at], t(0), Q1)
    program = b.program(policy)
    for elements, wrong in ({(0, 1, 3): [], (2, 1, 2): [(WAW, "x", (2,), line(bad))]}).items():
        contents = {"table": elements}
        here = with_contents(program, {}, contents)
        assert facts(literal.run(program, {}, collect=True, contents=contents)) == wrong
        assert facts(run(here, {}, collect=True)) == wrong
    # 4 is in no range: the kernel traps, and the third task does not write.
    trapped = literal.run(program, {}, collect=True, contents={"table": (2, 4, 2)})
    assert trapped == ()
