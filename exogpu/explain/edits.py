"""Repairs as data: edits of a program, as the same change of the source would be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from exogpu.amir.nodes import Arrive, Await, Fence, Op, Record
from exogpu.ir.nodes import Access
from exogpu.machine.violation import Violation
from exogpu.result.hazards import Change


@dataclass(frozen=True, slots=True)
class First:
    """Another first timeline of a Fence or an Arrive."""

    op: Fence | Arrive
    timeline: str


@dataclass(frozen=True, slots=True)
class Second:
    """Another second timeline of a Fence or an Await."""

    op: Fence | Await
    timeline: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Another last operand of an Await; the ring's depth follows."""

    op: Await
    n: int


@dataclass(frozen=True, slots=True)
class NewFence:
    """A Fence next to the statement of an operation, by its threads."""

    op: Op
    first: str
    second: str
    after: bool = True


@dataclass(frozen=True, slots=True)
class Between:
    """A Fence between the two statements of a violation, by the threads of both: the smallest scope
    that has the two threads at fault, or the widest, with all that execute either statement."""

    violation: Violation
    first: str
    second: str
    widest: bool = False


@dataclass(frozen=True, slots=True)
class Widened:
    """A Fence moved out to where the threads of both statements of a violation take part."""

    violation: Violation
    op: Fence


@dataclass(frozen=True, slots=True)
class NewAwait:
    """An Await next to the statement of an operation, by its threads."""

    op: Op
    barrier: Access
    timeline: str
    n: int
    after: bool = False


@dataclass(frozen=True, slots=True)
class NewArrive:
    """An Arrive next to the statement of an operation, by its threads."""

    op: Op
    barrier: Access
    timeline: str
    after: bool = False


@dataclass(frozen=True, slots=True)
class NewGroup:
    """An Arrive and an Await of a commit group after the statement of an operation: of a group
    that the kernel has, or of a new one."""

    op: Op
    first: str
    second: str
    group: Access | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A statement moved next to another."""

    op: Fence | Arrive | Await
    to: Op
    after: bool = True


@dataclass(frozen=True, slots=True)
class OnElement:
    """An Await on another element of its barrier."""

    op: Await
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Drained:
    """An Await for all arrivals of a commit group, after the loop in which they are made."""

    arrive: Arrive


@dataclass(frozen=True, slots=True)
class Delayed:
    """An Arrive made a step later, when the Await of that step has waited for what the step before
    left in flight; and once more after the loop."""

    arrive: Arrive
    wait: Await


@dataclass(frozen=True, slots=True)
class Counted:
    """A ring of memory that resides, indexed by the slots of its barriers and not anew by each
    task's steps; with the other rings that are."""

    record: Record


Edit: TypeAlias = (
    First
    | Second
    | Skip
    | NewFence
    | Between
    | Widened
    | NewAwait
    | NewArrive
    | NewGroup
    | Moved
    | OnElement
    | Drained
    | Delayed
    | Counted
)


class Cost(IntEnum):
    """The cost of a repair for a pipeline; the cheapest repair that helps is proposed."""

    NOTHING = 0
    """It goes on as it did."""
    ORDER = 1
    """Threads wait for each other once more, or for what comes later."""
    DRAINED = 2
    """Nothing is left in flight."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair of a violation: in words, and as an edit of the program."""

    text: str
    edit: Edit
    given: Cost | None = None
    """The cost, where the edit alone does not determine it."""
    changes: tuple[Change, ...] = ()
    """The changes of the source, where they are known; see `Hazard.changes`."""

    @property
    def cost(self) -> Cost:
        """The cost of the repair for a pipeline."""
        if self.given is not None:
            return self.given
        match self.edit:
            case Drained() | Delayed() | Counted() | First() | Second() | OnElement():
                return Cost.NOTHING
            case NewAwait(n=0) | NewGroup():
                return Cost.DRAINED
            case _:
                return Cost.ORDER
