"""Hazards of a program, each with its two statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from exogpu.diagnostics.errors import Span


class HazardKind(Enum):
    """The kind of a hazard."""

    RAW = "RAW"
    """A read may not see an earlier write."""
    WAR = "WAR"
    """A write may overtake an earlier read."""
    WAW = "WAW"
    """A write may overtake an earlier write."""
    LEAK = "LEAK"
    """A read may see a value that another task wrote to memory that resides."""
    UNINIT = "UNINIT"
    """A read finds what nothing has written."""
    FREE = "FREE"
    """Shared memory may be reused while it is still accessed."""
    BARRIER = "BARRIER"
    """A barrier's arrives and awaits do not balance at its end."""
    DEADLOCK = "DEADLOCK"
    """An Await may wait for an arrival that comes after it."""
    PHASE = "PHASE"
    """An mbarrier may run a whole ring ahead of a waiter."""
    DIVERGENCE = "DIVERGENCE"
    OWNERSHIP = "OWNERSHIP"
    """An element of registers is accessed by two units, of which one has it."""
    BOUNDS = "BOUNDS"
    OVERLAP = "OVERLAP"
    """Operands of one call share an element that is written."""
    ALIGN = "ALIGN"
    """An operand does not lie in memory as its instruction asks."""
    SLOT = "SLOT"
    """Slots that index one memory differ in another way in another task of a cluster."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One side of a hazard: an access or a synchronisation statement of the source."""

    span: Span
    text: str
    timeline: str = ""
    """Short name of the qualitative timeline; empty for synchronisation statements."""
    threads: str = ""
    """Executing threads in words: `threads 0-127 of CTA 1`."""
    iteration: tuple[tuple[str, int], ...] = ()
    """Values of the enclosing loops' iterators, outermost first; empty where not known."""
    role: str = ""
    """Its part towards the other side; empty where the kind of the hazard tells."""
    access: str = ""
    """A CUDA engineer's word for the access: `TMA load into shared memory`."""
    ends: Span | None = None
    """The place where a variable ends, of a check at its end; `span` is its declaration."""

    @property
    def place(self) -> Span:
        """The place at which a reader should look."""
        return self.span if self.ends is None else self.ends

    @property
    def access_text(self) -> str:
        """`TMA load into shared memory (tmaS)`; empty of what is no access."""
        return f"{self.access} ({self.timeline})" if self.access and self.timeline else ""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The text of a range of the source becomes another; an empty range is an insertion."""

    span: Span
    text: str


Change: TypeAlias = tuple[Replacement, ...]
"""Replacements that are made together, their ranges apart."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """A refutation: two statements and the concrete instance at which they are not ordered."""

    code: str
    kind: HazardKind
    variable: str
    index: tuple[int, ...]
    sizes: Mapping[str, int]
    task: int | None
    """Number of the task within the program, from 1; None at CPU scope."""
    first: Occurrence | None
    second: Occurrence
    message: str
    """The order that is missing between the two, in a sentence."""
    help: str
    replayed: bool
    link: str = ""
    """The point up to which the first access was ordered, and the reason why the chain broke there;
    empty if not known."""
    contents: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The contents, row by row, of the arrays that values are loaded from: those at this
    instance."""
    changes: tuple[Change, ...] = ()
    """Changes of the source that do as `help` says, to be checked, the likeliest first."""
