"""Verdict of a check: proved, refuted, undecided or error, with its hazards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from exogpu.diagnostics import errors
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, Span
from exogpu.diagnostics.hazards import Hazard
from exogpu.diagnostics.hazards import HazardKind as HazardKind
from exogpu.diagnostics.hazards import Occurrence as Occurrence

# Parts of a proof for all sizes: obligations, the chains that meet them, and answers.
#
# Data only. `exogpu.symbolic` makes obligations, a solver answers them, reports draw them and
# `exogpu recheck` answers them again.

Role = Literal["start", "trailing", "fence", "arrive", "await", "clear", "alloc", "access"]
"""The part of a statement in a chain. `start`: the threads that made the access see it at once.
`clear` and `alloc`: the record is gone before the check."""


class Lemma(Enum):
    """A lemma about the counts of Arrives and Awaits on which other obligations rest
    (docs/proof.md)."""

    COUNT = "COUNT"
    """An expression counts within one allocation."""
    INNER = "INNER"
    """It counts within one iteration of a nest's outer loops."""
    TOTAL = "TOTAL"
    """Each of these iterations has as many Arrives as Awaits on an element."""


AnswerWord = Literal["unsat", "sat", "unknown"]


@dataclass(frozen=True, slots=True)
class Link:
    """One statement of a chain that orders two accesses."""

    role: Role
    span: Span
    text: str
    iteration: tuple[tuple[str, str], ...]
    """The enclosing iterators with their values, as expressions of those of the two accesses:
    `(("k", "k' - 1"),)`, where a prime marks iterators of the second."""
    threads: str
    """Executing threads in words; empty at CPU scope."""


@dataclass(frozen=True, slots=True)
class Obligation:
    """A claim for all sizes, and a text that a solver must answer with `unsat`."""

    name: str
    """Unique within a procedure; the stem of its `.smt2` file."""
    kind: HazardKind | Lemma
    """The hazard that it excludes, or what lemma it is."""
    variable: str
    first: Occurrence | None
    """The earlier statement: None where only one is concerned."""
    second: Occurrence | None
    claim: str
    """In a sentence."""
    chains: tuple[tuple[Link, ...], ...]
    """Each instance of the pair is ordered by one of these; empty where none is needed, because
    no instances meet or the rules make every thread see the access."""
    smt: str
    """SMT-LIB 2, self-contained, with the claim as a comment; empty where the claim follows from
    the rules alone, whatever the iterations."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An obligation with a solver's answer."""

    obligation: Obligation
    solver: str
    """Name and version; empty where no solver was needed."""
    answer: AnswerWord
    seconds: float


@dataclass(frozen=True, slots=True)
class Proving:
    """Progress of a proof that is under way."""

    answered: int
    """Obligations so far."""


@dataclass(frozen=True, slots=True)
class Proof:
    """All obligations of a procedure, answered."""

    answered: tuple[Answered, ...]
    isl_seconds: float
    """Spent on finding the chains."""
    smt_seconds: float
    """Spent on checking them."""
    witness: str = ""
    """The findings as JSON: with the program, everything that the obligations are made from."""
    depths: tuple[tuple[str, int], ...] = ()
    """The ring depths of mbarriers at which PHASE is proved, where no guards give them; of
    variables of one name, that of all of them, or none."""
    waits: tuple[str, ...] = ()
    """By Await of a flag, in the order of the text: how many arrivals it waits for, as JSON: a list
    of conditions with values, of which the first that holds counts, in sizes and `@0`, `@1`, ...,
    the iterators around the Await, outermost first; empty where that is no expression."""

    @property
    def complete(self) -> bool:
        """Tests whether every obligation holds."""
        return all(one.answer == "unsat" for one in self.answered)


# Policies: which tables and rules hold.


class Policy(Enum):
    """The tables and rules in force: those that follow PTX (decision `policies`), or the paper's
    figures."""

    PTX = "ptx"
    PAPER = "paper"
    STRICT = "ptx"

    @classmethod
    def _missing_(cls, value: object) -> Policy | None:
        """`strict` is the name that `ptx` had."""
        return cls.PTX if value == "strict" else None

    @classmethod
    def from_name(cls, policy: Policy | str) -> Policy:
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
    """The text of each statement."""
    replacement: str = ""
    """The text that would do instead of the one statement; empty for `delete`."""
    side: Literal["", "pre", "post"] = ""
    """The timeline that is another one, of a `weaken`."""
    timeline: str = ""
    """The name of the weaker timeline, of a `weaken`."""
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
    """The weakest condition on the sizes under which a refuted procedure is proved."""
    necessary: bool = True
    """The condition is confirmed to be necessary, too: it fails at all other sizes."""
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
        return errors.installed().text(self)

    def _repr_html_(self) -> str:
        """The verdict as a notebook shows it."""
        return errors.installed().html(self)
