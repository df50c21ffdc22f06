"""Launches that begin before the one before them has ended (programmatic dependent launch).

`with CudaDeviceFunction(..., dependent=True)` stands right after another launch.  Its threads may
run while that one still does, and wait for it at a `Fence(cuda_stream_sync, ...)`; without one they
wait first in every task (decision `dependent-launch`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.nodes import (
    Block,
    CudaTasks,
    DeviceFunction,
    Fence,
    For,
    Free,
    Pass,
    Proc,
    Stmt,
    Uninit,
)
from exogpu.ir.walk import blocks, map_blocks, walk
from exogpu.result.errors import Diagnostic


def with_waits(proc: Proc) -> Proc:
    """The procedure with a wait first in each task of a dependent launch that has none."""
    body = _with_waits(proc.body)
    return proc if body is proc.body else replace(proc, body=body)


def _with_waits(block: Block) -> Block:
    found = tuple(_waiting(stmt) for stmt in block)
    return found if any(a is not b for a, b in zip(found, block, strict=True)) else block


def _waiting(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, DeviceFunction):
        return map_blocks(stmt, _with_waits)
    if not stmt.dependent or any(True for _ in waits(stmt)):
        return stmt
    stream = SYNC_TIMELINES["cuda_stream_sync"]

    def in_tasks(block: Block) -> Block:
        if any(_is_tasks(inner) for inner in block):
            return tuple(map_blocks(s, in_tasks) if _is_tasks(s) else s for s in block)
        return (Fence(stream, stream, launches=True, span=stmt.span), *block)

    return replace(stmt, body=in_tasks(stmt.body))


def _is_tasks(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.mode == CudaTasks()


def waits(launch: DeviceFunction) -> Iterator[Fence]:
    """The statements of a launch that wait for those before it."""
    return (s for s in walk(launch.body) if isinstance(s, Fence) and s.launches)


def preceding(proc: Proc) -> Mapping[DeviceFunction, DeviceFunction]:
    """By dependent launch, the one right before it."""
    found: dict[DeviceFunction, DeviceFunction] = {}

    def look(block: Block) -> None:
        before: DeviceFunction | None = None
        for stmt in block:
            match stmt:
                case DeviceFunction():
                    if stmt.dependent and before is not None:
                        found[stmt] = before
                    before = stmt
                case Pass() | Uninit() | Free():
                    pass
                case _:
                    before = None
                    for inner in blocks(stmt):
                        look(inner)

    look(proc.body)
    return found


def check(proc: Proc) -> Iterator[Diagnostic]:
    """A dependent launch stands right after a launch."""
    known = preceding(proc)
    for stmt in walk(proc.body):
        if isinstance(stmt, DeviceFunction) and stmt.dependent and stmt not in known:
            yield Diagnostic(
                "C418",
                "a dependent launch does not stand right after another launch",
                stmt.span,
                "move what stands between them before both, or leave out dependent=True",
            )
