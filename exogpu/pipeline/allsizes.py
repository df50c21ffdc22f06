"""The answer for all sizes: refuted at the smallest, proved with obligations, or undecided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from exogpu.amir.nodes import Program
from exogpu.machine import fast
from exogpu.machine.contents import loads
from exogpu.machine.violation import Violation
from exogpu.pipeline.explanation import Failures
from exogpu.pipeline.together import analysed
from exogpu.result.proof import Proof, Proving
from exogpu.solvers.workers import stage
from exogpu.symbolic.find.prover import Analysis, Findings, Undecided
from exogpu.symbolic.find.refute import Refutation, refute
from exogpu.symbolic.find.smallest import at_a_case, smallest, soon
from exogpu.symbolic.find.trapping import trapping
from exogpu.symbolic.prove import prove
from exogpu.symbolic.sites import UndecidedError


@dataclass(frozen=True, slots=True)
class Answer:
    """One of a refutation, a proof, and a reason why there is neither."""

    findings: Findings
    refutation: Refutation | None = None
    proof: Proof | None = None
    reason: str = ""
    doubt: str = ""
    """Of a refutation: why smaller sizes than its own may fail too; empty where none does."""


def answer(
    program: Program, tell: Callable[[Proving | Refutation], None] = lambda told: None
) -> Answer:
    """Analyse, replay what is violated on the concrete machine, certify what is not.

    While obligations are answered, how many are so far is told; and a refutation, before smaller
    sizes are tried."""
    stage("analysing the order of accesses")
    try:
        findings, proved = analysed(Analysis(program), tell)
    except UndecidedError as error:
        findings, proved = Findings((), (Undecided(error.reason, error.span),), 0, False), None
    if isinstance(proved, Proof):
        return Answer(findings, proof=proved)
    if findings.vacuous:
        reason = (
            "the preconditions contradict each other: the claim holds of no sizes, which proves "
            "nothing; change the preconditions"
        )
        return Answer(findings, reason=reason)
    unproved: tuple[Undecided, ...] = ()
    if loads(program) and not findings.undecided:
        # What ISL finds of values from memory is more than there is: contracts are Z3's.
        if proved is None:
            proved = _proved(findings, tell)
        if isinstance(proved, Proof):
            return Answer(findings, proof=proved)
        unproved = (proved,)
    stage("refuting")
    found = refute(program, findings, _first_violation)
    if unproved and not isinstance(found, Refutation):
        found = at_a_case(program, findings, soon) or found
    if isinstance(found, Refutation):
        stage("refuting at smaller sizes")
        tell(found)
        failures = Failures()
        with failures.noted("a search for smaller sizes"):
            least = smallest(program, findings, found, soon)
            return Answer(findings, refutation=least.refutation, doubt=least.doubt)
        return Answer(findings, refutation=found, doubt=failures.joined(""))
    if unproved:
        return Answer(findings, reason=_reason((*_ended(findings), *unproved)))
    questions: tuple[Undecided, ...] = (*([found] if found else []), *findings.undecided)
    if not questions:
        if proved is None:
            proved = _proved(findings, tell)
        if isinstance(proved, Proof):
            return Answer(findings, proof=proved)
        questions = (proved,)
    return Answer(findings, reason=_reason(questions))


def _proved(findings: Findings, tell: Callable[[Proving], None]) -> Proof | Undecided:
    stage("proving")
    return prove(findings, told=tell)


def _ended(findings: Findings) -> Iterator[Undecided]:
    """Loads that end every run, of which the proof does not know."""
    if findings.evidence is not None:
        yield from trapping(findings.evidence.model)


def _first_violation(program: Program, sizes: Mapping[str, int]) -> tuple[Violation, ...]:
    return fast.run(program, sizes).violations


def _reason(questions: Sequence[Undecided]) -> str:
    first = questions[0]
    more = f" (and {len(questions) - 1} more)" if len(questions) > 1 else ""
    return f"line {first.span.line}: {first.reason}{more}"
