"""Which Arrives have accesses to publish to other CTAs: a release at cluster scope is dear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from exogpu.analysis.executors import CollectiveFacts
from exogpu.codegen.rows import Scope
from exogpu.codegen.storage import Storage
from exogpu.codegen.sync import scope_of
from exogpu.codegen.tasks import resident
from exogpu.hw.timelines import ASYNC_PROXY
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
    Warps,
    WindowStmt,
)
from exogpu.ir.types import QualTL, Space
from exogpu.ir.walk import accesses, passed


def unwritten(
    launch: DeviceFunction, facts: CollectiveFacts, storage: Mapping[Sym, Storage]
) -> frozenset[Arrive]:
    """The Arrives before which no thread of the cluster has accessed memory through the generic
    proxy, or written it by a bulk store, in its task, since a Fence of the whole cluster; or in an
    earlier one, where memory resides from task to task.

    Such an Arrive publishes nothing.  It orders reads of the async proxy that a thread has waited
    for, and they are over for all CTAs: a release at CTA scope will do.  An ordinary load that is
    issued may still be on its way when a relaxed arrival reaches another CTA.
    """
    found: dict[Arrive, bool] = {}

    def after(block: Block, dirty: bool) -> bool:
        for stmt in block:
            dirty = one(stmt, dirty)
        return dirty

    def one(stmt: Stmt, dirty: bool) -> bool:
        match stmt:
            case For(mode=CudaTasks()) if not resident(launch):
                # Nothing orders two tasks: none has writes of another one to publish.
                after(stmt.body, dirty=False)
                return dirty
            case For():
                # Once more from what the body leaves behind: the second pass is the fixed point.
                return after(stmt.body, after(stmt.body, dirty) or dirty) or dirty
            case If():
                branches = [after(stmt.body, dirty), after(stmt.orelse, dirty)]
                return any(branches)
            case Warps():
                return after(stmt.body, dirty) or dirty
            case Fence():
                tiling = facts.scope[stmt]
                whole = (
                    tiling is not None
                    and scope_of(tiling) is Scope.CLUSTER
                    and tiling.threads == launch.cluster_dim * launch.block_dim
                )
                return dirty and not whole
            case Arrive():
                found[stmt] = found.get(stmt, False) or dirty
                return dirty
            case Assign() | Reduce():
                return dirty or any(_in_memory(a, storage) for a in accesses(stmt))
            case CallInstr():
                return dirty or _publishes(stmt, storage)
            case Await() | Alloc() | BarrierAlloc() | Free() | Pass():
                return dirty
            case DeviceFunction() | CallProc() | WindowStmt():
                raise AssertionError(f"{stmt} does not stand in a kernel")
            case _:
                assert_never(stmt)

    after(launch.body, dirty=False)
    return frozenset(stmt for stmt, dirty in found.items() if not dirty)


def _in_memory(access: Access, storage: Mapping[Sym, Storage]) -> bool:
    return storage[access.name].space is not Space.REGISTER


def _publishes(call: CallInstr, storage: Mapping[Sym, Storage]) -> bool:
    """Whether the call accesses memory through the generic proxy, or writes it by a bulk copy
    whose completion a thread waits for."""
    return any(
        operand.timeline not in ASYNC_PROXY
        or (operand.timeline is QualTL.TMA_G and operand.written)
        for operand in passed(call)
        if _in_memory(operand.access, storage)
    )
