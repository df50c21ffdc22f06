"""Repairs of an access that is not ordered, in the language's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from exogpu.hw.timelines import ASYNC_PROXY, SHORT_NAME
from exogpu.ir.types import BarrierMechanism, Level, QualSet, QualTL
from exogpu.machine.amir import Arrive, Check, Program, Record
from exogpu.machine.barrier_words import ops_of
from exogpu.machine.violation import Violation

_PRE: Final[Mapping[QualTL, str]] = {
    QualTL.CPU: "cpu_in_order",
    QualTL.STRM: "cuda_stream_sync",
    QualTL.CUDA1: "cuda_in_order",
    QualTL.CUDA2: "cuda_in_order",
    QualTL.SM80: "Sm80_cp_async",
    QualTL.TMA_S: "tma_to_smem_async",
    QualTL.TMA_G: "tma_to_gmem_async",
    QualTL.WG_A: "wgmma_async",
    QualTL.WG_D: "wgmma_async",
    QualTL.WG_S: "wgmma_async",
    QualTL.WG_0: "wgmma_fence_1",
}
"""A sync timeline whose full set has the timeline of the first access."""

_POST: Final[Mapping[QualTL, str]] = {
    QualTL.CPU: "cpu_in_order",
    QualTL.STRM: "cuda_stream_sync",
    QualTL.CUDA1: "cuda_in_order",
    QualTL.CUDA2: "cuda_in_order",
    QualTL.SM80: "Sm80_generic",
    QualTL.TMA_S: "cuda_generic_and_async",
    QualTL.TMA_G: "cuda_generic_and_async",
    QualTL.WG_A: "wgmma_fence_2",
    QualTL.WG_D: "wgmma_fence_2",
    QualTL.WG_S: "cuda_generic_and_async",
    QualTL.WG_0: "cuda_in_order",
}
"""A sync timeline that orders the timeline of the second access."""

BY_COMMIT_GROUP: Final = frozenset({"Sm80_cp_async", "tma_to_gmem_async", "wgmma_async"})
"""First timelines of an Arrive on a commit group only."""

BY_COPY: Final = "tma_to_smem_async"
"""The timeline of copies that signal an mbarrier themselves."""

PROXY_FENCE: Final = "Fence(cuda_in_order, cuda_generic_and_async)"


def first_timeline(seen: QualSet) -> str:
    """A first timeline for what was seen on one of these; an ordinary one if that will do."""
    names = [_PRE[timeline] for timeline in SHORT_NAME if timeline in seen]
    return next((name for name in names if not _by_completion(name)), names[0] if names else "")


def second_timeline(asked: QualSet) -> str:
    """A second timeline that orders accesses on the first of these."""
    return _POST[next(timeline for timeline in SHORT_NAME if timeline in asked)]


def _by_completion(name: str) -> bool:
    return name in BY_COMMIT_GROUP or name == BY_COPY


def completion(first: str, second: str, record: Record, program: Program | None) -> str:
    """How threads wait for an asynchronous access: its commit group, or the barrier it signals."""
    if first in BY_COMMIT_GROUP:
        group = _group(record, program)
        return f"Arrive({first}) >> {group} and Await({group}, {second}, 0)"
    if record.trailing is not None:
        home = record.trailing.home
        z = home.name.name + ("[...]" if home.coords else "")
        return f"let an Await({z}, {second}, ~m) wait for the arrival that the copy signals"
    return f"Await(z, {second}, ~0), for an mbarrier z that the copy signals (>> z)"


def _group(record: Record, program: Program | None) -> str:
    """The commit group that the kernel has for such accesses, else a name for a new one."""
    if program is not None:
        groups = {
            v.name: v for v in program.variables if v.mechanism is BarrierMechanism.COMMIT_GROUP
        }
        for op in ops_of(program.body):
            if isinstance(op, Arrive) and op.home.name in groups and record.timeline in op.pre:
                return op.home.name.name + ("[...]" if op.home.coords else "")
    return "cg"


def general_repair(violation: Violation, program: Program | None) -> str:
    """What would order the two accesses if nothing stood between them."""
    check, record = violation.check, violation.record
    assert isinstance(check, Check) and isinstance(record, Record)
    if record.timeline is None:
        return (
            f"before {violation.variable} ends, let an Await on it wait for the arrival that this "
            "instruction signals"
        )
    if (
        violation.task is not None
        and violation.record_task is not None
        and violation.record_task != violation.task
    ):
        return "tasks of one kernel are never ordered: write different elements, or reduce"
    first, second = _PRE[record.timeline], second_timeline(check.timelines)
    if record.timeline in ASYNC_PROXY and check.level is Level.TEMPORALLY_ORDERED:
        second = "cuda_in_order"
    if _by_completion(first):
        return f"between them, {completion(first, second, record, program)}"
    if check.free:
        fence = f"Fence({first}, {second}) by all threads of its scope"
        return f"before {violation.variable} ends, {fence}"
    return f"between them, Fence({first}, {second}) where the threads of both take part"
