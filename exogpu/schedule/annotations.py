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
    Proc,
    Seq,
    Stmt,
)
from exogpu.ir.types import CollUnit, DataMemory
from exogpu.schedule.loops import loop_at
from exogpu.schedule.primitive import Unfit, annotation, path_of, primitive
from exogpu.schedule.rewrite import Path, Rewrite, begun, splice, stmt_at


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
            raise Unfit(f'{mode!r} is neither "seq", "tasks" nor a unit', old, "give one of these")
    yield _with(proc, path, old, replace(old, mode=new))


@annotation
def update_loop_mode(proc: Proc, loop: object, unit: CollUnit) -> Iterator[Rewrite]:
    """Let a loop over threads run over other ones.

    for i in cuda_threads(0, 2, unit=cuda_warp):
    ->
    for i in cuda_threads(0, 2, unit=2 * cuda_warp):
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    if not isinstance(old.mode, CudaThreads):
        raise Unfit("the loop runs over no threads", old, "use `set_loop_mode`")
    if not isinstance(unit, CollUnit):
        raise Unfit(f"{unit!r} is no unit", old)
    yield _with(proc, path, old, replace(old, mode=CudaThreads(unit)))


@primitive
def parallelize_loop(proc: Proc, loop: object, unit: CollUnit) -> Iterator[Rewrite]:
    """Let a loop run over threads; the same as `set_loop_mode` with a unit.

    for i in seq(0, 64):    ->    for i in cuda_threads(0, 64, unit=cuda_thread):
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    yield _with(proc, path, old, replace(old, mode=CudaThreads(unit)))


def _with(proc: Proc, path: Path, old: Stmt, new: Stmt) -> Rewrite:
    edit = begun(proc)
    edit.followed[new] = old
    splice(edit, path, 1, (new,))
    return edit
