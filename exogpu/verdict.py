"""What a check answers: proved, refuted, undecided or error, with its hazards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from exogpu.errors import Diagnostic, Span
from exogpu.hazards import Hazard as Hazard
from exogpu.hazards import HazardKind as HazardKind
from exogpu.hazards import Site as Site
from exogpu.notebook import card
from exogpu.proof import Proof


class Policy(Enum):
    """Which tables and rules hold: the paper's figures, or the narrower ones of decision 7."""

    STRICT = "strict"
    PAPER = "paper"


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
    condition: str | None = None
    """Of a refuted procedure: the weakest condition on its sizes under which it is proved."""
    redundant: tuple[Redundancy, ...] | None = None
    """Synchronisation that is not needed; None where that was not asked."""
    proof: Proof | None = None
    """The obligations for all sizes with the solver's answers, of what is proved."""
    operations: int = 0
    """Dynamic operations of the abstract machine that the check stands for."""

    def _repr_html_(self) -> str:
        """The verdict as a notebook shows it."""
        word = "safe" if self.word == "proved" and self.sizes is not None else self.word
        sizes = ", ".join(f"{name}={value}" for name, value in (self.sizes or {}).items())
        facts = [("sizes", "all" if self.sizes is None else sizes), ("policy", self.policy.value)]
        for hazard in self.hazards:
            lines = [site.span.line for site in (hazard.first, hazard.second) if site is not None]
            where = " and ".join(f"line {line}" for line in lines)
            facts.append((f"{hazard.kind.value} {where}", f"{hazard.message}; {hazard.help}"))
        facts += [(f"{d.code} line {d.span.line}", d.message) for d in self.diagnostics]
        facts += [("reason", self.reason)] if self.reason else []
        return card(self.proc, word, facts)
