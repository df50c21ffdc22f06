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
from exogpu.codegen.arrival_rows import Scope
from exogpu.codegen.lowering_rows import ROWS
from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.ir import nodes as ir
from exogpu.ir.types import QualTL
from exogpu.ir.walk import blocks, walk

_ORDINARY: Final = frozenset({QualTL.CUDA1, QualTL.CUDA2})


@dataclass(frozen=True, slots=True)
class _Context:
    """The loops and the launch around a statement."""

    threads: ir.For | None = None
    """The innermost loop over threads."""
    repeated: ir.Block = ()
    """The outermost sequential loop of the task: what is in it comes again."""
    launch: ir.Block = ()
    """All of the launch."""


def idle_fences(facts: Facts) -> tuple[Diagnostic, ...]:
    """Warnings of the Fences in loops over single threads for which nothing is emitted.

    A Fence by one thread that waits for its copies, or fences proxies, is an instruction.  One
    that is none may still stand between what a thread accesses itself and what it then lets an
    asynchronous instruction access.
    """
    return tuple(dict.fromkeys(_idle(facts, facts.proc.body, _Context())))


def _idle(facts: Facts, block: ir.Block, around: _Context) -> Iterator[Diagnostic]:
    for stmt in block:
        if isinstance(stmt, ir.Fence) and around.threads is not None and _is_idle(facts, stmt):
            if not _orders_copies(stmt, around):
                yield _warning(stmt, around.threads)
            continue
        inner = around
        match stmt:
            case ir.DeviceFunction():
                inner = _Context(launch=stmt.body)
            case ir.For(mode=ir.CudaThreads()):
                inner = replace(around, threads=stmt)
            case ir.For(mode=ir.Seq()):
                inner = replace(around, repeated=around.repeated or stmt.body)
            case _:
                pass
        for inside in blocks(stmt):
            yield from _idle(facts, inside, inner)


def _is_idle(facts: Facts, fence: ir.Fence) -> bool:
    """Returns whether one thread executes the Fence, and its rows have no text."""
    tiling = facts.collective.scope.get(fence)
    if tiling is None or fence.launches or sync.scope_of(tiling) is not Scope.THREAD:
        return False
    if sync.unkept(fence.pre, fence.post) is not None:
        return False
    rows = sync.fence_rows(fence.pre, fence.post, Scope.THREAD, by_role=False)
    return not any(ROWS[row].text for row in rows)


def _orders_copies(fence: ir.Fence, around: _Context) -> bool:
    """Returns whether the Fence may order an asynchronous instruction of the launch: one comes
    after it, or no ordinary accesses of the loop over threads are before it and after it."""
    stmts = list(walk(around.launch))
    if not any(map(_is_asynchronous, stmts)):
        return False
    after = stmts[_place(fence, stmts) :]
    if any(map(_is_asynchronous, (*after, *walk(around.repeated)))):
        return True
    assert around.threads is not None
    inside = list(walk(around.threads.body))
    at = _place(fence, inside)
    return not (any(map(_is_ordinary, inside[:at])) and any(map(_is_ordinary, inside[at:])))


def _place(fence: ir.Fence, stmts: list[ir.Stmt]) -> int:
    return next(number for number, stmt in enumerate(stmts) if stmt is fence)


def _is_ordinary(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.Assign | ir.Reduce) or (
        isinstance(stmt, ir.CallInstr) and not _is_asynchronous(stmt)
    )


def _is_asynchronous(stmt: ir.Stmt) -> bool:
    """Returns whether it is an instruction whose accesses are on other timelines than ordinary
    ones."""
    if not isinstance(stmt, ir.CallInstr):
        return False
    operands = (p.operand for p in stmt.instr.params if isinstance(p, ir.DataParam))
    return any(one is not None and one.initial not in _ORDINARY for one in operands)


def _warning(fence: ir.Fence, loop: ir.For) -> Diagnostic:
    return Diagnostic(
        "C419",
        "this Fence joins one thread: end the loop before it",
        fence.span,
        "all threads meet at a Fence outside of the loop, and go on in another one",
        (Note("each iteration is of one thread: nothing is emitted", loop.span),),
    )
