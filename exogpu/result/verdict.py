"""Verdict of a check: proved, refuted, undecided or error, with its hazards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from exogpu.result import drawing
from exogpu.result.errors import Diagnostic, Span
from exogpu.result.hazards import Hazard as Hazard
from exogpu.result.hazards import HazardKind as HazardKind
from exogpu.result.hazards import Occurrence as Occurrence
from exogpu.result.policy import Policy as Policy
from exogpu.result.proof import Proof


@dataclass(frozen=True, slots=True)
class Redundancy:
    """Synchronisation that a kernel does not need: without it still nothing is found."""

    kind: Literal["delete", "weaken"]
    spans: tuple[Span, ...]
    """The statements; several where only deleting them together leaves a kernel."""
    texts: tuple[str, ...]
    """Of each statement."""
    replacement: str = ""
    """What would do instead of the one statement; empty for `delete`."""
    side: Literal["", "pre", "post"] = ""
    """Of `weaken`: which timeline is another."""
    timeline: str = ""
    """Of `weaken`: the name of the weaker timeline."""
    saves: tuple[str, ...] | None = None
    """Lines of the emitted kernels that go; none if they stay as they are, or only change; None
    where nothing is emitted."""


Word = Literal["proved", "refuted", "undecided", "error"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one check of one procedure: true if it is proved, printed as on a terminal."""

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
    """The reason of an undecided verdict."""
    condition: str | None = None
    """Of a refuted procedure: the weakest condition on its sizes under which it is proved."""
    necessary: bool = True
    """Whether the condition is confirmed to be necessary, too: at all other sizes it fails."""
    note: str = ""
    """For a refuted procedure: the limits of what is known of smaller sizes."""
    remarks: tuple[str, ...] = ()
    """For an imported kernel: its sizes, and what its compiler added."""
    redundant: tuple[Redundancy, ...] | None = None
    """Synchronisation that is not needed; None where that was not asked."""
    proof: Proof | None = None
    """The obligations for all sizes with the solver's answers, of what is proved."""
    warnings: tuple[Diagnostic, ...] = ()
    """Fences that join one thread (C419).  Of what is proved: why it has no lowering all the same,
    as compiling it says."""
    operations: int = 0
    """Dynamic operations of the abstract machine that the check stands for."""
    cached: bool = False
    """True if it was found in the cache; `seconds` are then those of reading it."""
    checked: bool = True
    """False where sizes that are given for several procedures do not suit this one; `reason` says
    what they lack."""

    @property
    def idle(self) -> tuple[Diagnostic, ...]:
        """The warnings of Fences that order nothing."""
        return tuple(warning for warning in self.warnings if warning.code == "C419")

    @property
    def limitations(self) -> tuple[Diagnostic, ...]:
        """The warnings that explain why there is no lowering."""
        return tuple(warning for warning in self.warnings if warning.code != "C419")

    def __bool__(self) -> bool:
        """Tests whether it is proved, for all sizes or those checked: `assert kernel.check()`."""
        return self.word == "proved"

    def __repr__(self) -> str:
        """Draws the verdict as `str` does, so that a session at a prompt shows it."""
        return str(self)

    def __str__(self) -> str:
        """Returns the text that the command line prints, without colours."""
        return drawing.installed().text(self)

    def _repr_html_(self) -> str:
        """The verdict as a notebook shows it."""
        return drawing.installed().html(self)
