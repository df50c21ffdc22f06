"""From a checked procedure to CUDA C++ and its manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from exogpu.codegen.compiled import complete_manifest
from exogpu.codegen.host import Emitted
from exogpu.codegen.host import emit as emit_text
from exogpu.codegen.runtime.expressions import Json
from exogpu.codegen.vetting import UNCHECKED, vet
from exogpu.pipeline.stages import Stages
from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.result.verdict import Policy, Verdict
from exogpu.symbolic.certificate.write import certificate_digest

if TYPE_CHECKING:
    from exogpu.codegen.task_order import TaskOrder


@dataclass(frozen=True, slots=True)
class Target:
    """The target of emitting a procedure."""

    arch: str
    task_order: TaskOrder | None = None
    arrive_all: bool = False


def policy_for_hardware(policy: Policy | str) -> Policy:
    """Returns the policy, which has to be ptx: `paper` grants more than the hardware keeps
    (`await-own-arrival`).  Raises ExoGpuError for any other."""
    found = Policy.of(policy)
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
