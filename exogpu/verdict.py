"""What a check answers: proved, refuted, undecided or error, with its hazards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from exogpu.errors import Diagnostic, Span


class Policy(Enum):
    """Which tables and rules hold: the paper's figures, or the narrower ones of decision 7."""

    STRICT = "strict"
    PAPER = "paper"


class HazardKind(Enum):
    """What goes wrong."""

    RAW = "RAW"
    """A read may not see an earlier write."""
    WAR = "WAR"
    """A write may overtake an earlier read."""
    WAW = "WAW"
    """A write may overtake an earlier write."""
    FREE = "FREE"
    """Shared memory may be reused while it is still accessed."""
    BARRIER = "BARRIER"
    """A barrier's arrives and awaits do not balance at its end."""
    DEADLOCK = "DEADLOCK"
    """An Await may wait for an arrival that comes after it."""
    PHASE = "PHASE"
    """An mbarrier may run a whole ring ahead of a waiter."""
    DIVERGENCE = "DIVERGENCE"
    BOUNDS = "BOUNDS"


@dataclass(frozen=True, slots=True)
class Site:
    """One side of a hazard: an access or a synchronisation statement of the source."""

    span: Span
    text: str
    timeline: str = ""
    """Short name of the qualitative timeline; empty for synchronisation statements."""
    threads: str = ""
    """Executing threads in words: `threads 0-127 of CTA 1`."""
    iteration: tuple[tuple[str, int], ...] = ()
    """Values of the enclosing loops' iterators, outermost first; empty where not known."""


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
    first: Site | None
    second: Site
    message: str
    """What is missing between the two, in a sentence."""
    help: str
    replayed: bool


Word = Literal["proved", "refuted", "undecided", "error"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one check of one procedure."""

    proc: str
    word: Word
    sizes: Mapping[str, int] | None
    """The sizes checked, or None for all sizes."""
    policy: Policy
    seconds: float
    assumptions: tuple[str, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    reason: str = ""
    """Why undecided."""
    operations: int = 0
    """Dynamic operations of the abstract machine that the check stands for."""
