"""Obligations of barriers: no DEADLOCK (decision `await-counts`), balance at the free, PHASE
(decision `mbarrier-phase`)."""

from __future__ import annotations

from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.machine.literal_phase import PhaseFailure, check_arrival, check_followed, check_waiter
from exogpu.machine.literal_records import Element, Index
from exogpu.machine.literal_state import Barrier, Failure, Failures
from exogpu.machine.observer import Moment


def deadlock_at_arrive(
    barrier: Barrier, targets: tuple[Element, ...], home: Index, rank: int
) -> Failures:
    """Decision `await-counts`: an earlier Await on a target needed this very arrival, or a later
    one of the same home.  Decision `flags`: of a flag an Await needs all arrivals."""
    failures: Failures = []
    for name, index in targets:
        barrier.homes.setdefault(index, set()).add(home)
        for bound, moment in reversed(barrier.bounds.get(index, [])):
            if bound >= rank or barrier.variable.counts_all:
                failures.append((HazardKind.DEADLOCK, name, index, moment))
                break
    return failures


def await_counts(a: int, w: int, n: int) -> tuple[int, int]:
    """`Max = a - (n + 1) if n >= 0 else w + n + 1`;
    `New = max(w, Max + 1) if n >= 0 else w + 1` (decision `await-counts`)."""
    if n < 0:
        return w + n + 1, w + 1
    return a - (n + 1), max(w, a - n)


def note_await(barrier: Barrier, at: Moment, index: Index, bound: int) -> None:
    """An Arrive looks for the latest Await that needed it: never one before another of as high a
    Max."""
    awaits = barrier.bounds.setdefault(index, [])
    while awaits and awaits[-1][0] <= bound:
        awaits.pop()
    awaits.append((bound, at))


def failures_at_await(barrier: Barrier, at: Moment, element: Element, bound: int) -> Failures:
    """Decision `await-counts`, DEADLOCK: no Arrive targets the element yet, or a home whose Arrives
    do has no more than `bound`.  Decision `mbarrier-phase` (ii) and (iii), PHASE."""
    name, index = element
    failures: Failures = []
    if bound >= 0:
        homes = barrier.homes.get(index, set())
        if not homes or any(barrier.arrives.get(home, 0) <= bound for home in homes):
            failures.append((HazardKind.DEADLOCK, name, index, None))
    if barrier.phase is not None:
        found = check_followed(barrier.phase, index, bound)
        found += check_waiter(barrier.phase, index, bound, at.threads)
        failures += _phase(barrier, at, found)
    return failures


def balance_failures(barrier: Barrier) -> Failures:
    """CheckBarrier: `exists (a, w) in rho(W).b | a != w`."""
    failures: Failures = []
    for index in sorted(barrier.arrives.keys() | barrier.awaits.keys()):
        if barrier.arrives.get(index, 0) != barrier.awaits.get(index, 0):
            failures.append((HazardKind.BARRIER, barrier.variable.name, index, None))
    return failures


def trailing_failures(barrier: Barrier) -> Failures:
    """Decision `await-counts`: a trailing tag needs a later home Arrive of its rank."""
    return [
        (HazardKind.DEADLOCK, barrier.variable.name, home, record)
        for home, rank, record in barrier.trailing
        if rank >= barrier.arrives.get(home, 0)
    ]


# --- PHASE --------------------------------------------------------------------------------


def phase_at_arrival(
    policy: Policy, barrier: Barrier, at: Moment, targets: tuple[Element, ...], rank: int
) -> Failures:
    """Decision `mbarrier-phase` (i)."""
    if barrier.phase is None:
        return []
    failures: list[PhaseFailure] = []
    for _, index in targets:
        failures += check_arrival(policy, barrier.phase, index, rank, at.threads)
    return _phase(barrier, at, failures)


def _phase(barrier: Barrier, at: Moment, failures: list[PhaseFailure]) -> Failures:
    """Failures at the known depth are reported; where it must be found they rule a depth out."""
    if barrier.variable.depth is not None:
        return [_phase_failure(barrier, failure) for failure in failures]
    for depth in {failure.depth for failure in failures} - barrier.phase_failures.keys():
        here = [failure for failure in failures if failure.depth == depth]
        barrier.phase_failures[depth] = (at, here)
    return []


def _phase_failure(barrier: Barrier, failure: PhaseFailure) -> Failure:
    record = None if failure.awaited is None else failure.awaited.at
    return (HazardKind.PHASE, barrier.variable.name, failure.index, record)


def phase_at_free(barrier: Barrier, at: Moment) -> Failures:
    """Decision `mbarrier-phase` (ii), what is left of it; and if every depth is ruled out, what
    first ruled out depth 1."""
    if barrier.phase is None:
        return []
    unfollowed: list[PhaseFailure] = []
    for index in sorted(barrier.phase.arrived):
        unfollowed += check_followed(barrier.phase, index, None)
    failures = _phase(barrier, at, unfollowed)
    if barrier.phase_failures.keys() >= set(barrier.phase.depths):
        _, first = barrier.phase_failures[barrier.phase.depths[0]]
        failures += [_phase_failure(barrier, failure) for failure in first]
    return failures
