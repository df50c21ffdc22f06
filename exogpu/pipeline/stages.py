"""The stages of one procedure: as written, its facts, its abstract machine program.

Each is made when it is first asked for, and once in a process.  A check has a process of its own,
and what is keyed by the identity of statements does not leave it: a caller that goes on after the
check, to report or to compile, makes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from exogpu.amir import nodes
from exogpu.amir.lower import lower
from exogpu.analysis import bounds, operand_windows
from exogpu.analysis.all_facts import facts_of
from exogpu.analysis.bounds_messages import Outside
from exogpu.analysis.facts import Facts
from exogpu.analysis.inline import inline
from exogpu.analysis.launch import with_waits
from exogpu.analysis.lifetimes import insert_frees
from exogpu.codegen.compiled_kernel import UNCHECKED, complete_manifest, vet
from exogpu.codegen.host_steps import Emitted
from exogpu.codegen.host_steps import emit as emit_text
from exogpu.codegen.runtime.manifest import Json
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.ir.nodes import ControlParam, Proc
from exogpu.symbolic.certificate.write import certificate_digest

if TYPE_CHECKING:
    from exogpu.codegen.task_order import TaskOrder


class Stages:
    """Stages of the analysis of a procedure; `ir` is None if its definition was refused."""

    compiled_elsewhere = False
    """True if another compiler makes the code: no lowering is asked for, nor a repair in the
    language's terms."""

    def __init__(
        self,
        name: str,
        ir: Proc | None,
        refusals: tuple[Diagnostic, ...] | Callable[[], tuple[Diagnostic, ...]],
        inlined: Proc | None = None,
        made_in: str = "",
    ) -> None:
        self.name = name
        self.ir = ir
        self._refusals = refusals
        self._inlined = inlined
        """The same without windows and calls of procedures, where it is made already."""
        self.made_in = made_in
        """The file whose execution made it; not where it is written, if a function made it."""
        self._programs: dict[Policy, nodes.Program] = {}

    @cached_property
    def refusals(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of reading the definition; of a derived one, when they are first asked
        for."""
        given = self._refusals
        return given if isinstance(given, tuple) else given()

    @property
    def size_names(self) -> tuple[str, ...]:
        """The control parameters, in order."""
        if self.ir is None:
            return ()
        return tuple(p.name.name for p in self.ir.params if isinstance(p, ControlParam))

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that is wrong with the definition, in source order.

        Divergence and accesses out of bounds are hazards instead; but of an instruction's body the
        instruction is wrong, which does not ask for the arguments that it takes.
        """
        if self.ir is None:
            return self.refusals
        wrong = [
            _asking(v.diagnostic) if isinstance(v.finding, Outside) else v.diagnostic
            for v in self.bounds_violations
            if v.of_instruction or not isinstance(v.finding, Outside)
        ]
        found = dict.fromkeys((*self.refusals, *wrong, *self._analysis[1]))
        return tuple(sorted(found, key=lambda d: (d.span.file, d.span.line, d.span.column)))

    @cached_property
    def bounds_violations(self) -> tuple[bounds.Breach, ...]:
        """Accesses out of bounds, and what else is wrong with extents, of a definition that could
        be read."""
        assert self.ir is not None
        return bounds.violations(self.ir)

    @cached_property
    def operand_violations(self) -> tuple[operand_windows.Misuse, ...]:
        """Operands that are not as their instructions ask, of a well-formed procedure."""
        return operand_windows.violations(self.facts.proc, self.facts.variables)

    @cached_property
    def _analysis(self) -> tuple[Facts | None, tuple[Diagnostic, ...]]:
        assert self.ir is not None
        inlined = inline(self.ir) if self._inlined is None else self._inlined
        return facts_of(insert_frees(with_waits(inlined)))

    @property
    def facts(self) -> Facts:
        """All that is known of the procedure.  Raises ExoGpuError if it is ill-formed."""
        if self.diagnostics:
            raise ExoGpuError(self.diagnostics)
        facts = self._analysis[0]
        assert facts is not None
        return facts

    def amir(self, policy: Policy | str = Policy.PTX) -> nodes.Program:
        """The abstract machine program.  Raises ExoGpuError for an ill-formed procedure."""
        policy = Policy.from_name(policy)
        if policy not in self._programs:
            self._programs[policy] = lower(self.facts, policy)
        return self._programs[policy]


def _asking(found: Diagnostic) -> Diagnostic:
    """Adds to a fault of an instruction the remedy to exclude such arguments."""
    remedy = "let the instruction say which arguments it takes, by an `assert` first in its body"
    return replace(found, help=remedy)


# From a checked procedure to CUDA C++ and its manifest.


@dataclass(frozen=True, slots=True)
class Target:
    """The target of emitting a procedure."""

    arch: str
    task_order: TaskOrder | None = None
    arrive_all: bool = False


def policy_for_hardware(policy: Policy | str) -> Policy:
    """Returns the policy, which has to be ptx: `paper` grants more than the hardware keeps
    (`await-own-arrival`).  Raises ExoGpuError for any other."""
    found = Policy.from_name(policy)
    if found is not Policy.PTX:
        what = f"policy {found.value} grants more than the hardware keeps"
        remedy = "leave the policy out: a kernel is compiled by what ptx proves"
        raise ExoGpuError([Diagnostic("X908", what, NOWHERE, remedy)])
    return found


def emit(
    stages: Stages,
    target: Target,
    check: Callable[[], Verdict] | None,
    check_at: Callable[[], Verdict] | None,
) -> tuple[Emitted, dict[str, Json]]:
    """CUDA C++ and the completed manifest of what the checks do not refuse; without `check`
    nothing is checked."""
    checked = UNCHECKED
    if check is not None:
        checked = vet(check, check_at, partial(certificate_digest, stages))
    facts = stages.facts
    depths: Mapping[str, int] = checked.depths
    order, every = target.task_order, target.arrive_all
    emitted = emit_text(facts, target.arch, order, depths, every, checked.waits)
    return emitted, complete_manifest(facts.proc, emitted, checked)
