"""What a check answers: proved, refuted, undecided or error, with its hazards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from exogpu.report.card import card
from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError, Span
from exogpu.result.hazards import Hazard as Hazard
from exogpu.result.hazards import HazardKind as HazardKind
from exogpu.result.hazards import Occurrence as Occurrence
from exogpu.result.proof import Proof


class Policy(Enum):
    """Which tables and rules hold: those that follow PTX (decision `policies`), or the paper's
    figures."""

    PTX = "ptx"
    PAPER = "paper"
    STRICT = "ptx"

    @classmethod
    def _missing_(cls, value: object) -> Policy | None:
        """`strict` is the name that `ptx` had."""
        return cls.PTX if value == "strict" else None

    @classmethod
    def of(cls, policy: Policy | str) -> Policy:
        """The policy itself, or the one of this name.  Raises ExoGpuError where there is none."""
        known = {name.lower(): member for name, member in cls.__members__.items()}
        found = known.get(policy) if isinstance(policy, str) else policy
        if not isinstance(found, cls):
            names = " or ".join(repr(name) for name in known)
            message = f"{policy!r} is no policy"
            raise ExoGpuError([Diagnostic("X906", message, NOWHERE, f"give {names}")])
        return found


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
    """Why undecided."""
    condition: str | None = None
    """Of a refuted procedure: the weakest condition on its sizes under which it is proved."""
    necessary: bool = True
    """Whether the condition is confirmed to be necessary, too: at all other sizes it fails."""
    note: str = ""
    """Of a refuted procedure: what is not known of sizes smaller than its hazards'."""
    remarks: tuple[str, ...] = ()
    """Of an imported kernel: what its sizes are, and what its compiler added."""
    redundant: tuple[Redundancy, ...] | None = None
    """Synchronisation that is not needed; None where that was not asked."""
    proof: Proof | None = None
    """The obligations for all sizes with the solver's answers, of what is proved."""
    warnings: tuple[Diagnostic, ...] = ()
    """Of what is proved: what is read before it is written (B607), and why it has no lowering all
    the same, as compiling it says."""
    operations: int = 0
    """Dynamic operations of the abstract machine that the check stands for."""
    cached: bool = False
    """Whether it was found in the cache; `seconds` are then those of reading it."""

    @property
    def unwritten(self) -> tuple[Diagnostic, ...]:
        """Of the warnings, those of reads of what nothing has written."""
        return tuple(warning for warning in self.warnings if warning.code == "B607")

    @property
    def limitations(self) -> tuple[Diagnostic, ...]:
        """Of the warnings, why there is no lowering."""
        return tuple(warning for warning in self.warnings if warning.code != "B607")

    def __bool__(self) -> bool:
        """Whether it is proved, for all sizes or those checked: `assert kernel.check()`."""
        return self.word == "proved"

    def __str__(self) -> str:
        """What the command line prints, without colours."""
        from exogpu.cli.render import draw_verdict

        return draw_verdict(self).plain.removesuffix("\n")

    def _repr_html_(self) -> str:
        """The verdict as a notebook shows it."""
        word = "safe" if self.word == "proved" and self.sizes is not None else self.word
        sizes = ", ".join(f"{name}={value}" for name, value in (self.sizes or {}).items())
        facts = [("sizes", "all" if self.sizes is None else sizes), ("policy", self.policy.value)]
        for hazard in self.hazards:
            lines = [site.place.line for site in (hazard.first, hazard.second) if site is not None]
            where = " and ".join(f"line {line}" for line in lines)
            said = "; ".join(part for part in (hazard.message, hazard.help) if part)
            facts.append((f"{hazard.kind.value} {where}", said))
        found = (*self.diagnostics, *self.warnings)
        facts += [(f"{d.code} line {d.span.line}", d.message) for d in found]
        facts += [("reason", self.reason)] if self.reason else []
        facts += [("note", self.note)] if self.note else []
        return card(self.proc, word, facts)
