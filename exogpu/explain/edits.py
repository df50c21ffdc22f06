"""Repairs as data: edits of a program, as the same change of the source would be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from exogpu.amir.nodes import Arrive, Await, Fence, Op
from exogpu.ir.nodes import Access
from exogpu.machine.violation import Violation


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
)


@dataclass(frozen=True, slots=True)
class Repair:
    """What would mend a violation: in words, and what it does to the program."""

    text: str
    edit: Edit
