"""Features of an architecture: its instructions, and shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from exogpu.codegen.control_text import SIZE_OF
from exogpu.codegen.kernel_text import Kernel, Source
from exogpu.codegen.names import unsupported
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, Span
from exogpu.diagnostics.verdict import Policy
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, QualSet, QualTL, Space, SyncTL
from exogpu.ir.walk import walk

SHARED_BYTES: Final[Mapping[str, int]] = {
    "sm_80": 163 * 1024,
    "sm_86": 99 * 1024,
    "sm_87": 163 * 1024,
    "sm_89": 99 * 1024,
    "sm_90a": 227 * 1024,
}
"""Shared memory that one CTA can have, of each architecture that kernels are compiled for (CUDA
Programming Guide, Technical Specifications per Compute Capability)."""

SM90: Final = "sm_90a"

SM90_MECHANISMS: Final = frozenset({BarrierMechanism.MBARRIER, BarrierMechanism.CLUSTER_SYNC})
"""Mbarriers exist on sm_80, but not mbarrier.try_wait, by which an Await waits (PTX ISA)."""

SM90_TIMELINES: Final[QualSet] = frozenset(
    {
        QualTL.TMA_S,
        QualTL.TMA_G,
        QualTL.TMA_R,
        QualTL.WG_A,
        QualTL.WG_D,
        QualTL.WG_S,
        QualTL.WG_0,
    }
)
"""The timelines of TMA and wgmma: mechanisms that synchronise their accesses exist where they
do."""


def check_arch(arch: str) -> None:
    """Raises ExoGpuError (X963) for an architecture that kernels are not compiled for."""
    if arch not in SHARED_BYTES:
        *others, last = SHARED_BYTES
        remedy = f"choose {', '.join(others)} or {last}"
        raise ExoGpuError(
            [Diagnostic("X963", f"there is no architecture {arch} here", NOWHERE, remedy)]
        )


def check_features(proc: ir.Proc, arch: str) -> None:
    """Raises ExoGpuError (G810) with all that a procedure uses and an architecture lacks.

    Each feature is told at the first place that uses it.
    """
    found: dict[str, Diagnostic] = {}
    for stmt in walk(proc.body):
        for what, needed in _needs(stmt):
            if needed != arch and what not in found:
                found[what] = Diagnostic(
                    "G810",
                    f"{what} needs {needed}, and the target is {arch}",
                    stmt.span,
                    f"compile for {needed} (--arch {needed}), or use what {arch} has",
                )
    if found:
        raise ExoGpuError(found.values())


def _needs(stmt: ir.Stmt) -> Iterator[tuple[str, str]]:
    """Yields the parts of a statement that only some architecture has, with that architecture."""
    match stmt:
        case ir.CallInstr() if stmt.instr.arch:
            yield stmt.instr.name, stmt.instr.arch
        case ir.DeviceFunction():
            if stmt.cluster_dim > 1:
                yield "a cluster of more than one CTA", SM90
            if stmt.dependent:
                yield "a dependent launch", SM90
            if any(g.setmaxnreg_dec or g.setmaxnreg_inc for g in stmt.warps):
                yield "setmaxnreg", SM90
        case ir.BarrierAlloc() if stmt.mechanism in SM90_MECHANISMS:
            yield stmt.mechanism.value, SM90
        case ir.Fence(launches=False):
            yield from _timelines(stmt.pre, stmt.post)
        case ir.Arrive() | ir.Await():
            yield from _timelines(stmt.timeline)
        case _:
            pass


def _timelines(*timelines: SyncTL) -> Iterator[tuple[str, str]]:
    for timeline in timelines:
        if timeline.sets_under(Policy.PTX).full & SM90_TIMELINES:
            yield timeline.name, SM90


def check_shared(made: Kernel, launch: ir.DeviceFunction, source: Source, arch: str) -> None:
    """Raises ExoGpuError (G809) where a CTA of a kernel has more shared memory than there is."""
    limit = SHARED_BYTES[arch]
    if made.shared_bytes <= limit:
        return
    largest = sorted(_shared_variables(launch, source), key=lambda v: -v[1])[:3]
    names = ", ".join(f"{name} {size}" for name, size, _ in largest)
    raise unsupported(
        f"{made.text.name} takes {made.shared_bytes} bytes of shared memory a CTA, and {arch} has "
        f"{limit}; the largest variables, in bytes: {names}",
        largest[0][2],
        "make tiles smaller or rings shallower, or free a variable before the next is allocated",
        "G809",
    )


def _shared_variables(launch: ir.DeviceFunction, source: Source) -> Iterator[tuple[str, int, Span]]:
    """Name, bytes and declaration of what lies in shared memory, in source order."""
    for stmt in walk(launch.body):
        match stmt:
            case ir.Alloc() if stmt.memory.space is Space.SHARED:
                variable = source.storage[stmt.name]
                yield stmt.name.name, variable.elements * SIZE_OF[variable.dtype], stmt.span
            case ir.BarrierAlloc() if stmt.name in source.rings:
                yield stmt.name.name, source.rings[stmt.name].bytes, stmt.span
            case _:
                pass
