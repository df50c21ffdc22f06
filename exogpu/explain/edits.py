"""Repairs as data: edits of a program, as the same change of the source would be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias, TypeVar

from exogpu.amir import nodes as amir
from exogpu.diagnostics.hazards import Change
from exogpu.ir.nodes import Access, CExpr
from exogpu.ir.types import Sym
from exogpu.machine.observer import Violation


@dataclass(frozen=True, slots=True)
class First:
    """Another first timeline of a Fence or an Arrive."""

    op: amir.Fence | amir.Arrive
    timeline: str


@dataclass(frozen=True, slots=True)
class Second:
    """Another second timeline of a Fence or an Await."""

    op: amir.Fence | amir.Await
    timeline: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Another last operand of an Await; the ring's depth follows."""

    op: amir.Await
    n: int


@dataclass(frozen=True, slots=True)
class NewFence:
    """A Fence next to the statement of an operation, by its threads."""

    op: amir.Op
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
    op: amir.Fence


@dataclass(frozen=True, slots=True)
class NewAwait:
    """An Await next to the statement of an operation, by its threads."""

    op: amir.Op
    barrier: Access
    timeline: str
    n: int
    after: bool = False


@dataclass(frozen=True, slots=True)
class NewArrive:
    """An Arrive next to the statement of an operation, by its threads."""

    op: amir.Op
    barrier: Access
    timeline: str
    after: bool = False
    targets: tuple[Access, ...] = ()
    """The elements that it signals, where that is more than the one."""


@dataclass(frozen=True, slots=True)
class NewGroup:
    """An Arrive and an Await of a commit group after the statement of an operation: of a group
    that the kernel has, or of a new one."""

    op: amir.Op
    first: str
    second: str
    group: Access | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A statement moved next to another."""

    op: amir.Fence | amir.Arrive | amir.Await
    to: amir.Op
    after: bool = True


@dataclass(frozen=True, slots=True)
class OnElement:
    """An Await on another element of its barrier."""

    op: amir.Await
    index: tuple[CExpr, ...]


@dataclass(frozen=True, slots=True)
class Drained:
    """An Await for all arrivals of a commit group, after the loop in which they are made."""

    arrive: amir.Arrive


@dataclass(frozen=True, slots=True)
class Delayed:
    """An Arrive made a step later, when the Await of that step has waited for what the step before
    left in flight; and once more after the loop."""

    arrive: amir.Arrive
    wait: amir.Await


@dataclass(frozen=True, slots=True)
class Counted:
    """A ring of memory that resides, indexed by the slots of its barriers and not anew by each
    task's steps; with the other rings that are."""

    record: amir.Record


@dataclass(frozen=True, slots=True)
class Hoisted:
    """An Arrive or an Await moved out of the `if`, or the part of a role's warps, that it ends or
    begins."""

    op: amir.Arrive | amir.Await


@dataclass(frozen=True, slots=True)
class Reindexed:
    """Another slot of a ring in each access that names this one: both as the source writes them."""

    name: Sym
    dimension: int
    old: str
    shift: int
    """The number to add to the index without its constant, modulo the number of slots."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """An Arrive or an Await that is taken away, with what holds nothing else."""

    op: amir.Arrive | amir.Await


@dataclass(frozen=True, slots=True)
class MulticastTo:
    """An Arrive that signals these elements."""

    op: amir.Arrive
    targets: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class BesideLoop:
    """An Arrive or an Await once more, before or after the loop in which it stands."""

    op: amir.Arrive | amir.Await
    after: bool


@dataclass(frozen=True, slots=True)
class Exchange:
    """Two Awaits, each on the barrier of the other."""

    first: amir.Await
    second: amir.Await


@dataclass(frozen=True, slots=True)
class Filled:
    """Zeros written where the `if` around a write does not hold."""

    record: amir.Record


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
    | Hoisted
    | Reindexed
    | Deletion
    | MulticastTo
    | BesideLoop
    | Exchange
    | Filled
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
            case Hoisted() | Reindexed() | Filled() | Deletion() | MulticastTo() | BesideLoop():
                return Cost.NOTHING
            case Exchange():
                return Cost.NOTHING
            case NewAwait(n=0) | NewGroup():
                return Cost.DRAINED
            case _:
                return Cost.ORDER


# An edit of a statement that stands in the program several times: a macro that is read twice.
#
# What changes the source there changes it in each place.

Of = TypeVar("Of", bound=amir.Op)


def each_place(program: amir.Program, edit: Edit) -> tuple[Edit, ...]:
    """The edit in each place in which its statements stand; alone where they stand in one, or
    where it is not known which of them belong together."""
    match edit:
        case Moved(op, to, after):
            moved, places = copies_of_statement(program, op), copies_of_statement(program, to)
            if len(moved) == len(places) > 1:
                pairs = zip(moved, places, strict=True)
                return tuple(Moved(one, place, after) for one, place in pairs)
        case Between(violation) if violation.record is not None:
            checks, records = (
                copies_of_statement(program, violation.check),
                copies_of_statement(program, violation.record),
            )
            # Two readings of one statement are no pair of statements that is read twice.
            apart = violation.check.origin.span != violation.record.origin.span
            if apart and len(checks) == len(records) > 1:
                return tuple(
                    replace(edit, violation=replace(violation, check=check, record=record))
                    for check, record in zip(checks, records, strict=True)
                )
        case NewAwait(op, barrier) if isinstance(op, amir.Arrive) and barrier is op.home:
            return tuple(
                replace(edit, op=one, barrier=one.home) for one in copies_of_statement(program, op)
            )
        case _:
            pass
    return (edit,)


def copies_of_statement(program: amir.Program, op: Of) -> list[Of]:
    """An operation of each statement that was written where this one was, in program order: of
    its own statement the operation itself, of others the first of its kind."""
    found: list[Of] = []

    def visit(block: amir.Block) -> None:
        before: amir.Op | None = None
        for one in block:
            starts = before is None or before.origin != one.origin
            if isinstance(one, type(op)) and one.origin.span == op.origin.span:
                if one is op and not starts and found and found[-1].origin == op.origin:
                    found[-1] = one
                elif starts or not found or found[-1].origin != one.origin:
                    found.append(one)
            if isinstance(one, amir.Loop | amir.Guard):
                visit(one.body)
            before = one

    visit(program.body)
    return found
