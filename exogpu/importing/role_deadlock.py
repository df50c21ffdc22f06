"""Runs roles side by side on numbers, to see whether they wait for each other for ever.

Only mbarriers are run: copies are taken to end at once.  What is stuck here is stuck in one
execution of the kernel; what is not stuck says nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from exogpu.importing import role_events
from exogpu.importing.induction import number, truth
from exogpu.importing.polynomial_values import Atom, Variable
from exogpu.importing.role_events import Barriers
from exogpu.importing.trip_counts import Size

TRIED = (1, 2, 3, 5)
"""Trip counts that are tried."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """A state in which no role goes on: where each waits, at these trip counts."""

    at: Mapping[str, role_events.Step]
    sizes: Mapping[str, int]


@dataclass(slots=True)
class _Mbarrier:
    count: int
    arrived: int = 0
    phase: int = 0

    def arrive(self) -> None:
        self.arrived += 1
        if self.arrived == self.count:
            self.arrived, self.phase = 0, 1 - self.phase


@dataclass(slots=True)
class _Run:
    barriers: Mapping[str, Barriers]
    state: dict[tuple[str, int], _Mbarrier] = field(default_factory=dict)

    def element(self, array: str, index: int) -> _Mbarrier:
        count = self.barriers[array].arrivals.get(index, 1)
        return self.state.setdefault((array, index), _Mbarrier(count))


class _UnknownError(Exception):
    """A value that numbers do not determine."""


def find_deadlock(
    roles: Sequence[role_events.Role], barriers: Mapping[str, Barriers], sizes: Sequence[Size]
) -> Stuck | None:
    """The roles in a state in which none goes on; None where none was found."""
    for counts in itertools.product(TRIED, repeat=min(len(sizes), 2)):
        given = dict(zip((one.variable for one in sizes), itertools.cycle(counts), strict=False))
        if any(not one.includes(given[one.variable]) for one in sizes):
            continue
        try:
            at = _run(roles, barriers, given)
        except _UnknownError:
            return None
        if at:
            return Stuck(at, {one.name: count for one, count in given.items()})
    return None


def _run(
    roles: Sequence[role_events.Role],
    barriers: Mapping[str, Barriers],
    sizes: Mapping[Variable, int],
) -> dict[str, role_events.Step]:
    run = _Run(barriers)
    known: dict[Atom, int] = {one: count for one, count in sizes.items()}
    left = {role.name: _steps(role.items, known) for role in roles}
    heads: dict[str, tuple[role_events.Step, dict[Atom, int]]] = {}
    while True:
        moved = False
        for name, steps in left.items():
            while True:
                head = heads.pop(name, None) or next(steps, None)
                if head is None:
                    break
                if not _can_step(*head, run):
                    heads[name] = head
                    break
                moved = True
        if not moved:
            return {name: step for name, (step, _) in heads.items()}


def _steps(
    items: Sequence[role_events.Item], known: Mapping[Atom, int]
) -> Iterator[tuple[role_events.Step, dict[Atom, int]]]:
    """The steps in order, each with what is known where it stands."""
    for item in items:
        match item:
            case role_events.Loop():
                trips = number(item.trips, known)
                if trips is None:
                    raise _UnknownError
                for turn in range(trips):
                    yield from _steps(item.body, {**known, item.counter: turn})
            case role_events.Step():
                yield item, dict(known)


def _can_step(step: role_events.Step, known: Mapping[Atom, int], run: _Run) -> bool:
    """Returns whether a step is taken, or need not be; a wait may have to wait."""
    event = step.event
    if not isinstance(event, role_events.Wait | role_events.Signal | role_events.Expect):
        return True
    holds, index = truth(step.guard, known), number(event.barrier.index, known)
    if holds is None or (holds and index is None):
        raise _UnknownError
    if not holds or index is None:
        return True
    element = run.element(event.barrier.array, index)
    if not isinstance(event, role_events.Wait):
        element.arrive()
        return True
    phase = number(event.phase, known)
    if phase is None:
        raise _UnknownError
    return element.phase != phase
