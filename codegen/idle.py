"""Fences that join one thread and are no instruction: a habit of CUDA, where a thread is a program.

for t in cuda_threads(0, 128, unit=cuda_thread):
    s[t] = x[t]
    Fence(cuda_in_order, cuda_in_order)    # by thread t alone: nobody waits for the others
    y[t] = s[127 - t]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from exogpu.analysis.facts import Facts
from exogpu.codegen import sync
from exogpu.codegen.row import Scope
from exogpu.codegen.rows import ROWS
from exogpu.ir.nodes import (
    Assign,
    Block,
    CallInstr,
    CudaThreads,
    DataParam,
    DeviceFunction,
    Fence,
    For,
    Reduce,
    Stmt,
)
from exogpu.ir.types import QualTL
from exogpu.ir.walk import blocks, walk
from exogpu.result.errors import Diagnostic, Note

_ORDINARY: Final = frozenset({QualTL.CUDA1, QualTL.CUDA2})


@dataclass(frozen=True, slots=True)
class _Around:
    """What is around a statement."""

    loop: For | None = None
    """The innermost loop over threads."""
    copies: bool = False
    """Whether the launch has asynchronous instructions."""


def idle_fences(facts: Facts) -> tuple[Diagnostic, ...]:
    """Warnings of the Fences in loops over single threads for which nothing is emitted.

    A Fence by one thread that waits for its copies, or fences proxies, is an instruction.  One
    that is none may still stand between what a thread accesses itself and what it then lets an
    asynchronous instruction access.
    """
    return tuple(dict.fromkeys(_idle(facts, facts.proc.body, _Around())))


def _idle(facts: Facts, block: Block, around: _Around) -> Iterator[Diagnostic]:
    for stmt in block:
        if isinstance(stmt, Fence) and around.loop is not None and _is_idle(facts, stmt):
            if not around.copies or _is_between(stmt, around.loop):
                yield _warning(stmt, around.loop)
            continue
        inner = around
        if isinstance(stmt, For) and isinstance(stmt.mode, CudaThreads):
            inner = replace(around, loop=stmt)
        if isinstance(stmt, DeviceFunction):
            inner = _Around(copies=any(map(_is_asynchronous, walk(stmt.body))))
        for inside in blocks(stmt):
            yield from _idle(facts, inside, inner)


def _is_idle(facts: Facts, fence: Fence) -> bool:
    """Whether one thread executes it, and its rows have no text."""
    tiling = facts.collective.scope.get(fence)
    if tiling is None or fence.launches or sync.scope_of(tiling) is not Scope.THREAD:
        return False
    if sync.unkept(fence.pre, fence.post) is not None:
        return False
    rows = sync.fence_rows(fence.pre, fence.post, Scope.THREAD, by_role=False)
    return not any(ROWS[row].text for row in rows)


def _is_between(fence: Fence, loop: For) -> bool:
    """Whether ordinary accesses of the loop stand before the Fence and after it, and nothing
    asynchronous comes after it."""
    stmts = list(walk(loop.body))
    at = next(number for number, stmt in enumerate(stmts) if stmt is fence)
    before, after = stmts[:at], stmts[at + 1 :]
    ordinary = any(map(_is_ordinary, before)) and any(map(_is_ordinary, after))
    return ordinary and not any(map(_is_asynchronous, after))


def _is_ordinary(stmt: Stmt) -> bool:
    return isinstance(stmt, Assign | Reduce) or (
        isinstance(stmt, CallInstr) and not _is_asynchronous(stmt)
    )


def _is_asynchronous(stmt: Stmt) -> bool:
    """Whether it is an instruction whose accesses are on other timelines than ordinary ones."""
    if not isinstance(stmt, CallInstr):
        return False
    operands = (p.operand for p in stmt.instr.params if isinstance(p, DataParam))
    return any(one is not None and one.initial not in _ORDINARY for one in operands)


def _warning(fence: Fence, loop: For) -> Diagnostic:
    return Diagnostic(
        "C419",
        "this Fence joins one thread: end the loop before it",
        fence.span,
        "all threads meet at a Fence outside of the loop, and go on in another one",
        (Note("each iteration is of one thread: nothing is emitted", loop.span),),
    )
