"""Primitives that change annotations: the sequential meaning does not know them.

Whether the parallel program does what its sequential reading does is what `p.check()` proves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.ir import nodes as ir
from exogpu.ir.types import CollUnit, DataMemory
from exogpu.schedule.primitive import Unfit, annotation, path_of, primitive
from exogpu.schedule.primitives.loops import loop_at
from exogpu.schedule.rewrite import Path, Rewrite, splice, stmt_at, unchanged_rewrite


@primitive
def set_memory(proc: ir.Proc, alloc: object, memory: DataMemory) -> Iterator[Rewrite]:
    """Keep a variable in another memory: an allocation, or a parameter by its name.

    t: f32[4] @ DRAM    ->    t: f32[4] @ CudaSmemLinear
    """
    if not isinstance(memory, DataMemory) or memory.abstract:
        raise Unfit(f"{memory} is no memory of variables")
    at = [n for n, p in enumerate(proc.params) if p.name.name == alloc]
    if at and isinstance(param := proc.params[at[0]], ir.DataParam):
        edit = unchanged_rewrite(proc)
        params = list(proc.params)
        params[at[0]] = replace(param, memory=memory)
        edit.new = replace(proc, params=tuple(params))
        yield edit
        return
    path = path_of(proc, alloc)
    old = stmt_at(proc, path)
    if not isinstance(old, ir.Alloc):
        raise Unfit("the cursor is at no allocation", old)
    yield _replace_statement(proc, path, old, replace(old, memory=memory))


@primitive
def set_loop_mode(proc: ir.Proc, loop: object, mode: str | CollUnit) -> Iterator[Rewrite]:
    """Let a loop run in order ("seq"), over tasks ("tasks"), or over threads (a unit).

    for i in seq(0, 64):    ->    for i in cuda_threads(0, 64, unit=cuda_thread):
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    match mode:
        case "seq":
            new: ir.Seq | ir.CudaTasks | ir.CudaThreads = ir.Seq()
        case "tasks":
            new = ir.CudaTasks()
        case CollUnit():
            new = ir.CudaThreads(mode)
        case _:
            raise Unfit(f'{mode!r} is neither "seq", "tasks" nor a unit', old, "give one of these")
    yield _replace_statement(proc, path, old, replace(old, mode=new))


@annotation
def update_loop_mode(proc: ir.Proc, loop: object, unit: CollUnit) -> Iterator[Rewrite]:
    """Let a loop over threads run over other ones.

    for i in cuda_threads(0, 2, unit=cuda_warp):
    ->
    for i in cuda_threads(0, 2, unit=2 * cuda_warp):
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    if not isinstance(old.mode, ir.CudaThreads):
        raise Unfit("the loop runs over no threads", old, "use `set_loop_mode`")
    if not isinstance(unit, CollUnit):
        raise Unfit(f"{unit!r} is no unit", old)
    yield _replace_statement(proc, path, old, replace(old, mode=ir.CudaThreads(unit)))


@primitive
def parallelize_loop(proc: ir.Proc, loop: object, unit: CollUnit) -> Iterator[Rewrite]:
    """Let a loop run over threads; the same as `set_loop_mode` with a unit.

    for i in seq(0, 64):    ->    for i in cuda_threads(0, 64, unit=cuda_thread):
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    yield _replace_statement(proc, path, old, replace(old, mode=ir.CudaThreads(unit)))


def _replace_statement(proc: ir.Proc, path: Path, old: ir.Stmt, new: ir.Stmt) -> Rewrite:
    edit = unchanged_rewrite(proc)
    edit.followed[new] = old
    splice(edit, path, 1, (new,))
    return edit
