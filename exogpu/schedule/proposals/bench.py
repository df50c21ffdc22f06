"""Runs the abstract machine and the prover on a procedure under trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final, Literal, TypeAlias

from exogpu.amir.lower import lower
from exogpu.amir.nodes import Program
from exogpu.analysis.all_facts import facts_of
from exogpu.analysis.inline import inline
from exogpu.analysis.launch import with_waits
from exogpu.analysis.lifetimes import insert_frees
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.walk import holds, walk
from exogpu.machine import fast
from exogpu.machine.literal_state import OutsideError
from exogpu.machine.observer import Violation
from exogpu.schedule.proposals.drafts import Draft, is_unsignalled, number
from exogpu.solvers.processes import Limits, Stopped, Tell, isolated
from exogpu.symbolic.search.analysis import analyse
from exogpu.symbolic.search.refute import Refutation, refute

Sizes: TypeAlias = tuple[tuple[str, int], ...]

Trouble: TypeAlias = tuple[str, str, int | None, int]
"""Kind of hazard, variable, and the numbers of the two statements; kind `TRAILING` for an
instruction that must signal a barrier and signals none."""

PATIENCE: Final = 4.0
"""Seconds of one run of the machine; sizes that take longer are no sample."""

SHARE: Final = 0.5
"""Seconds that a further sample may take before anything is synchronised."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A draft with its troubles at each sample."""

    draft: Draft
    program: Program | None
    """None where some threads do not take part in what needs them all."""
    standing: frozenset[Trouble]
    """The troubles that do not depend on sizes."""
    found: tuple[tuple[Violation, ...], ...]
    """By sample."""

    @property
    def score(self) -> float:
        """Weighs the troubles over all samples."""
        return len(self.standing) + sum(weight(_pairs(found)) for found in self.found)

    @property
    def count(self) -> int:
        """Counts the troubles, each once."""
        return len(self.troubles())

    def troubles(self) -> frozenset[Trouble]:
        """Every trouble at some sample."""
        return self.standing.union(*map(_pairs, self.found))

    def first_violations(self) -> tuple[int, tuple[Violation, ...]]:
        """The first sample with violations."""
        return next(((n, f) for n, f in enumerate(self.found) if f), (0, ()))


def trouble_of(violation: Violation) -> Trouble:
    """Returns the key that distinguishes a violation from others."""
    record = violation.record
    several = violation.kind in (HazardKind.DEADLOCK, HazardKind.PHASE)
    first = None if record is None or several else record.origin.span.line
    return violation.kind.value, violation.variable, first, violation.check.origin.span.line


def _pairs(found: tuple[Violation, ...]) -> frozenset[Trouble]:
    return frozenset(map(trouble_of, found))


def weight(troubles: frozenset[Trouble]) -> float:
    """Weighs a set of troubles.

    Of those at the end of variables, which one Fence mends, each counts a little: a new barrier
    has some of its own.
    """
    ends = sum(kind == HazardKind.FREE.value for kind, *_ in troubles)
    return len(troubles) - ends + ends / 10


def _is_no_better(after: tuple[Violation, ...], before: tuple[Violation, ...]) -> bool:
    return weight(_pairs(after)) >= weight(_pairs(before))


class _TooLongError(Exception):
    """A run has been going on for too long."""


class Bench:
    """Tries drafts at samples of sizes, of which there will be more."""

    def __init__(self, policy: Policy, deadline: float) -> None:
        self.policy, self.deadline = policy, deadline
        self.samples: list[Sizes] = []
        self.tried = 0

    @property
    def seconds_left(self) -> float:
        """Seconds that are left."""
        return self.deadline - monotonic()

    def lowered(self, draft: Draft) -> tuple[Program | None, frozenset[Trouble]] | None:
        """The program and what stands against it at all sizes; None for an ill-formed draft."""
        facts, wrong = facts_of(insert_frees(with_waits(inline(draft.proc))))
        if facts is None or wrong:
            return None
        standing = {("DIVERGENCE", "", None, d.span.line) for d in facts.divergences}
        if standing:
            return None, frozenset(standing) | _unsignalled(draft)
        return lower(facts, self.policy), _unsignalled(draft)

    def judge_draft(self, draft: Draft, parent: Judged | None = None) -> Judged | None:
        """The draft with its troubles; None where it is ill-formed or takes too long, and where it
        is no better than its parent at the first sample at which that one fails."""
        self.tried += 1
        made = self.lowered(draft)
        if made is None:
            return None
        program, standing = made
        if program is None:
            worse = parent is not None and parent.program is not None
            return None if worse else Judged(draft, None, standing, ())
        found = []
        for n, sizes in enumerate(self.samples):
            ran = run(program, sizes, PATIENCE)
            if ran is None:
                return None
            found.append(ran)
            failing = (
                parent is not None and not parent.standing and n == parent.first_violations()[0]
            )
            if parent is not None and failing and _is_no_better(ran, parent.found[n]):
                return None
        return Judged(draft, program, standing, tuple(found))

    def gathers(self, program: Program, smallest: Sizes) -> None:
        """Take samples at which a program shows its hazards: the smallest sizes, and larger ones
        of those parameters of which more show more; else of all of them."""
        self.samples = [smallest]
        known = _pairs(run(program, smallest, PATIENCE) or ())
        telling = {
            name: n
            for name, _ in smallest
            if (n := self._telling_size(program, smallest, {name}, known)) is not None
        }
        if telling:
            sizes = tuple((name, telling.get(name, n)) for name, n in smallest)
            if _admits(program, sizes) and run(program, sizes, SHARE) is not None:
                self.samples.append(sizes)
            else:
                self.samples += [
                    tuple((name, most if name == one else n) for name, n in smallest)
                    for one, most in telling.items()
                ]
        else:
            self.samples += _times(program, smallest, {name for name, _ in smallest}, 3, 400)

    def _telling_size(
        self, program: Program, smallest: Sizes, which: set[str], known: frozenset[Trouble]
    ) -> int | None:
        """A larger value of a parameter at which there are more troubles."""
        for most, limit in ((100, 400), (40, 160), (12, 96)):
            for sizes in _times(program, smallest, which, most, limit):
                found = run(program, sizes, SHARE)
                if found is not None:
                    (n,) = (n for name, n in sizes if name in which)
                    return n if _pairs(found) - known else None
        return None

    def answer(self, program: Program) -> Answer:
        """Asks the prover whether a program fails for any sizes."""

        def work(tell: Tell) -> Answer:
            findings = analyse(program)
            if findings.vacuous:
                return Answer("undecided", reason="the preconditions contradict each other")
            found = refute(program, findings, _first_violations)
            if isinstance(found, Refutation):
                return Answer("refuted", tuple(found.sizes.items()))
            if found is not None:
                return Answer("undecided", reason=found.reason)
            if findings.undecided:
                return Answer("undecided", reason=findings.undecided[0].reason)
            return Answer("clean")

        answer = isolated(work, Limits(max(self.seconds_left, 0.1)))
        return Answer("undecided", reason=str(answer)) if isinstance(answer, Stopped) else answer


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the analysis for all sizes: clean, refuted, or undecided."""

    word: Literal["clean", "refuted", "undecided"]
    sizes: Sizes = ()
    reason: str = ""


def run(program: Program, sizes: Sizes, limit: float) -> tuple[Violation, ...] | None:
    """The violations at these sizes; None where that takes too long, or a barrier is used where it
    has no element."""
    start = monotonic()

    def watch(_: fast.Progress) -> None:
        if monotonic() - start > limit:
            raise _TooLongError

    try:
        return fast.run(
            program, dict(sizes), keep=fast.Keep.PAIRS, progress=watch, locate=False
        ).violations
    except (_TooLongError, OutsideError):
        return None


def _first_violations(program: Program, sizes: Mapping[str, int]) -> tuple[Violation, ...]:
    return fast.run(program, sizes).violations


def _unsignalled(draft: Draft) -> frozenset[Trouble]:
    return frozenset(
        ("TRAILING", "", None, number(stmt))
        for stmt in walk(draft.proc.body)
        if is_unsignalled(stmt)
    )


def _times(
    program: Program, sizes: Sizes, which: set[str], most: int, limit: int
) -> Iterator[Sizes]:
    """Larger sizes, if the preconditions admit them."""
    larger = tuple(
        (name, max(n, 1) * max(1, min(most, limit // max(n, 1))) if name in which else n)
        for name, n in sizes
    )
    if larger != sizes and _admits(program, larger):
        yield larger


def _admits(program: Program, sizes: Sizes) -> bool:
    sigma = {p.name: dict(sizes)[p.name.name] for p in program.params}
    return all(holds(condition, sigma) for condition in program.preconditions)
