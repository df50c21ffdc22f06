"""Observers of a run of the abstract machine: they add to a run, and restate none of it.

An observer is told what each rule does.  It may leave out iterations, and the rules of visibility
for single accesses: what is left is what the machine does without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from exogpu.amir.nodes import Arrive, Await, Fence, Loop, Op
from exogpu.diagnostics.hazards import HazardKind
from exogpu.machine.literal_records import Element, Given, Threads, VisibilityRecord

# Reports of both interpreters of the abstract machine.

_KINDS: Final = list(HazardKind)


@dataclass(frozen=True, slots=True)
class Violation:
    """A check that failed: the operation that failed, at which element, against which record.

    Interpreters agree on every compared field.  Of several violations of one operation the
    first is the one with the smallest index, then the earliest `record` in program text.
    """

    kind: HazardKind
    variable: str
    index: tuple[int, ...]
    task: int | None
    """Task of the failing operation, from 1; None at CPU scope."""
    check: Op
    iteration: tuple[tuple[str, int], ...]
    """Values of the loop iterators around `check`, outermost first."""
    record: Op | None
    """The Record, Arrive or Await that is not ordered before `check`; None if there is none."""
    record_iteration: tuple[tuple[str, int], ...] | None = field(default=None, compare=False)
    record_task: int | None = field(default=None, compare=False)
    contents: tuple[tuple[str, tuple[int, ...]], ...] = field(default=(), compare=False)
    """The contents of the arrays that values are loaded from: those with which it was found."""


def rank(
    kind: HazardKind, index: tuple[int, ...], record: Op | None, places: Mapping[Op, int]
) -> tuple[tuple[int, ...], int, int]:
    """The order of the violations of one operation: smallest index first, then the record that
    comes first in the program text (none before any), then by kind."""
    return (index, -1 if record is None else places[record], _KINDS.index(kind))


Sync: TypeAlias = Fence | Arrive | Await
Iteration: TypeAlias = tuple[tuple[str, int], ...]


class Moment(NamedTuple):
    """An operation at one point of the execution."""

    op: Op
    loops: tuple[Loop, ...]
    """Around it, outermost first,"""
    values: tuple[int, ...]
    """and the values of their iterators."""
    task: int | None
    """From 1; None at CPU scope."""
    threads: Threads
    """The threads that execute an access or a sync."""

    @property
    def loops_around(self) -> list[tuple[Loop, int]]:
        """The loops, each with the value of its iterator."""
        return list(zip(self.loops, self.values, strict=True))

    @property
    def iteration(self) -> Iteration:
        """Names and values of the iterators."""
        return tuple([(loop.iterator.name, value) for loop, value in self.loops_around])


@dataclass(frozen=True, slots=True)
class Arrival:
    """The signal of an Arrive, or of the trailing barrier of a Record: the home's count to each
    target."""

    home: Element
    rank: int
    targets: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The arrivals that an Await waits for: up to `bound`, its Max."""

    element: Element
    bound: int


@dataclass(slots=True, eq=False)
class Observer:
    """Keeps every violation; what else a run tells is for others to look at.

    Records that it is shown are the machine's own, as they are before the sync.
    """

    found: dict[Violation, None] = field(default_factory=dict)

    def step(self, at: Moment) -> bool:
        """Before each operation; the run ends where it says False."""
        return True

    def iterations(self, loop: Loop, values: range) -> Iterable[int]:
        """The iterations of a loop to execute."""
        return values

    def asks(self, at: Moment) -> bool:
        """Tests whether the machine has to record, check or clear an access, or check an
        operation's demands; for an Alloc, whether it checks PHASE."""
        return True

    def recorded(self, at: Moment, made: list[VisibilityRecord]) -> list[VisibilityRecord]:
        """A Record has made these records, in the order of their threads; those to go on with."""
        return made

    def on_arrive(self, at: Moment, arrival: Arrival) -> None:
        """An Arrive, or a Record's trailing barrier."""

    def on_await(self, at: Moment, waiting: Waiting) -> None:
        """An Await."""

    def on_meeting(self, at: Moment, record: VisibilityRecord, given: Given) -> None:
        """A sync meets a record; after `on_arrive` or `on_await` of the same sync."""

    def on_check(self, at: Moment, record: Moment, unseen: list[VisibilityRecord]) -> None:
        """A Check has met what a Record made, which is visible but for these."""

    def wants(self, kind: HazardKind, check: Op, record: Op | None) -> bool:
        """Tests whether a violation of these operations would be kept."""
        return True

    def on_violation(self, violation: Violation) -> bool:
        """A violation, of one operation in their order; whether the run goes on."""
        self.found.setdefault(violation)
        return True


class First(Observer):
    """Ends the run with the first violation."""

    def on_violation(self, violation: Violation) -> bool:
        """Keeps it, and stops."""
        self.found.setdefault(violation)
        return False


class Pairs(Observer):
    """Keeps the first violation of each kind and pair of operations."""

    _pairs: set[tuple[HazardKind, Op, Op | None]]

    def __init__(self) -> None:
        super().__init__()
        self._pairs = set()

    def wants(self, kind: HazardKind, check: Op, record: Op | None) -> bool:
        """Tests whether the pair is new."""
        return (kind, check, record) not in self._pairs

    def on_violation(self, violation: Violation) -> bool:
        """Keeps it if its pair is new."""
        pair = (violation.kind, violation.check, violation.record)
        if self.wants(*pair):
            self._pairs.add(pair)
            self.found.setdefault(violation)
        return True
