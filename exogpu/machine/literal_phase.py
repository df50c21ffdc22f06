"""PHASE (decision `mbarrier-phase`): on an mbarrier no arrival runs a whole ring ahead of a waiter,
and no waiter a whole ring ahead of the arrivals.

Execution order is tracked by pseudo-records: an Await of `bound` by thread g makes one, seen by
g at first; every Fence that joins its threads, and every Arrive or trailing barrier with the Await
that it releases, passes it on, whatever the timelines.  A wgmma.fence joins none, and for its
commit group a thread waits alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from exogpu.analysis.ring_depth import DEPTHS
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.types import Sym
from exogpu.machine import literal_records
from exogpu.machine.observer import Moment


@dataclass(slots=True, eq=False)
class Awaited:
    """One thread's Await of arrival `bound` on the element `index`."""

    index: literal_records.Index
    bound: int
    at: Moment
    sees: literal_records.Threads
    tags: dict[literal_records.Element, set[int]] = field(default_factory=dict)
    followed: set[int] = field(default_factory=set)
    """The depths d for which arrival bound + d, made by a thread that sees this, has happened."""
    reported: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class PhaseFailure:
    """At `index`, for one depth; `awaited` is the Await at fault, None if there is none: as in
    (iii), where what fails is itself an Await."""

    depth: int
    index: literal_records.Index
    awaited: Awaited | None


@dataclass(slots=True, eq=False)
class Phase:
    """The history of one allocation of an mbarrier; `depths` are those under test."""

    depths: tuple[int, ...]
    awaited: list[Awaited] = field(default_factory=list)
    arrived: dict[literal_records.Index, set[int]] = field(default_factory=dict)
    """Ranks of the arrivals (not of trailing barriers) on each element."""


def new_phase(depth: int | None) -> Phase:
    """The given depth; else every depth that may be found."""
    return Phase((depth,) if depth is not None else tuple(DEPTHS))


def pass_fence(phase: Phase, threads: literal_records.Threads) -> None:
    """A Fence orders what one of its threads has seen before all of them."""
    for awaited in phase.awaited:
        if literal_records.shares(awaited.sees, threads):
            awaited.sees = literal_records.join(awaited.sees, threads)


def pass_arrive(
    phase: Phase,
    threads: literal_records.Threads,
    targets: tuple[literal_records.Element, ...],
    count: int,
) -> None:
    """An Arrive, or an instruction's trailing barrier, carries what one of its threads has seen."""
    for awaited in phase.awaited:
        if literal_records.shares(awaited.sees, threads):
            for target in targets:
                awaited.tags.setdefault(target, set()).add(count)


def pass_await(
    policy: Policy,
    phase: Phase,
    threads: literal_records.Threads,
    barrier: literal_records.Element,
    n: int,
    bound: int,
) -> None:
    """An Await is ordered after the Arrives whose tags it receives (`receives`)."""
    for awaited in phase.awaited:
        tags = awaited.tags.get(barrier, ())
        if any(literal_records.receives(policy, n, rank, bound) for rank in tags):
            awaited.sees = literal_records.join(awaited.sees, threads)


def forget_barrier(phase: Phase, name: Sym) -> None:
    """Decision `task-order`: the tags of a barrier's earlier allocation match nothing later."""
    for awaited in phase.awaited:
        for element in [e for e in awaited.tags if e[0] == name]:
            del awaited.tags[element]


def check_arrival(
    policy: Policy,
    phase: Phase,
    index: literal_records.Index,
    rank: int,
    threads: literal_records.Threads,
) -> list[PhaseFailure]:
    """(i) every thread of arrival r + d on an element, and of every instruction trailing on it,
    is ordered after an Await for arrival r on it; under `paper`, for r or a later one."""
    failures = []
    here = [awaited for awaited in phase.awaited if awaited.index == index]
    for depth in phase.depths:
        if rank - depth < 0:
            continue
        ordered = literal_records.NOBODY
        for awaited in here:
            if literal_records.receives(policy, -1, rank - depth, awaited.bound):
                ordered = literal_records.join(ordered, awaited.sees)
        if not literal_records.covers(ordered, threads):
            failures.append(PhaseFailure(depth, index, here[-1] if here else None))
    return failures


def note_arrival(
    phase: Phase, index: literal_records.Index, rank: int, threads: literal_records.Threads
) -> None:
    """Arrival `rank` has happened: it follows, `rank - bound` deep, the Awaits its threads see."""
    phase.arrived.setdefault(index, set()).add(rank)
    for awaited in phase.awaited:
        if (
            awaited.index == index
            and awaited.bound < rank
            and literal_records.shares(awaited.sees, threads)
        ):
            awaited.followed.add(rank - awaited.bound)


def check_followed(
    phase: Phase, index: literal_records.Index, bound: int | None
) -> list[PhaseFailure]:
    """(ii) for each Await of r by thread g, some thread of arrival r + d is ordered after it.

    Asked at the Await of `bound` on the element, which makes arrival r + d final where
    `bound >= r + d`, and at the barrier's free, where `bound` is None.  Vacuous where arrival
    r + d does not exist.
    """
    failures = []
    arrived = phase.arrived.get(index, set())
    for awaited in phase.awaited:
        if awaited.index != index:
            continue
        for depth in phase.depths:
            rank = awaited.bound + depth
            final = bound is None or rank <= bound
            if not final or rank not in arrived or depth in awaited.followed | awaited.reported:
                continue
            awaited.reported.add(depth)
            failures.append(PhaseFailure(depth, index, awaited))
    return failures


def check_waiter(
    phase: Phase, index: literal_records.Index, bound: int, threads: literal_records.Threads
) -> list[PhaseFailure]:
    """(iii) each thread of an Await for arrival r >= d on an element is ordered after an Await for
    arrival r - d on it: the phase before, on the same hardware mbarrier.

    Asked before the Await receives anything.  That another Await, for an arrival between the two,
    came earlier is not enough: it was on another mbarrier of the ring, whose arrival may be
    complete before r - d is (its bytes, or another thread, are still to come).
    """
    failures = []
    for depth in phase.depths:
        if bound - depth < 0:
            continue
        ordered = literal_records.NOBODY
        for awaited in phase.awaited:
            if awaited.index == index and awaited.bound == bound - depth:
                ordered = literal_records.join(ordered, awaited.sees)
        if not literal_records.covers(ordered, threads):
            failures.append(PhaseFailure(depth, index, None))
    return failures


def begin_await(phase: Phase, index: literal_records.Index, bound: int, at: Moment) -> None:
    """One pseudo-record a thread; an Await of nothing (bound < 0) makes none."""
    if bound >= 0:
        phase.awaited.extend(
            Awaited(index, bound, at, frozenset({thread})) for thread in at.threads
        )
