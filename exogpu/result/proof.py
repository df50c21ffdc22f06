"""Parts of a proof for all sizes: obligations, the chains that meet them, and answers.

Data only.  `exogpu.symbolic` makes obligations, a solver answers them, reports draw them and
`exogpu recheck` answers them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from exogpu.result.errors import Span
from exogpu.result.hazards import HazardKind, Occurrence

Role = Literal["start", "trailing", "fence", "arrive", "await", "clear", "alloc", "access"]
"""What a statement does in a chain.  `start`: the threads that made the access see it at once.
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
    """What was found, as JSON: with the program, all that the obligations are made from."""
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
