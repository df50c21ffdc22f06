"""Chooses the rows of the lowering table for a synchronisation statement, and makes their text.

`exogpu.codegen.claims` checks that they keep all that the abstract machine takes for granted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exogpu.analysis.mechanisms import GroupKind
from exogpu.analysis.tiling import Tiling, block_axes, cluster_axes
from exogpu.codegen.row import Scope
from exogpu.codegen.rows import ROWS
from exogpu.hw.timelines import ASYNC_PROXY, ONLY_BEFORE
from exogpu.ir.types import Policy, QualSet, QualTL, SyncTL

GENERIC: Final[QualSet] = frozenset({QualTL.CUDA1, QualTL.CUDA2, QualTL.SM80})
"""Timelines whose memory accesses go through the generic proxy."""

MULTIPLIED: Final[QualSet] = frozenset({QualTL.WG_A, QualTL.WG_D})
"""Timelines of wgmma's registers."""


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


# --- what no row keeps ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unkept:
    """A promise of a first timeline that no sequence of instructions keeps, and a remedy."""

    what: str
    help: str


def unkept(first: SyncTL, second: SyncTL | None) -> Unkept | None:
    """Returns the reason why a Fence from `first` to `second`, or an Arrive if that is None, has no
    lowering."""
    if QualTL.TMA_S in full(first):
        return Unkept(
            f"first timeline, {first.name}, waits for TMA loads",
            "let the loads signal an mbarrier and Await it: no instruction waits for them all",
        )
    only = ONLY_BEFORE.get(first.name)
    if only is not None and (second is None or second.name != only):
        return Unkept(
            f"first timeline, {first.name}, orders without completing: it is a wgmma.fence",
            f"wait for the products first, with wgmma_async in the place of {first.name}; "
            f"{first.name} stands before {only} alone",
        )
    return None


def full(timeline: SyncTL) -> QualSet:
    """The timelines that a sync timeline is full in."""
    return timeline.under(Policy.PTX).full


# --- rows -----------------------------------------------------------------------------------


def drain_rows(pre: SyncTL) -> list[str]:
    """The rows that complete a pre side's asynchronous operations."""
    before = full(pre)
    rows = []
    if QualTL.SM80 in before:
        rows.append("drain cp.async")
    if QualTL.TMA_G in before:
        rows.append("drain bulk")
    elif QualTL.TMA_R in before:
        rows.append("drain bulk, sources")
    if before & {QualTL.WG_A, QualTL.WG_D, QualTL.WG_S}:
        rows.append("drain wgmma")
    return rows


def fence_rows(pre: SyncTL, post: SyncTL, scope: Scope, *, by_role: bool) -> list[str]:
    """The rows that a Fence emits, in order.

    Draining and the proxy fence come first: the threads that made the accesses execute them,
    then the barrier joins those threads with the ones that come after.  A wgmma fence concerns
    each thread's own registers.
    """
    if pre.name in ONLY_BEFORE:
        return ["wgmma fence"]
    rows = drain_rows(pre)
    if full(pre) & GENERIC and full(post) & ASYNC_PROXY:
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
    if fences_registers(full(pre), post):
        rows.append("wgmma fence")
    return rows


def launch_row(post: SyncTL, *, tma: bool = True) -> str:
    """The row that waits for the launch before, in a kernel with or without TMA."""
    return "await launch, for TMA" if tma and full(post) & ASYNC_PROXY else "await launch"


def after_await(before: QualSet, post: SyncTL) -> list[str]:
    """The rows that follow the wait of an Await, whose Arrives are full in `before`."""
    rows = []
    if before & GENERIC and full(post) & ASYNC_PROXY:
        rows.append("proxy fence")
    if fences_registers(before, post):
        rows.append("wgmma fence")
    return rows


def fences_registers(before: QualSet, post: SyncTL) -> bool:
    """Tests whether wgmma may use registers next that ordinary code has used."""
    return QualTL.CUDA1 in before and bool(full(post) & MULTIPLIED)


def group_rows(kind: GroupKind, before: QualSet) -> tuple[str, str]:
    """The rows of an Arrive on a commit group, and of an Await; its Arrives are full in `before`.

    What is stored is not waited for where no Arrive asks for it.
    """
    sources = kind is GroupKind.BULK and QualTL.TMA_G not in before
    return f"arrive {kind.value}", f"await {kind.value}" + (", sources" if sources else "")


def told_rows(kind: GroupKind, scope: Scope) -> tuple[str, ...]:
    """The rows after the wait of a commit group, which belongs to a thread, a warp or a warpgroup.

    Each thread has waited for its own operations alone, and one lane has made those of a bulk copy;
    a warpgroup's are its own.
    """
    if kind is GroupKind.WGMMA:
        return ()
    return ("fence thread",) if scope is Scope.THREAD else ("fence warp",)
