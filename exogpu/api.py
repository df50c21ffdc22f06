"""`@proc` and what can be done with a procedure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING, overload

from exogpu.allsizes import answer
from exogpu.analysis import collective, distribution, divergence
from exogpu.analysis.facts import CollectiveFacts
from exogpu.analysis.inline import inline
from exogpu.analysis.lifetimes import insert_frees
from exogpu.certificates import certificate_digest
from exogpu.errors import Diagnostic, ExoGpuError
from exogpu.frontend import bounds
from exogpu.frontend.bounds_report import Outside
from exogpu.frontend.procedures import parse_proc
from exogpu.frontend.sizes import check_sizes
from exogpu.ir.nodes import ControlParam, Proc
from exogpu.ir.printer import print_proc
from exogpu.ir.types import Policy
from exogpu.machine import amir, fast, sequential
from exogpu.machine.explain import (
    distinct,
    hazard_of_bounds,
    hazard_of_divergence,
    hazards_of,
)
from exogpu.machine.lower import lower
from exogpu.notebook import card
from exogpu.symbolic.conditions import weakest_condition
from exogpu.symbolic.prover import Findings
from exogpu.verdict import Hazard, Verdict

if TYPE_CHECKING:
    from exogpu.codegen.compiled import CompiledKernel
    from exogpu.codegen.host import Emitted
    from exogpu.codegen.runtime.expressions import Json
    from exogpu.codegen.task_order import TaskOrder

_collector: ContextVar[list[Procedure] | None] = ContextVar("collector", default=None)


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

    def __init__(self, name: str, ir: Proc | None, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.name = name
        self.ir = ir
        self._parsing = diagnostics
        self._verdicts: dict[Policy, Verdict] = {}

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that is wrong with the definition, in source order.

        Divergence and accesses out of bounds are hazards instead.
        """
        if self.ir is None:
            return self._parsing
        wrong = [v.diagnostic for v in self._bounds if not isinstance(v.finding, Outside)]
        found = dict.fromkeys((*wrong, *self._analysis[1]))
        return tuple(sorted(found, key=lambda d: (d.span.file, d.span.line, d.span.column)))

    @cached_property
    def _bounds(self) -> tuple[bounds.Violation, ...]:
        assert self.ir is not None
        return bounds.violations(self.ir)

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

    def check(self, *, policy: Policy = Policy.STRICT) -> Verdict:
        """The verdict for all sizes: proved, refuted at the smallest failing sizes, or undecided.

        A proof is a set of obligations that a solver has answered; a refutation is replayed on
        the abstract machine.  A procedure without sizes that cannot be proved is run on it.
        The answer is remembered.
        """
        if policy not in self._verdicts:
            self._verdicts[policy] = self._check(policy)
        return self._verdicts[policy]

    def _check(self, policy: Policy) -> Verdict:
        start = perf_counter()
        if self.diagnostics:
            return self._error(self.diagnostics, None, policy, start)
        outside = [v for v in self._bounds if isinstance(v.finding, Outside)]
        diverging = self._divergences({})
        verdict = Verdict(
            proc=self.name,
            word="refuted",
            sizes=None,
            policy=policy,
            seconds=0.0,
            hazards=(*diverging, *map(hazard_of_bounds, outside)),
        )
        if outside and not diverging:
            verdict = replace(verdict, condition=self._condition(policy))
        if not verdict.hazards:
            verdict = self._synchronisation(verdict, policy)
        return replace(verdict, seconds=perf_counter() - start)

    def _condition(self, policy: Policy, findings: Findings | None = None) -> str | None:
        """The weakest condition on the sizes under which the procedure is proved."""
        assert self.ir is not None
        found = weakest_condition(self.ir, self.amir(policy), findings)
        return None if found is None else str(found)

    def _synchronisation(self, verdict: Verdict, policy: Policy) -> Verdict:
        """The verdict on what the abstract machine checks."""
        found = answer(self.amir(policy))
        if found.proof is not None:
            return replace(verdict, word="proved", proof=found.proof)
        if found.refutation is not None:
            hazards = self.check_at(policy=policy, progress=None, **found.refutation.sizes).hazards
            return replace(
                verdict, hazards=hazards, condition=self._condition(policy, found.findings)
            )
        if not self.size_names:
            return self.check_at(policy=policy)
        sizes = ",".join(f"{name}=64" for name in self.size_names)
        offer = f"give sizes to check it at, such as --at {sizes}"
        return replace(verdict, word="undecided", reason=f"{found.reason}; {offer}")

    def check_at(
        self,
        *,
        policy: Policy = Policy.STRICT,
        progress: Callable[[fast.Progress], None] | None = None,
        **sizes: int,
    ) -> Verdict:
        """The verdict at concrete sizes, by running the abstract machine.

        A refutation has one hazard for each kind, variable and pair of statements.
        """
        start = perf_counter()
        if self.diagnostics:
            return self._error(self.diagnostics, sizes, policy, start)
        assert self.ir is not None
        if wrong := check_sizes(self.ir, sizes):
            return self._error(wrong, sizes, policy, start)
        flat, operations = self.analysed.proc, 0
        hazards = self._divergences(sizes)
        if self._bounds:
            hazards = (*hazards, *map(hazard_of_bounds, bounds.violations_at(flat, sizes)))
        if not hazards:
            program = self.amir(policy)
            outcome = fast.run(program, sizes, report=fast.Report.PAIRS, progress=progress)
            hazards = hazards_of(distinct(outcome.violations), sizes, program)
            operations = outcome.operations
        return Verdict(
            proc=self.name,
            word="refuted" if hazards else "proved",
            sizes=dict(sizes),
            policy=policy,
            seconds=perf_counter() - start,
            hazards=hazards,
            operations=operations,
        )

    def _divergences(self, sizes: Mapping[str, int]) -> tuple[Hazard, ...]:
        found = divergence.divergences(self.analysed.proc, self.analysed.facts)
        return tuple(hazard_of_divergence(d, sizes) for d in found)

    def _error(
        self,
        diagnostics: tuple[Diagnostic, ...],
        sizes: Mapping[str, int] | None,
        policy: Policy,
        start: float,
    ) -> Verdict:
        return Verdict(
            proc=self.name,
            word="error",
            sizes=sizes,
            policy=policy,
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
        policy: Policy = Policy.STRICT,
        task_order: TaskOrder | None = None,
    ) -> CompiledKernel:
        """The procedure as a kernel that can be called: `p.compile()(A, B, C)`.

        What is not proved for all sizes needs sizes to check it `at`, or `unchecked`; `manifest`
        says which it was.  Raises RefusedError, an ExoGpuError with the verdict, for what is
        refuted or not proved, ExoGpuError for what has no lowering, and CompileError where there
        is no compiler or it refuses.
        """
        from exogpu.codegen.compiled import compile_emitted

        emitted, manifest = self.emit(
            arch, at=at, unchecked=unchecked, policy=policy, task_order=task_order
        )
        return compile_emitted(emitted, manifest)

    def emit(
        self,
        arch: str = "sm_90a",
        *,
        at: Mapping[str, int] | None = None,
        unchecked: bool = False,
        policy: Policy = Policy.STRICT,
        task_order: TaskOrder | None = None,
    ) -> tuple[Emitted, dict[str, Json]]:
        """What `compile` compiles: CUDA C++ and the manifest.  It needs no CUDA."""
        from exogpu.codegen.compiled import complete_manifest
        from exogpu.codegen.host import emit
        from exogpu.codegen.vetting import UNCHECKED, vet

        checked = UNCHECKED
        if not unchecked:
            concrete = partial(self.check_at, policy=policy, progress=None)
            at_sizes = None if at is None else partial(concrete, **at)
            digest = partial(certificate_digest, self)
            checked = vet(partial(self.check, policy=policy), at_sizes, digest)
        analysed = self.analysed
        emitted = emit(analysed.proc, analysed.facts, arch, task_order)
        return emitted, complete_manifest(analysed.proc, emitted, checked)

    def amir(self, policy: Policy = Policy.STRICT) -> amir.Program:
        """The abstract machine program.  Raises ExoGpuError for an ill-formed procedure."""
        analysed = self.analysed
        return lower(analysed.proc, analysed.facts, policy)

    def __repr__(self) -> str:
        return f"<procedure {self.name}({', '.join(self.size_names)})>"

    def _repr_html_(self) -> str:
        """The procedure as a notebook shows it: its text, or what is wrong with it."""
        wrong = [(f"{d.code} line {d.span.line}", d.message) for d in self._parsing]
        text = "" if self.ir is None else print_proc(self.ir)
        return card(repr(self).strip("<>"), "error" if wrong else "", wrong, text)


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
        ir, diagnostics = parse_proc(function, frame)
        if ir is not None and name is not None:
            ir = replace(ir, name=name)
        made = Procedure(name or function.__name__, ir, diagnostics)
        collected = _collector.get()
        if collected is not None:
            collected.append(made)
        elif diagnostics:
            raise ExoGpuError(diagnostics)
        return made

    return read if function is None else read(function)
