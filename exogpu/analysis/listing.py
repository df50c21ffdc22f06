"""Lists the threads that execute each scope, as data for `exogpu threads`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exogpu.analysis.describe import executors
from exogpu.analysis.executors import CollectiveFacts
from exogpu.analysis.tiling import Tiling
from exogpu.ir.isltext import readable
from exogpu.ir.nodes import Block, CudaTasks, CudaThreads, DeviceFunction, For, Proc, Warps
from exogpu.ir.show import show
from exogpu.ir.walk import blocks
from exogpu.result.errors import Span
from exogpu.solvers import isl


@dataclass(frozen=True, slots=True)
class ScopeLine:
    """One scope of a kernel: what opens it, who executes it in words, and the ISL relation."""

    depth: int
    span: Span
    opens: str
    """`for w in cuda_threads(0, 4, unit=cuda_warp)`"""
    executors: str
    relation: str
    """`{ [cta, w] -> [t] : ... }` from thread iterators to natural thread indices."""


def listing(proc: Proc, facts: CollectiveFacts) -> tuple[ScopeLine, ...]:
    """The scopes of all kernels of a procedure that change who executes, in program order."""
    return tuple(_block(proc.body, facts, 0))


def relation_text(tiling: Tiling) -> str:
    """The tiling's exact ISL relation with the source's names."""
    return readable(isl.text(tiling.isl_map()), [r.iterator for r in tiling.ranges])


def _block(block: Block, facts: CollectiveFacts, depth: int) -> Iterator[ScopeLine]:
    for stmt in block:
        deeper = depth
        if isinstance(stmt, For | Warps | DeviceFunction) and stmt in facts.inner:
            tiling = facts.inner[stmt]
            who = executors(tiling)
            yield ScopeLine(depth, stmt.span, _opens(stmt), who, relation_text(tiling))
            deeper = depth + 1
        for inside in blocks(stmt):
            yield from _block(inside, facts, deeper)


def _opens(stmt: For | Warps | DeviceFunction) -> str:
    match stmt:
        case DeviceFunction():
            return f"CudaDeviceFunction(clusterDim={stmt.cluster_dim}, blockDim={stmt.block_dim})"
        case Warps():
            name = f', name="{stmt.group}"' if stmt.group else ""
            return f"CudaWarps({stmt.lo}, {stmt.hi}{name})"
        case For():
            bounds = f"{show(stmt.lo)}, {show(stmt.hi)}"
            match stmt.mode:
                case CudaThreads(unit):
                    call = f"cuda_threads({bounds}, unit={unit.name})"
                case CudaTasks():
                    call = f"cuda_tasks({bounds})"
                case _:
                    call = f"seq({bounds})"
            return f"for {stmt.iterator} in {call}"
