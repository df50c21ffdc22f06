"""Chooses the rows of the lowering table for a synchronisation statement, and makes their text.

`exogpu.codegen.claims` checks that they keep all that the abstract machine takes for granted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from exogpu.analysis.thread_names import CollectiveFacts, GroupKind
from exogpu.analysis.tiling import Tiling, block_axes, cluster_axes
from exogpu.codegen.arrival_rows import Scope
from exogpu.codegen.lowering_rows import ROWS
from exogpu.codegen.mbarriers import Ring
from exogpu.codegen.storage import Storage
from exogpu.codegen.task_order import resident
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import ASYNC_PROXY, ONLY_BEFORE
from exogpu.ir import nodes as ir
from exogpu.ir.types import QualSet, QualTL, Space, Sym, SyncTL
from exogpu.ir.walk import accesses, walk, window_arguments

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
    return timeline.sets_under(Policy.PTX).full


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


# Finds the Arrives with accesses to publish to other CTAs: a release at cluster scope is dear.

_Dirty: TypeAlias = frozenset[tuple[Sym, QualTL | None]]
"""The memory that was accessed thus, and on which timeline."""

_CLEAN: Final[_Dirty] = frozenset()

_UNDER_WAY: Final[QualSet] = frozenset({QualTL.SM80, QualTL.TMA_G})
"""Timelines of accesses that may be performed after a Fence that comes later and does not wait for
them: a thread that does then knows of them, and the cluster does not."""


def arrivals_before_writes(
    launch: ir.DeviceFunction, facts: CollectiveFacts, storage: Mapping[Sym, Storage]
) -> frozenset[ir.Arrive]:
    """The Arrives before which no thread of the cluster has accessed memory through the generic
    proxy, or written it by a bulk store, or waited for launches that may have, in its task, since a
    Fence of the whole cluster that has waited for it, too; or what resides from task to task, in an
    earlier one.

    Such an Arrive publishes nothing.  It orders reads of the async proxy that a thread has waited
    for, and they are over for all CTAs: a release at CTA scope will do.  An ordinary load that is
    issued may still be on its way when a relaxed arrival reaches another CTA.
    """
    found: dict[ir.Arrive, bool] = {}
    resides = {stmt.name for stmt in resident(launch)}
    everywhere = (name for name, one in storage.items() if one.space is Space.GLOBAL)
    before = frozenset((name, QualTL.CUDA2) for name in everywhere)

    def after_block(block: ir.Block, dirty: _Dirty) -> _Dirty:
        for stmt in block:
            dirty = after_statement(stmt, dirty)
        return dirty

    def residing(dirty: _Dirty) -> _Dirty:
        return frozenset(access for access in dirty if access[0] in resides)

    def after_statement(stmt: ir.Stmt, dirty: _Dirty) -> _Dirty:
        match stmt:
            case ir.For(mode=ir.CudaTasks()):
                # Nothing orders two tasks: none has writes of another one to publish, but to what
                # resides.  Once more from what the body leaves behind there.
                begun = residing(dirty)
                left = residing(after_block(stmt.body, begun))
                return left if left == begun else residing(after_block(stmt.body, left))
            case ir.For():
                # Once more from what the body leaves behind, where that is more: the second pass is
                # the fixed point.
                left = after_block(stmt.body, dirty) | dirty
                return left if left == dirty else after_block(stmt.body, left) | dirty
            case ir.If():
                return after_block(stmt.body, dirty) | after_block(stmt.orelse, dirty)
            case ir.Warps():
                return after_block(stmt.body, dirty) | dirty
            case ir.Fence(launches=True):
                # What the launches before have done is told to those that did not wait for them.
                return dirty | before
            case ir.Fence():
                tiling = facts.scope[stmt]
                whole = (
                    tiling is not None
                    and stmt.pre.name not in ONLY_BEFORE  # which joins no threads
                    and scope_of(tiling) is Scope.CLUSTER
                    and tiling.threads == launch.cluster_dim * launch.block_dim
                )
                late = _UNDER_WAY - full(stmt.pre)
                return frozenset(a for a in dirty if a[1] in late) if whole else dirty
            case ir.Arrive():
                found[stmt] = found.get(stmt, False) or bool(dirty)
                return dirty
            case ir.Assign() | ir.Reduce():
                touched = (a.name for a in accesses(stmt) if _in_memory(a, storage))
                return dirty | {(name, QualTL.CUDA2) for name in touched}
            case ir.CallInstr():
                return dirty | _dirty_of_call(stmt, storage)
            case ir.Await() | ir.Alloc() | ir.BarrierAlloc() | ir.Free() | ir.Uninit() | ir.Pass():
                return dirty
            case ir.DeviceFunction() | ir.CallProc() | ir.WindowStmt():
                raise AssertionError(f"{stmt} does not stand in a kernel")
            case _:
                assert_never(stmt)

    after_block(launch.body, _CLEAN)
    return frozenset(stmt for stmt, dirty in found.items() if not dirty)


def _in_memory(access: ir.Access, storage: Mapping[Sym, Storage]) -> bool:
    return storage[access.name].space is not Space.REGISTER


def _dirty_of_call(call: ir.CallInstr, storage: Mapping[Sym, Storage]) -> _Dirty:
    """The memory that the call accesses through the generic proxy, or writes by a bulk copy whose
    completion a thread waits for."""
    return frozenset(
        (operand.access.name, operand.timeline)
        for operand in window_arguments(call)
        if _in_memory(operand.access, storage)
        and (
            operand.timeline not in ASYNC_PROXY
            or (operand.timeline is QualTL.TMA_G and operand.is_written)
        )
    )


# Arrives on TMA's own timeline that their mbarrier keeps: it counts the bytes of all the loads.
#
# No instruction waits for the TMA loads of a thread. Where every load of a kernel signals one
# mbarrier, by the bytes that land beside it, the phase of an Arrive on it completes when the
# loads before the Arrive have: those of earlier phases were awaited, one phase after the other,
# by the threads that await this one. Where several roles await the phases in turns, none has
# awaited all of them (`await-own-arrival`), and the Arrive has no lowering.


def phase_completing_arrivals(
    launch: ir.DeviceFunction, rings: Mapping[Sym, Ring]
) -> frozenset[ir.Arrive]:
    """The Arrives on TMA's timeline whose phase completes after all TMA loads that their threads
    started before.

    A multicast is none: its arrivals in other CTAs do not wait for the bytes in this one, and
    the bytes in other CTAs do not count here.
    """
    loads = tuple(_loads(launch))
    if any(load.trailing is None or load.instr.trailing_units for load in loads):
        return frozenset()
    signalled = {load.trailing.name for load in loads if load.trailing is not None}
    return frozenset(
        stmt
        for stmt in walk(launch.body)
        if isinstance(stmt, ir.Arrive)
        and QualTL.TMA_S in stmt.timeline.sets_under(Policy.PTX).full
        and (ring := rings.get(stmt.targets[0].name)) is not None
        and signalled <= {ring.name}
        and ring.elements == 1
        and not ring.roles.dims
        and not ring.awaits_shared
        and ring.skip == 0
        and ring.warps
        and all(mask == 1 << cta for cta, mask in enumerate(ring.targets[stmt]))
    )


def _loads(launch: ir.DeviceFunction) -> Iterator[ir.CallInstr]:
    """The calls that read or write on TMA's timeline of shared memory."""
    for stmt in walk(launch.body):
        if isinstance(stmt, ir.CallInstr) and any(
            isinstance(param, ir.DataParam)
            and param.operand is not None
            and param.operand.initial is QualTL.TMA_S
            for param in stmt.instr.params
        ):
            yield stmt
