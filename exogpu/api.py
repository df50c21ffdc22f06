"""`@proc` and what can be done with a procedure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, overload

from exogpu import meaning as sequential
from exogpu.amir import nodes as amir
from exogpu.amir.lower import lower
from exogpu.analysis import bounds, collective, distribution, divergence, operands
from exogpu.analysis.bounds_report import Outside
from exogpu.analysis.facts import CollectiveFacts
from exogpu.analysis.inline import inline
from exogpu.analysis.lifetimes import insert_frees
from exogpu.analysis.sizes import check_sizes
from exogpu.explain.words import (
    distinct,
    hazard_of_bounds,
    hazard_of_divergence,
    hazard_of_operands,
    hazards_of,
)
from exogpu.frontend.limits import bad_name, is_name, is_too_large_inlined, large_when_inlined
from exogpu.frontend.procedures import parse_proc
from exogpu.ir.nodes import ControlParam, Proc
from exogpu.ir.printer import print_proc
from exogpu.ir.types import Policy
from exogpu.machine import fast
from exogpu.pipeline import refuted
from exogpu.pipeline.allsizes import answer
from exogpu.pipeline.limited import PROVING, judged, tried
from exogpu.report.card import card
from exogpu.result.errors import Diagnostic, ExoGpuError, InternalError
from exogpu.result.verdict import Hazard, Verdict
from exogpu.solvers.workers import Limits, Tell, stage
from exogpu.symbolic.certificate.write import certificate_digest
from exogpu.symbolic.find.conditions import Calls, weakest_condition
from exogpu.symbolic.find.prover import Findings

if TYPE_CHECKING:
    from exogpu.codegen.compiled import CompiledKernel
    from exogpu.codegen.host import Emitted
    from exogpu.codegen.runtime.expressions import Json
    from exogpu.codegen.task_order import TaskOrder

_collector: ContextVar[list[Procedure] | None] = ContextVar("collector", default=None)


def _unheard(verdict: Verdict) -> None:
    """Nobody is told."""


@contextmanager
def collecting() -> Iterator[list[Procedure]]:
    """Within it, `@proc` gathers procedures, ill-formed ones too, instead of raising."""
    found: list[Procedure] = []
    token = _collector.set(found)
    try:
        yield found
    finally:
        _collector.reset(token)


@dataclass(frozen=True, slots=True)
class Analysed:
    """A procedure made ready for the machine: inlined, with frees, and the facts about it."""

    proc: Proc
    facts: CollectiveFacts


class Procedure:
    """A procedure of the language, immutable.

    `ir` is None, and `diagnostics` says why, if its definition was refused.
    """

    def __init__(
        self, name: str, ir: Proc | None, diagnostics: tuple[Diagnostic, ...], made_in: str = ""
    ) -> None:
        self.name = name
        self.made_in = made_in
        """The file whose execution made it; not where it is written, if a function made it."""
        self.ir = ir
        self.refusals = diagnostics
        """What reading the definition found."""
        self._verdicts: dict[Policy, Verdict] = {}

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that is wrong with the definition, in source order.

        Divergence and accesses out of bounds are hazards instead.
        """
        if self.ir is None:
            return self.refusals
        wrong = [v.diagnostic for v in self._bounds if not isinstance(v.finding, Outside)]
        found = dict.fromkeys((*self.refusals, *wrong, *self._analysis[1]))
        return tuple(sorted(found, key=lambda d: (d.span.file, d.span.line, d.span.column)))

    @cached_property
    def _bounds(self) -> tuple[bounds.Violation, ...]:
        assert self.ir is not None
        return bounds.violations(self.ir)

    @cached_property
    def _operands(self) -> tuple[operands.Violation, ...]:
        return operands.violations(self.analysed.proc, self.analysed.facts)

    @cached_property
    def _analysis(self) -> tuple[Analysed | None, tuple[Diagnostic, ...]]:
        assert self.ir is not None
        flat = insert_frees(inline(self.ir))
        facts, found = collective.analyse(flat)
        if found:
            return None, found
        found = distribution.check(flat, facts)
        return (None if found else Analysed(flat, facts)), found

    @property
    def analysed(self) -> Analysed:
        """The procedure with its facts.  Raises ExoGpuError if it is ill-formed."""
        if self.diagnostics:
            raise ExoGpuError(self.diagnostics)
        analysed = self._analysis[0]
        assert analysed is not None
        return analysed

    @property
    def size_names(self) -> tuple[str, ...]:
        """The control parameters, in order."""
        if self.ir is None:
            return ()
        return tuple(p.name.name for p in self.ir.params if isinstance(p, ControlParam))

    def check(
        self,
        *,
        policy: Policy | str = Policy.PTX,
        heard: Callable[[Verdict], None] = _unheard,
        timeout: float | None = None,
        memory: float | None = None,
    ) -> Verdict:
        """The verdict for all sizes: proved, refuted at the smallest failing sizes, or undecided.

        A proof is a set of obligations that a solver has answered; a refutation is replayed on
        the abstract machine.  A procedure without sizes that cannot be proved is run on it, any
        other that is undecided at its smallest sizes.  `timeout` is in seconds, `memory` in
        gigabytes, by default half of the machine's; a check that has to be stopped is undecided.
        The last quarter of the time is kept for the smallest sizes.  The answer is remembered.
        Of what is refuted `heard` is told with each further hazard.  What is proved and has no
        lowering has `warnings`, those that `compile` would raise.
        """
        policy = Policy.of(policy)
        if policy in self._verdicts:
            return self._verdicts[policy]
        start = perf_counter()
        limits = Limits(timeout, memory, PROVING)
        # Here, before the check's process is made: each one would import it anew.
        import_module("exogpu.codegen.warned")

        def hear(message: object) -> None:
            if isinstance(message, Verdict) and message.word == "refuted":
                heard(message)

        found = judged(partial(self._check, policy), self._blank(None, policy), limits, hear)
        verdict = found.verdict
        if verdict.word == "undecided":
            left = None if timeout is None else timeout + start - perf_counter()
            verdict = tried(
                verdict,
                lambda: self.amir(policy),
                partial(self._check_at, policy, None),
                self.size_names,
                Limits(left, memory),
            )
        if found.stopped is None:
            self._verdicts[policy] = verdict
        return verdict

    def _check(self, policy: Policy, tell: Tell) -> Verdict:
        start = perf_counter()
        stage("reading the procedure and checking its bounds")
        if self.diagnostics:
            return self._error(self.diagnostics, None, policy, start)
        outside = [v for v in self._bounds if isinstance(v.finding, Outside)]
        diverging = self._divergences({})
        verdict = replace(
            self._blank(None, policy),
            word="refuted",
            hazards=(
                *diverging,
                *map(hazard_of_bounds, outside),
                *map(hazard_of_operands, self._operands),
            ),
        )
        if not verdict.hazards:
            verdict = self._synchronisation(verdict, policy, tell)
            if verdict.word == "proved":
                tell(replace(verdict, seconds=perf_counter() - start))
                verdict = self._with_warnings(verdict)
        elif not diverging:
            tell(verdict)
            verdict = self._with_condition(verdict)
        return replace(verdict, seconds=perf_counter() - start)

    def _with_warnings(self, verdict: Verdict) -> Verdict:
        """A proved verdict with what keeps the procedure from being compiled."""
        from exogpu.codegen.warned import limitations

        stage("looking for what has no lowering")
        analysed, proof = self.analysed, verdict.proof
        depths = {} if proof is None else dict(proof.depths)
        return replace(verdict, warnings=limitations(analysed.proc, analysed.facts, depths))

    def _with_condition(self, verdict: Verdict, findings: Findings | None = None) -> Verdict:
        """The verdict with the weakest condition on sizes under which it would be proved."""
        assert self.ir is not None
        stage("looking for the condition on sizes under which it is proved")
        calls = Calls(self.analysed.proc, self.analysed.facts)
        found = weakest_condition(self.ir, self.amir(verdict.policy), findings, calls)
        if found is None:
            return verdict
        return replace(verdict, condition=str(found), necessary=found.exact)

    def _synchronisation(self, verdict: Verdict, policy: Policy, tell: Tell) -> Verdict:
        """The verdict on what the abstract machine checks."""
        program = self.amir(policy)
        found = answer(program)
        if found.proof is not None:
            return replace(verdict, word="proved", proof=found.proof)
        if found.refutation is not None:
            stage("replaying on the abstract machine")
            verdict = replace(verdict, note=_doubt(found.doubt))
            for hazards in refuted.hazards(program, found.findings, found.refutation):
                verdict = replace(verdict, hazards=hazards)
                tell(verdict)
            return self._with_condition(verdict, found.findings)
        return replace(verdict, word="undecided", reason=found.reason)

    def check_at(
        self,
        *,
        policy: Policy | str = Policy.PTX,
        progress: Callable[[fast.Progress], None] | None = None,
        timeout: float | None = None,
        memory: float | None = None,
        **sizes: int,
    ) -> Verdict:
        """The verdict at concrete sizes, by running the abstract machine.

        A refutation has one hazard for each kind, variable and pair of statements.  `timeout`
        is in seconds, `memory` in gigabytes, by default half of the machine's; a check that has
        to be stopped is undecided.
        """
        policy = Policy.of(policy)

        def heard(message: object) -> None:
            if progress is not None and isinstance(message, fast.Progress):
                progress(message)

        def work(tell: Tell) -> Verdict:
            return self._check_at(policy, None if progress is None else tell, sizes)

        limits = Limits(timeout, memory)
        return judged(work, self._blank(sizes, policy), limits, heard).verdict

    def _check_at(
        self,
        policy: Policy,
        progress: Callable[[fast.Progress], None] | None,
        sizes: Mapping[str, int],
    ) -> Verdict:
        start = perf_counter()
        stage("reading the procedure and checking its bounds")
        if self.diagnostics:
            return self._error(self.diagnostics, sizes, policy, start)
        assert self.ir is not None
        if wrong := check_sizes(self.ir, sizes):
            return self._error(wrong, sizes, policy, start)
        operations = 0
        hazards = self._divergences(sizes)
        if self._bounds:
            hazards = (*hazards, *map(hazard_of_bounds, bounds.violations_at(self.ir, sizes)))
        if self._operands:
            at_sizes = operands.violations(self.analysed.proc, self.analysed.facts, sizes)
            hazards = (*hazards, *map(hazard_of_operands, at_sizes))
        if not hazards:
            program = self.amir(policy)
            stage("running the abstract machine")
            outcome = fast.run(program, sizes, report=fast.Report.PAIRS, progress=progress)
            stage("explaining what the abstract machine found")
            hazards = hazards_of(distinct(outcome.violations), sizes, program)
            operations = outcome.operations
        verdict = replace(
            self._blank(sizes, policy),
            word="refuted" if hazards else "proved",
            hazards=hazards,
            operations=operations,
        )
        if not hazards and not sizes:  # of a procedure without sizes this is the whole claim
            verdict = self._with_warnings(verdict)
        return replace(verdict, seconds=perf_counter() - start)

    def _divergences(self, sizes: Mapping[str, int]) -> tuple[Hazard, ...]:
        found = divergence.divergences(self.analysed.proc, self.analysed.facts)
        return tuple(hazard_of_divergence(d, sizes) for d in found)

    def _blank(self, sizes: Mapping[str, int] | None, policy: Policy) -> Verdict:
        """What a verdict starts from."""
        given = None if sizes is None else dict(sizes)
        return Verdict(proc=self.name, word="undecided", sizes=given, policy=policy, seconds=0.0)

    def _error(
        self,
        diagnostics: tuple[Diagnostic, ...],
        sizes: Mapping[str, int] | None,
        policy: Policy,
        start: float,
    ) -> Verdict:
        return replace(
            self._blank(sizes, policy),
            word="error",
            seconds=perf_counter() - start,
            diagnostics=diagnostics,
        )

    def run(self, **arguments: object) -> None:
        """The sequential meaning, on numpy arrays, in place; sizes may follow from shapes.

        Raises ExoGpuError for an ill-formed procedure or arguments that do not fit.
        """
        if self.diagnostics:
            raise ExoGpuError(self.diagnostics)
        assert self.ir is not None
        sequential.run(self.ir, arguments)

    def compile(
        self,
        arch: str = "sm_90a",
        *,
        at: Mapping[str, int] | None = None,
        unchecked: bool = False,
        policy: Policy | str = Policy.PTX,
        task_order: TaskOrder | None = None,
        timeout: float | None = None,
        memory: float | None = None,
    ) -> CompiledKernel:
        """The procedure as a kernel that can be called: `p.compile()(A, B, C)`.

        What is not proved for all sizes needs sizes to check it `at`, or `unchecked`; `manifest`
        says which it was.  Raises RefusedError, an ExoGpuError with the verdict, for what is
        refuted or not proved, ExoGpuError for what has no lowering, and CompileError where there
        is no compiler or it refuses.  `timeout` and `memory` are the checks'.
        """
        from exogpu.codegen.compiled import compile_emitted

        emitted, manifest = self.emit(
            arch,
            at=at,
            unchecked=unchecked,
            policy=policy,
            task_order=task_order,
            timeout=timeout,
            memory=memory,
        )
        return compile_emitted(emitted, manifest)

    def emit(
        self,
        arch: str = "sm_90a",
        *,
        at: Mapping[str, int] | None = None,
        unchecked: bool = False,
        policy: Policy | str = Policy.PTX,
        task_order: TaskOrder | None = None,
        arrive_all: bool = False,
        timeout: float | None = None,
        memory: float | None = None,
    ) -> tuple[Emitted, dict[str, Json]]:
        """What `compile` compiles: CUDA C++ and the manifest.  It needs no CUDA.

        With `arrive_all` every thread arrives on mbarriers by itself, for race checkers.
        """
        from exogpu.codegen.compiled import complete_manifest
        from exogpu.codegen.host import emit
        from exogpu.codegen.vetting import UNCHECKED, vet

        checked, policy = UNCHECKED, Policy.of(policy)
        if not unchecked:
            concrete = partial(self.check_at, policy=policy, timeout=timeout, memory=memory)
            at_sizes = None if at is None else partial(concrete, **at)
            digest = partial(certificate_digest, self)
            check = partial(self.check, policy=policy, timeout=timeout, memory=memory)
            checked = vet(check, at_sizes, digest)
        analysed = self.analysed
        emitted = emit(analysed.proc, analysed.facts, arch, task_order, checked.depths, arrive_all)
        return emitted, complete_manifest(analysed.proc, emitted, checked)

    def amir(self, policy: Policy | str = Policy.PTX) -> amir.Program:
        """The abstract machine program.  Raises ExoGpuError for an ill-formed procedure."""
        analysed = self.analysed
        return lower(analysed.proc, analysed.facts, Policy.of(policy))

    def __repr__(self) -> str:
        return f"<procedure {self.name}({', '.join(self.size_names)})>"

    def _repr_html_(self) -> str:
        """The procedure as a notebook shows it: its text, or what is wrong with it."""
        wrong = [(f"{d.code} line {d.span.line}", d.message) for d in self.refusals]
        text = "" if self.ir is None else print_proc(self.ir)
        return card(repr(self).strip("<>"), "error" if wrong else "", wrong, text)


def _module_file(frame: FrameType | None) -> str:
    """The file that is executed where a frame stands: of its innermost module."""
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame.f_code.co_filename if frame is not None else ""


def _read(
    function: Callable[..., None], frame: FrameType
) -> tuple[Proc | None, tuple[Diagnostic, ...]]:
    """The IR, which every pass can follow, or all that is wrong.

    Raises ExoGpuError for what is no function of a file, and InternalError where reading fails.
    """
    try:
        ir, diagnostics = parse_proc(function, frame)
    except (ExoGpuError, InternalError, MemoryError):
        raise
    except Exception as error:
        raise InternalError(f"reading {function!r}: {type(error).__name__}: {error}") from error
    if ir is not None and _is_too_large(ir):
        return None, (large_when_inlined(ir),)
    return ir, diagnostics


def _is_too_large(ir: Proc) -> bool:
    try:
        flat = inline(ir)
        return flat is not ir and is_too_large_inlined(flat.body)
    except RecursionError:
        return True


def _doubt(doubt: str) -> str:
    """What is said of sizes smaller than a refutation's."""
    if not doubt:
        return ""
    return f"the smallest sizes that were found; smaller ones are not decided ({doubt})"


@overload
def proc(function: Callable[..., None]) -> Procedure: ...
@overload
def proc(*, name: str | None = None) -> Callable[[Callable[..., None]], Procedure]: ...
def proc(
    function: Callable[..., None] | None = None, *, name: str | None = None
) -> Procedure | Callable[[Callable[..., None]], Procedure]:
    """Read a function as a procedure of the language: it is parsed, never executed.

    `name` is the procedure's name where it is not the function's, as for kernels made by a
    function of their configuration.  Raises ExoGpuError with all that is wrong.
    """
    frame = sys._getframe(1)

    def read(function: Callable[..., None]) -> Procedure:
        ir, diagnostics = _read(function, frame)
        given = function.__name__ if name is None or not is_name(name) else name
        if ir is not None and name is not None:
            wrong = () if given == name else (bad_name(name, ir.span),)
            ir, diagnostics = (None, wrong) if wrong else (replace(ir, name=name), ())
        made = Procedure(given, ir, diagnostics, _module_file(frame))
        collected = _collector.get()
        if collected is not None:
            collected.append(made)
        elif diagnostics:
            raise ExoGpuError(diagnostics)
        return made

    return read if function is None else read(function)
