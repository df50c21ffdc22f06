"""Which rows of the lowering table a synchronisation statement needs, and their text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from exogpu.analysis.mechanisms import GroupKind
from exogpu.analysis.tiling import Tiling, block_axes, cluster_axes
from exogpu.codegen.rows import ROWS, Scope
from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.ir.nodes import Int
from exogpu.ir.types import Policy, QualSet, QualTL, SyncTL

GENERIC: Final[QualSet] = frozenset({QualTL.CUDA1, QualTL.CUDA2, QualTL.SM80})
"""Timelines whose memory accesses go through the generic proxy."""


def emit(key: str, **fields: int | str) -> list[str]:
    """The lines of a row, its fields filled in."""
    text = ROWS[key].text
    for name, value in fields.items():
        text = text.replace("{" + name + "}", str(value))
    return text.split("\n") if text else []


def scope_of(tiling: Tiling) -> Scope:
    """The threads of a scope, by the cheapest barrier that joins them."""
    if any(axis.extent > 1 for axis in cluster_axes(tiling)):
        return Scope.CLUSTER
    inside = block_axes(tiling)
    threads = 1
    for axis in inside:
        threads *= axis.extent
    if threads == 1:
        return Scope.THREAD
    if threads == tiling.block_dim:
        return Scope.CTA
    last = inside[-1]
    if threads < 32 or (threads == 32 and (last.pitch != 1 or last.extent != 32)):
        return Scope.LANES
    return Scope.WARP if threads == 32 else Scope.WARPS


def drain_rows(pre: SyncTL) -> list[str]:
    """The rows that complete a pre side's asynchronous operations."""
    before = pre.under(Policy.PTX).full
    rows = []
    if QualTL.SM80 in before:
        rows.append("drain cp.async")
    if QualTL.TMA_G in before:
        rows.append("drain bulk")
    if before & {QualTL.WG_A, QualTL.WG_D, QualTL.WG_S}:
        rows.append("drain wgmma")
    return rows


def waits_for_loads(timeline: SyncTL) -> bool:
    """Whether a pre side is full in tmaS: no instruction waits for all TMA loads of a thread."""
    return QualTL.TMA_S in timeline.under(Policy.PTX).full


def fence_rows(pre: SyncTL, post: SyncTL, scope: Scope, *, by_role: bool) -> list[str]:
    """The rows that a Fence emits, in order.

    Draining and the proxy fence come first: the threads that made the accesses execute them,
    then the barrier joins those threads with the ones that come after.
    """
    before, after = pre.under(Policy.PTX).full, post.under(Policy.PTX).full
    if pre.name == "wgmma_fence_1":
        return ["wgmma fence"]
    rows = drain_rows(pre)
    if before & GENERIC and after & ASYNC_PROXY:
        rows.append("proxy fence")
    match scope:
        case Scope.THREAD:
            rows.append("fence thread")
        case Scope.WARP:
            rows.append("fence warp")
        case Scope.LANES:
            rows.append("fence lanes")
        case Scope.WARPS:
            rows.append("fence warps")
        case Scope.CTA:
            rows.append("fence cta by role" if by_role else "fence cta")
        case Scope.CLUSTER:
            rows.append("fence cluster")
    return rows


GROUP_ROWS: Final[Mapping[GroupKind, str]] = {
    GroupKind.CP_ASYNC: "cp.async",
    GroupKind.BULK: "bulk",
    GroupKind.WGMMA: "wgmma",
}
"""The last word of the rows of a commit group."""


def first_warp(tiling: Tiling) -> int | None:
    """The first warp of a scope of contiguous whole warps that no loop chooses; else None."""
    axes = block_axes(tiling)
    if len(axes) == 1 and axes[0].pitch == 1 and isinstance(axes[0].offset, Int):
        return axes[0].offset.value // 32
    return None
