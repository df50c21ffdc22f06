"""`synchronise(p)`: proposes the synchronisation that a parallel procedure lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Generic, Protocol, TypeVar

from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.schedule.argument_types import Schedulable
from exogpu.schedule.cursors import header
from exogpu.schedule.derivations import chain, text, without_slots
from exogpu.schedule.primitive import INCOMPLETE
from exogpu.schedule.proposals.bench import Bench, Judged, Trouble
from exogpu.schedule.proposals.drafts import Draft, Numbers, numbered, replay_draft
from exogpu.schedule.proposals.search import OutOfTimeError, Search


class Checkable(Schedulable, Protocol):
    """A procedure that can be proved."""

    def check(self, *, policy: Policy | str = ..., timeout: float | None = ...) -> Verdict:
        """The verdict for all sizes."""
        ...


P = TypeVar("P", bound=Checkable)


@dataclass(frozen=True, slots=True)
class Step:
    """One change: a primitive with its arguments, the place first."""

    primitive: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.primitive}({', '.join(self.arguments)})"


@dataclass(frozen=True, slots=True)
class Proposal(Generic[P]):
    """A derived procedure that is proved, and how it was made."""

    procedure: P
    steps: tuple[Step, ...]
    verdict: Verdict

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))


@dataclass(frozen=True, slots=True)
class Remaining:
    """A hazard that no change was found for: its kind, variable and statements."""

    kind: str
    variable: str
    first: str
    second: str

    def __str__(self) -> str:
        between = f"`{self.first}` and `{self.second}`" if self.first else f"`{self.second}`"
        return f"{self.kind} {self.variable}: {between}".replace(" :", ":")


@dataclass(frozen=True, slots=True)
class Synchronised(Generic[P]):
    """The result of `synchronise`: proposals, the smallest first; else how far it came."""

    proposals: tuple[Proposal[P], ...]
    tried: int
    """The number of changes that were tried."""
    seconds: float
    reason: str
    """Why there are no more proposals."""
    before: int
    """The number of hazards before, at the sizes that were tried."""
    remaining: tuple[Remaining, ...]
    """The hazards of the best that was found; none where something is proposed."""
    sizes: tuple[tuple[tuple[str, int], ...], ...]
    """The samples of sizes."""

    def __bool__(self) -> bool:
        """Tests whether there is a proposal."""
        return bool(self.proposals)

    def __str__(self) -> str:
        if self.proposals:
            return str(self.proposals[0]) or "nothing is missing"
        lines = [f"nothing is proposed: {self.reason}; {self.tried} changes were tried"]
        if self.remaining:
            lines.append(f"{len(self.remaining)} hazards are left of {self.before}:")
        return "\n".join((*lines, *(f"  {hazard}" for hazard in self.remaining)))


def synchronise(
    procedure: P,
    *,
    policy: Policy | str = Policy.PTX,
    count: int = 1,
    seconds: float = 120.0,
    progress: Callable[[str], None] | None = None,
) -> Synchronised[P]:
    """Up to `count` ways to make a parallel procedure provable, each proved.

    It adds, moves and changes Fences, Arrives, Awaits, barriers and trailing barriers: those that
    the refutation asks for, the fewest that it finds, until nothing is refuted; then leaves out
    what is not needed.  What computes stays as it is.  After so many `seconds` it says how far it
    came.  `progress` is told what is being done, by default a terminal is.  Raises ExoGpuError for
    a procedure that is ill-formed for other reasons than missing barriers.
    """
    start = monotonic()
    wrong = [d for d in procedure.diagnostics if d.code not in INCOMPLETE]
    if wrong:
        raise ExoGpuError(wrong)
    bench = Bench(Policy.from_name(policy), start + seconds)
    draft = Draft(numbered(without_slots(procedure), numbers := Numbers()), numbers)
    root = bench.judge_draft(draft)
    assert root is not None  # it has no samples yet, and was found to be well-formed
    if root.program is not None:
        answer = bench.answer(root.program)
        if answer.word == "undecided":
            return _no_synchronisation(bench, root, root, start, answer.reason)
        if answer.word == "refuted":
            bench.gathers(root.program, answer.sizes)
            root = bench.judge_draft(draft) or root
    said = _Line(progress)
    search = Search(bench, root, said, count == 1)
    proposals: list[Proposal[P]] = []
    reason = ""
    try:
        for found in search.proved_drafts():
            proposal = _proposed(procedure, search, found, policy)
            if isinstance(proposal, str):
                search.doubts.append(proposal)
                continue
            if all(text(proposal.procedure) != text(other.procedure) for other in proposals):
                proposals.append(proposal)
            if len(proposals) == count:
                break
        else:
            reason = "no other change mends anything"
    except OutOfTimeError:
        reason = f"the budget of {seconds:g} s has ended"
    finally:
        said.end()
    if proposals:
        proposals.sort(key=lambda one: len(one.steps))
        taken = monotonic() - start
        samples = tuple(bench.samples)
        return Synchronised(tuple(proposals), bench.tried, taken, reason, root.count, (), samples)
    doubts = "; ".join(dict.fromkeys(search.doubts))
    return _no_synchronisation(
        bench, root, search.best, start, f"{reason}; {doubts}" if doubts else reason
    )


def _proposed(
    procedure: P, search: Search, found: Judged, policy: Policy | str
) -> Proposal[P] | str:
    """The draft as a derived procedure with its proof; or why it is none."""
    try:
        made = replay_draft(procedure, search.root.draft, found.draft)
    except ExoGpuError as refusal:
        return refusal.diagnostics[0].message
    verdict = made.check(policy=policy, timeout=max(search.bench.seconds_left, 1.0))
    if verdict.word != "proved":
        hazard = next((h.message for h in verdict.hazards), "")
        return verdict.reason or f"what was found is {verdict.word}: {hazard}"
    steps = []
    for after, step in chain(made):
        if after is procedure:
            break
        steps.append(Step(step.primitive, step.arguments))
    return Proposal(made, tuple(reversed(steps)), verdict)


def _no_synchronisation(
    bench: Bench, root: Judged, best: Judged, start: float, reason: str
) -> Synchronised[P]:
    left = tuple(_remaining(best.draft, trouble) for trouble in sorted(best.troubles(), key=str))
    return Synchronised(
        (),
        bench.tried,
        monotonic() - start,
        reason,
        root.count,
        left,
        tuple(bench.samples),
    )


def _remaining(draft: Draft, trouble: Trouble) -> Remaining:
    kind, variable, first, second = trouble
    known = {n: header(stmt) for n, stmt in draft.statements.items()}
    return Remaining(kind, variable, known.get(first or 0, ""), known.get(second, ""))


class _Line:
    """The line of progress on a terminal, or whom the caller wants to be told."""

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        self._progress = progress
        self._shown = progress is None and sys.stderr.isatty()

    def __call__(self, doing: str) -> None:
        if self._progress is not None:
            self._progress(doing)
        elif self._shown:
            sys.stderr.write(f"\r\x1b[Ksynchronise: {doing}")
            sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
