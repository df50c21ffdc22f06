"""The verdict on a procedure, from its stages: for all sizes, or at those given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Final

from exogpu.amir.export import assumptions
from exogpu.amir.nodes import Check, Program, Record
from exogpu.amir.walk import operations
from exogpu.analysis import bounds, operand_windows
from exogpu.analysis.bounds_messages import Outside
from exogpu.analysis.sizes import check_sizes
from exogpu.diagnostics.errors import Diagnostic, InternalError
from exogpu.diagnostics.hazards import Hazard
from exogpu.diagnostics.verdict import Policy, Proof, Proving, Verdict
from exogpu.explain.hazard_text import first_of_each_pair
from exogpu.explain.requirement_hazards import (
    hazard_of_bounds,
    hazard_of_divergence,
    hazard_of_operands,
)
from exogpu.ir.walk import holds
from exogpu.machine import fast
from exogpu.machine.concrete_program import CHOICES, assign_tasks, dealt, in_order
from exogpu.machine.index_contents import loads
from exogpu.machine.observer import Violation
from exogpu.pipeline import refutation as pipeline_refutation
from exogpu.pipeline.guard_trials import hazards_of_bounds
from exogpu.pipeline.limited_check import (
    PROVING,
    SMALLER,
    WORK,
    Judged,
    check_in_process,
    try_smallest_sizes,
)
from exogpu.pipeline.refutation import Failures
from exogpu.pipeline.stages import Stages
from exogpu.solvers import smt
from exogpu.solvers.processes import Limits, Tell, stage
from exogpu.symbolic.model import depends_on_orders, least_of
from exogpu.symbolic.prove import analysed, prove
from exogpu.symbolic.search.analysis import Analysis, Findings, Undecided
from exogpu.symbolic.search.refute import Refutation, refute
from exogpu.symbolic.search.run_ending_loads import trapping
from exogpu.symbolic.search.smallest_sizes import at_a_case, run_to_first_violation, smallest
from exogpu.symbolic.search.weakest_condition import Calls, weakest_condition
from exogpu.symbolic.sites import UndecidedError

# The answer for all sizes: refuted at the smallest, proved with obligations, or undecided.


@dataclass(frozen=True, slots=True)
class Answer:
    """One of a refutation, a proof, and a reason why there is neither."""

    findings: Findings
    refutation: Refutation | None = None
    proof: Proof | None = None
    reason: str = ""
    doubt: str = ""
    """A doubt about a refutation: the reason why smaller sizes may fail too; empty where none
    does."""


def answer(
    program: Program, tell: Callable[[Proving | Refutation], None] = lambda told: None
) -> Answer:
    """Analyse, replay what is violated on the concrete machine, certify what is not.

    While obligations are answered, how many are so far is told; and a refutation, before smaller
    sizes are tried."""
    at_once = fails_at_least_sizes(program)
    if at_once is not None:
        return Answer(Findings((), (), 0, False), refutation=at_once)
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
        found = at_a_case(program, findings, run_to_first_violation) or found
    if isinstance(found, Refutation):
        stage("refuting at smaller sizes")
        tell(found)
        failures = Failures()
        with failures.noted("a search for smaller sizes"):
            least = smallest(program, findings, found, run_to_first_violation)
            return Answer(findings, refutation=least.refutation, doubt=least.doubt)
        return Answer(findings, refutation=found, doubt=failures.joined(""))
    if unproved:
        return Answer(findings, reason=_reason((*_undecided_loads(findings), *unproved)))
    questions: tuple[Undecided, ...] = (*([found] if found else []), *findings.undecided)
    if not questions:
        if proved is None:
            proved = _proved(findings, tell)
        if isinstance(proved, Proof):
            return Answer(findings, proof=proved)
        questions = (proved,)
    return Answer(findings, reason=_reason(questions))


MANY: Final = 5_000
"""Pairs of accesses to one variable of which the machine is asked first: the analysis of so many
takes seconds, and may come to no end."""


def fails_at_least_sizes(program: Program) -> Refutation | None:
    """The first violation at the least sizes, of a program with very many pairs of accesses.

    None of others, and where the machine finds nothing, or would need to choose tasks or contents.
    """
    ops = tuple(operations(program.body))
    records = Counter(op.access.name for op in ops if isinstance(op, Record))
    checks = Counter(op.access.name for op in ops if isinstance(op, Check))
    if all(records[name] * checks[name] < MANY for name in records):
        return None
    if loads(program) or any(variable.resident for variable in program.variables):
        return None
    sizes = {param.name: least_of(program, param.name) for param in program.params}
    if not all(holds(condition, sizes) for condition in program.preconditions):
        return None
    stage("running the abstract machine at the least sizes")
    named = {name.name: value for name, value in sizes.items()}
    found = run_to_first_violation(program, named)
    return Refutation(named, found[0], None) if found else None


def _proved(findings: Findings, tell: Callable[[Proving], None]) -> Proof | Undecided:
    stage("proving")
    return prove(findings, told=tell)


def _undecided_loads(findings: Findings) -> Iterator[Undecided]:
    """Loads that end every run, of which the proof does not know."""
    if findings.evidence is not None:
        yield from trapping(findings.evidence.model)


def _first_violation(program: Program, sizes: Mapping[str, int]) -> tuple[Violation, ...]:
    return fast.run(program, sizes).violations


def _reason(questions: Sequence[Undecided]) -> str:
    first = questions[0]
    more = f" (and {len(questions) - 1} more)" if len(questions) > 1 else ""
    return f"line {first.span.line}: {first.reason}{more}"


def check(
    stages: Stages,
    policy: Policy,
    limits: Limits,
    heard: Callable[[Verdict], None],
    progress: Callable[[Proving], None] | None = None,
) -> Judged:
    """The verdict for all sizes, or else what is known of the smallest.

    Of what is refuted `heard` is told with each further hazard, and of a
    proof `progress` with how many obligations are answered.
    """
    start = perf_counter()
    # Here, before the check's process is made: each one would do it anew.
    import_module("exogpu.codegen.compiled_kernel")
    smt.begin()

    def hear(message: object) -> None:
        if isinstance(message, Verdict) and message.word == "refuted":
            heard(message)
        elif progress is not None and isinstance(message, Proving):
            progress(message)

    proving = replace(limits, share=PROVING)
    found = check_in_process(
        partial(_for_all, stages, policy), blank(stages, None, policy), proving, hear
    )
    if found.verdict.word != "undecided":
        return found
    left = None if limits.seconds is None else limits.seconds + start - perf_counter()
    most = WORK if stages.size_names else None
    verdict = try_smallest_sizes(
        found.verdict,
        lambda: stages.amir(policy),
        lambda sizes, tell: _check_at(stages, policy, None, sizes, tell, analysed=True, most=most),
        stages.size_names,
        replace(limits, seconds=left),
    )
    return replace(found, verdict=verdict)


def check_at(
    stages: Stages,
    policy: Policy,
    sizes: Mapping[str, int],
    limits: Limits,
    progress: Callable[[fast.Progress], None] | None,
) -> Verdict:
    """The verdict at concrete sizes, by running the abstract machine."""

    def forward_progress(message: object) -> None:
        if progress is not None and isinstance(message, fast.Progress):
            progress(message)

    def work(tell: Tell) -> Verdict:
        return _check_at(stages, policy, None if progress is None else tell, sizes, tell)

    return check_in_process(work, blank(stages, sizes, policy), limits, forward_progress).verdict


def blank(stages: Stages, sizes: Mapping[str, int] | None, policy: Policy) -> Verdict:
    """Returns the verdict that a check starts from."""
    given = None if sizes is None else dict(sizes)
    return Verdict(proc=stages.name, word="undecided", sizes=given, policy=policy, seconds=0.0)


# --- for all sizes ------------------------------------------------------------------------------


def _for_all(stages: Stages, policy: Policy, tell: Tell) -> Verdict:
    start = perf_counter()
    stage("reading the procedure and checking its bounds")
    if stages.diagnostics:
        return _error(stages, stages.diagnostics, None, policy, start)
    outside = [v for v in stages.bounds_violations if isinstance(v.finding, Outside)]
    diverging = _divergences(stages, {})
    verdict = replace(
        blank(stages, None, policy),
        word="refuted",
        hazards=_each_once(
            *diverging,
            *map(hazard_of_bounds, outside),
            *map(hazard_of_operands, stages.operand_violations),
        ),
    )
    if outside and not diverging:
        tell(verdict)
        verdict = _with_guards(stages, verdict, outside)
    if not verdict.hazards:
        verdict = _synchronisation(stages, verdict, tell)
        if verdict.word == "proved":
            tell(replace(verdict, seconds=perf_counter() - start))
            verdict = _with_warnings(stages, verdict)
    elif not diverging:
        tell(verdict)
        verdict = _with_condition(stages, verdict)
    return replace(_with_idle(stages, verdict), seconds=perf_counter() - start)


def _with_guards(stages: Stages, verdict: Verdict, outside: Sequence[bounds.Breach]) -> Verdict:
    """The verdict with guards that were tried of what lies out of bounds."""
    assert stages.ir is not None
    stage("looking for guards")
    failures = Failures()
    found = hazards_of_bounds(stages.ir, outside, verdict.policy, failures)
    rest = verdict.hazards[len(_each_once(*map(hazard_of_bounds, outside))) :]
    hazards = _each_once(*found, *rest)
    return replace(verdict, hazards=hazards, note=failures.joined(verdict.note))


def _synchronisation(stages: Stages, verdict: Verdict, tell: Tell) -> Verdict:
    """The verdict on what the abstract machine checks."""
    program = stages.amir(verdict.policy)

    def hear(told: Proving | Refutation) -> None:
        if isinstance(told, Proving):
            tell(told)
            return
        hazard = pipeline_refutation.first_hazard(program, told.sizes, told.violation, Failures())
        tell(replace(verdict, hazards=(hazard,), note=SMALLER))

    found = answer(program, hear)
    if found.proof is not None:
        rests = (*assumptions(program), *beyond_hardware(program))
        return replace(verdict, word="proved", proof=found.proof, assumptions=rests)
    if found.refutation is not None:
        stage("replaying on the abstract machine")
        failures, doubt = Failures(), _doubt(found.doubt)
        proc, first = stages.facts.proc, found.refutation
        for hazards in pipeline_refutation.hazards_of(
            program, found.findings, first, failures, proc
        ):
            verdict = replace(verdict, hazards=hazards, note=failures.joined(doubt))
            tell(verdict)
            if stages.compiled_elsewhere:
                return verdict
        verdict = replace(verdict, note=failures.joined(doubt))
        return _with_condition(stages, verdict, found.findings)
    return replace(verdict, word="undecided", reason=found.reason)


def beyond_hardware(program: Program) -> tuple[str, ...]:
    """Names what a proof assumes of the hardware and no documentation promises: under policy paper
    the figure's Await (`await-own-arrival`)."""
    phased = (v.mechanism is not None and v.mechanism.phased for v in program.variables)
    if program.policy is Policy.PTX or not any(phased):
        return ()
    return ("an Await on an mbarrier receives all earlier arrivals, which no hardware keeps",)


def _with_warnings(stages: Stages, verdict: Verdict) -> Verdict:
    """Adds to a proved verdict what keeps the procedure from being compiled."""
    if stages.compiled_elsewhere:
        return verdict
    from exogpu.codegen.compiled_kernel import limitations

    failures = Failures()
    with failures.noted("a search for what has no lowering"):
        stage("looking for what has no lowering")
        proof = verdict.proof
        depths, waits = ({}, ()) if proof is None else (dict(proof.depths), proof.waits)
        limited = limitations(stages.facts, depths, waits)
        verdict = replace(verdict, warnings=(*verdict.warnings, *limited))
    return replace(verdict, note=failures.joined(verdict.note))


def _with_idle(stages: Stages, verdict: Verdict) -> Verdict:
    """The verdict with the Fences that join one thread, and are no instruction."""
    if stages.compiled_elsewhere:
        return verdict
    from exogpu.codegen.idle_fences import idle_fences

    failures = Failures()
    with failures.noted("a search for Fences that join one thread"):
        verdict = replace(verdict, warnings=(*idle_fences(stages.facts), *verdict.warnings))
    return replace(verdict, note=failures.joined(verdict.note))


def _with_condition(stages: Stages, verdict: Verdict, findings: Findings | None = None) -> Verdict:
    """The verdict with the weakest condition on sizes under which it would be proved."""
    assert stages.ir is not None
    stage("looking for the condition on sizes under which it is proved")
    failures = Failures()
    with failures.noted("a search for the condition on sizes"):
        calls = Calls(stages.facts.proc, stages.facts.variables)
        found = weakest_condition(stages.ir, stages.amir(verdict.policy), findings, calls)
        if found is not None:
            verdict = replace(verdict, condition=str(found), necessary=found.exact)
    return replace(verdict, note=failures.joined(verdict.note))


def _doubt(doubt: str) -> str:
    """Describes whether sizes smaller than a refutation's are decided."""
    if not doubt:
        return ""
    return f"the smallest sizes that were found; smaller ones are not decided ({doubt})"


# --- at sizes -----------------------------------------------------------------------------------


def _check_at(
    stages: Stages,
    policy: Policy,
    progress: Callable[[fast.Progress], None] | None,
    sizes: Mapping[str, int],
    tell: Tell,
    *,
    analysed: bool = False,
    most: int | None = None,
) -> Verdict:
    """The verdict at sizes.  Of a refuted one the first hazard is told before others are looked
    for; what was `analysed` for all sizes, and not decided, is not again.
    Raises WorkLimitError where the machine does more than `most` work."""
    start = perf_counter()
    stage("reading the procedure and checking its bounds")
    if stages.diagnostics:
        return _error(stages, stages.diagnostics, sizes, policy, start)
    assert stages.ir is not None
    if wrong := check_sizes(stages.ir, sizes):
        return _error(stages, wrong, sizes, policy, start)
    operations, failures = 0, Failures()
    hazards = _divergences(stages, sizes)
    if stages.bounds_violations:
        hazards = (*hazards, *map(hazard_of_bounds, bounds.violations_at(stages.ir, sizes)))
    if stages.operand_violations:
        at_sizes = operand_windows.violations(stages.facts.proc, stages.facts.variables, sizes)
        hazards = (*hazards, *map(hazard_of_operands, at_sizes))
    hazards = _each_once(*hazards)
    if not hazards:
        program = stages.amir(policy)
        stage("running the abstract machine")
        for choice in CHOICES if any(v.resident for v in program.variables) else CHOICES[:1]:
            program = dealt(stages.amir(policy), sizes, choice)
            outcome = fast.run(program, sizes, progress=progress, most=most)
            if outcome.violations and choice is not in_order:  # told in the source's iterators
                program = assign_tasks(stages.amir(policy), sizes, choice)
                outcome = fast.run(program, sizes, progress=progress, most=most)
                if not outcome.violations:
                    raise InternalError("tasks as loops and tasks written out differ")
            if outcome.violations:
                early = pipeline_refutation.first_hazard(
                    program, sizes, outcome.violations[0], Failures()
                )
                first = replace(blank(stages, sizes, policy), word="refuted", hazards=(early,))
                tell(replace(first, seconds=perf_counter() - start))
                keep = fast.Keep.PAIRS
                outcome = fast.run(program, sizes, keep=keep, progress=progress, most=most)
            operations += outcome.operations
            if outcome.violations:
                break
        stage("explaining what the abstract machine found")
        found = first_of_each_pair(outcome.violations)
        proc = stages.facts.proc
        hazards = pipeline_refutation.hazards_at(
            found, sizes, program, failures, proc=proc, analysed=analysed
        )
    verdict = replace(
        blank(stages, sizes, policy),
        word="refuted" if hazards else "proved",
        hazards=hazards,
        operations=operations,
        note=failures.joined(""),
    )
    if not hazards and loads(stages.amir(policy)):
        verdict = replace(
            verdict, word="undecided", reason="some contents of the arrays of indices were tried"
        )
    elif not hazards and (why := depends_on_orders(stages.amir(policy))):
        verdict = replace(
            verdict, word="undecided", reason=f"some orders of tasks were tried: {why}"
        )
    elif not hazards and not sizes:  # of a procedure without sizes this is the whole claim
        verdict = _with_warnings(stages, verdict)
    return replace(_with_idle(stages, verdict), seconds=perf_counter() - start)


def _each_once(*hazards: Hazard) -> tuple[Hazard, ...]:
    """The hazards; of a statement that is read several times, as in a macro, those that tell more
    than an earlier one."""
    return tuple(one for at, one in enumerate(hazards) if one not in hazards[:at])


def _divergences(stages: Stages, sizes: Mapping[str, int]) -> tuple[Hazard, ...]:
    return tuple(hazard_of_divergence(d, sizes) for d in stages.facts.divergences)


def _error(
    stages: Stages,
    diagnostics: tuple[Diagnostic, ...],
    sizes: Mapping[str, int] | None,
    policy: Policy,
    start: float,
) -> Verdict:
    seconds = perf_counter() - start
    found = replace(blank(stages, sizes, policy), word="error", seconds=seconds)
    return replace(found, diagnostics=diagnostics)
