"""Finds the Arrives with accesses to publish to other CTAs: a release at cluster scope is dear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, assert_never

from exogpu.analysis.executors import CollectiveFacts
from exogpu.codegen.row import Scope
from exogpu.codegen.storage import Storage
from exogpu.codegen.sync import full, scope_of
from exogpu.codegen.tasks import resident
from exogpu.hw.timelines import ASYNC_PROXY, ONLY_BEFORE
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Arrive,
    Assign,
    Await,
    BarrierAlloc,
    Block,
    CallInstr,
    CallProc,
    CudaTasks,
    DeviceFunction,
    Fence,
    For,
    Free,
    If,
    Pass,
    Reduce,
    Stmt,
    Uninit,
    Warps,
    WindowStmt,
)
from exogpu.ir.types import QualSet, QualTL, Space
from exogpu.ir.walk import accesses, passed

_Dirty: TypeAlias = frozenset[tuple[Sym, QualTL | None]]
"""The memory that was accessed thus, and on which timeline."""

_CLEAN: Final[_Dirty] = frozenset()

_UNDER_WAY: Final[QualSet] = frozenset({QualTL.SM80, QualTL.TMA_G})
"""Timelines of accesses that may be performed after a Fence that comes later and does not wait for
them: a thread that does then knows of them, and the cluster does not."""


def unwritten(
    launch: DeviceFunction, facts: CollectiveFacts, storage: Mapping[Sym, Storage]
) -> frozenset[Arrive]:
    """The Arrives before which no thread of the cluster has accessed memory through the generic
    proxy, or written it by a bulk store, or waited for launches that may have, in its task, since a
    Fence of the whole cluster that has waited for it, too; or what resides from task to task, in an
    earlier one.

    Such an Arrive publishes nothing.  It orders reads of the async proxy that a thread has waited
    for, and they are over for all CTAs: a release at CTA scope will do.  An ordinary load that is
    issued may still be on its way when a relaxed arrival reaches another CTA.
    """
    found: dict[Arrive, bool] = {}
    resides = {stmt.name for stmt in resident(launch)}
    everywhere = (name for name, one in storage.items() if one.space is Space.GLOBAL)
    before = frozenset((name, QualTL.CUDA2) for name in everywhere)

    def after(block: Block, dirty: _Dirty) -> _Dirty:
        for stmt in block:
            dirty = one(stmt, dirty)
        return dirty

    def residing(dirty: _Dirty) -> _Dirty:
        return frozenset(access for access in dirty if access[0] in resides)

    def one(stmt: Stmt, dirty: _Dirty) -> _Dirty:
        match stmt:
            case For(mode=CudaTasks()):
                # Nothing orders two tasks: none has writes of another one to publish, but to what
                # resides.  Once more from what the body leaves behind there.
                begun = residing(dirty)
                left = residing(after(stmt.body, begun))
                return left if left == begun else residing(after(stmt.body, left))
            case For():
                # Once more from what the body leaves behind, where that is more: the second pass is
                # the fixed point.
                left = after(stmt.body, dirty) | dirty
                return left if left == dirty else after(stmt.body, left) | dirty
            case If():
                return after(stmt.body, dirty) | after(stmt.orelse, dirty)
            case Warps():
                return after(stmt.body, dirty) | dirty
            case Fence(launches=True):
                # What the launches before have done is told to those that did not wait for them.
                return dirty | before
            case Fence():
                tiling = facts.scope[stmt]
                whole = (
                    tiling is not None
                    and stmt.pre.name not in ONLY_BEFORE  # which joins no threads
                    and scope_of(tiling) is Scope.CLUSTER
                    and tiling.threads == launch.cluster_dim * launch.block_dim
                )
                late = _UNDER_WAY - full(stmt.pre)
                return frozenset(a for a in dirty if a[1] in late) if whole else dirty
            case Arrive():
                found[stmt] = found.get(stmt, False) or bool(dirty)
                return dirty
            case Assign() | Reduce():
                touched = (a.name for a in accesses(stmt) if _in_memory(a, storage))
                return dirty | {(name, QualTL.CUDA2) for name in touched}
            case CallInstr():
                return dirty | _published(stmt, storage)
            case Await() | Alloc() | BarrierAlloc() | Free() | Uninit() | Pass():
                return dirty
            case DeviceFunction() | CallProc() | WindowStmt():
                raise AssertionError(f"{stmt} does not stand in a kernel")
            case _:
                assert_never(stmt)

    after(launch.body, _CLEAN)
    return frozenset(stmt for stmt, dirty in found.items() if not dirty)


def _in_memory(access: Access, storage: Mapping[Sym, Storage]) -> bool:
    return storage[access.name].space is not Space.REGISTER


def _published(call: CallInstr, storage: Mapping[Sym, Storage]) -> _Dirty:
    """The memory that the call accesses through the generic proxy, or writes by a bulk copy whose
    completion a thread waits for."""
    return frozenset(
        (operand.access.name, operand.timeline)
        for operand in passed(call)
        if _in_memory(operand.access, storage)
        and (
            operand.timeline not in ASYNC_PROXY
            or (operand.timeline is QualTL.TMA_G and operand.written)
        )
    )
