"""Primitives that change annotations: the sequential meaning does not know them.

Whether the parallel program does what its sequential reading does is what `p.check()` proves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.ir.nodes import (
    Alloc,
    CudaTasks,
    CudaThreads,
    DataParam,
    DeviceFunction,
    Fence,
    Proc,
    Seq,
    Stmt,
    WarpConfig,
)
from exogpu.ir.types import CollUnit, DataMemory, SyncTL
from exogpu.schedule.loops import loop_at
from exogpu.schedule.primitive import Unfit, gap_of, path_of, primitive
from exogpu.schedule.rewrite import Path, Rewrite, begun, block_at, splice, stmt_at


@primitive
def set_memory(proc: Proc, alloc: object, memory: DataMemory) -> Iterator[Rewrite]:
    """Keep a variable in another memory: an allocation, or a parameter by its name.

    t: f32[4] @ DRAM    ->    t: f32[4] @ CudaSmemLinear
    """
    if not isinstance(memory, DataMemory) or memory.abstract:
        raise Unfit(f"{memory} is no memory of variables")
    at = [n for n, p in enumerate(proc.params) if p.name.name == alloc]
    if at and isinstance(param := proc.params[at[0]], DataParam):
        edit = begun(proc)
        params = list(proc.params)
        params[at[0]] = replace(param, memory=memory)
        edit.new = replace(proc, params=tuple(params))
        yield edit
        return
    path = path_of(proc, alloc)
    old = stmt_at(proc, path)
    if not isinstance(old, Alloc):
        raise Unfit("the cursor is at no allocation", old)
    yield _with(proc, path, old, replace(old, memory=memory))


@primitive
def set_loop_mode(proc: Proc, loop: object, mode: str | CollUnit) -> Iterator[Rewrite]:
    """Let a loop run in order ("seq"), over tasks ("tasks"), or over threads (a unit).

    for i in seq(0, 64):    ->    for i in cuda_threads(0, 64, unit=cuda_thread):
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    match mode:
        case "seq":
            new: Seq | CudaTasks | CudaThreads = Seq()
        case "tasks":
            new = CudaTasks()
        case CollUnit():
            new = CudaThreads(mode)
        case _:
            raise Unfit(f'{mode!r} is neither "seq", "tasks" nor a unit', old)
    yield _with(proc, path, old, replace(old, mode=new))


@primitive
def parallelize_loop(proc: Proc, loop: object, unit: CollUnit) -> Iterator[Rewrite]:
    """Let a loop run over threads; the same as `set_loop_mode` with a unit.

    for i in seq(0, 64):    ->    for i in cuda_threads(0, 64, unit=cuda_thread):
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    yield _with(proc, path, old, replace(old, mode=CudaThreads(unit)))


@primitive
def wrap_kernel(
    proc: Proc,
    stmt: object,
    threads: int,
    count: int = 1,
    cluster: int = 1,
) -> Iterator[Rewrite]:
    """Launch statements as one kernel.

    for m in cuda_tasks(0, M):          with CudaDeviceFunction(clusterDim=1, blockDim=64):
        ...                       ->        for m in cuda_tasks(0, M):
                                                ...
    """
    path = path_of(proc, stmt)
    at = path[-1][1]
    body = block_at(proc, path)[at : at + count]
    if count < 1 or len(body) < count:
        raise Unfit(f"there are no {count} statements")
    if threads < 32 or threads % 32:
        raise Unfit(f"{threads} threads are no whole warps", body[0])
    warps = (WarpConfig("", threads // 32),)
    edit = begun(proc)
    new = DeviceFunction(cluster, warps, body, span=body[0].span)
    splice(edit, path, count, (new,))
    yield edit


@primitive
def insert_fence(proc: Proc, gap: object, pre: SyncTL, post: SyncTL) -> Iterator[Rewrite]:
    """Put a Fence at a place.

    t[i] = x[i]              t[i] = x[i]
    y[i] = t[3 - i]    ->    Fence(cuda_in_order, cuda_in_order)
                             y[i] = t[3 - i]
    """
    path, offset = gap_of(gap)
    beside = stmt_at(proc, path)
    edit = begun(proc)
    here = (*path[:-1], (path[-1][0], path[-1][1] + offset))
    splice(edit, here, 0, (Fence(pre, post, span=beside.span),))
    yield edit


def _with(proc: Proc, path: Path, old: Stmt, new: Stmt) -> Rewrite:
    edit = begun(proc)
    edit.followed[new] = old
    splice(edit, path, 1, (new,))
    return edit
