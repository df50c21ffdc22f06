"""Inserts the free of each variable where its lifetime ends (decision `shared-lifetime`,
`host-lifetime`).

A: f32[64] @ CudaSmemLinear          A: f32[64] @ CudaSmemLinear
fill(A[0:64])                        fill(A[0:64])
r: f32 @ CudaRmem                    r: f32 @ CudaRmem
r = A[0]                      ->     r = A[0]
out[0] = r                           out[0] = r
                                     free r    # after its last use
                                     free A    # before the next shared-memory allocation
B: f32[64] @ CudaSmemLinear          B: f32[64] @ CudaSmemLinear
use(B[0:64])                         use(B[0:64])
                                     free B    # at the end of its scope

Where the warps of one role alone use B, A is freed twice: before B for these warps, and at the end
of its scope for all threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.diagnostics.errors import Span
from exogpu.ir import nodes as ir
from exogpu.ir.types import Space, Sym
from exogpu.ir.walk import accesses, blocks, map_blocks, walk


def insert_frees(proc: ir.Proc) -> ir.Proc:
    """The procedure with one Free for every allocation, in the allocation's block.

    Takes a procedure without window statements (`inline`).
    """
    body = _block(proc.body)
    return proc if body is proc.body else replace(proc, body=body)


def _block(block: ir.Block) -> ir.Block:
    inner = tuple(
        map_blocks(stmt, _launch if isinstance(stmt, ir.DeviceFunction) else _block)
        for stmt in block
    )
    return _with_frees(block, inner, resident=False)


def _launch(block: ir.Block) -> ir.Block:
    """Memory that a launch allocates resides: all threads meet before it is freed."""
    return _with_frees(block, tuple(map_blocks(stmt, _block) for stmt in block), resident=True)


def _with_frees(block: ir.Block, inner: ir.Block, *, resident: bool) -> ir.Block:
    allocated = [(i, s) for i, s in enumerate(inner) if isinstance(s, ir.Alloc | ir.BarrierAlloc)]
    if not allocated:
        return inner if any(a is not b for a, b in zip(inner, block, strict=True)) else block
    frees: dict[int, list[ir.Stmt]] = {}
    for at, alloc in allocated:
        end = _end(inner, at, alloc)
        warps = None if resident or not _is_shared(alloc) else _only_users(inner[end:])
        if warps is not None:
            early = ir.Free(alloc.name, _place(inner, end, alloc), warps, span=alloc.span)
            frees.setdefault(end, []).append(early)
            end = len(inner)
        free = ir.Free(alloc.name, _place(inner, end, alloc), span=alloc.span)
        frees.setdefault(end, []).append(free)
    found: list[ir.Stmt] = []
    for at, stmt in enumerate(inner):
        found += [*frees.get(at, ()), stmt]
    return (*found, *frees.get(len(inner), ()))


def _end(block: ir.Block, at: int, alloc: ir.Alloc | ir.BarrierAlloc) -> int:
    """The position in the block before which the variable is freed."""
    after_use = 1 + max((i for i, s in enumerate(block) if _uses(s, alloc.name)), default=at)
    match alloc:
        case ir.Alloc() if alloc.memory.space is Space.HOST:
            return len(block)
        case ir.Alloc() if alloc.memory.space is Space.SHARED:
            later = (i for i in range(after_use, len(block)) if _is_shared(block[i]))
            return next(later, len(block))
        case ir.BarrierAlloc() if alloc.mechanism.phased:
            return len(block)
        case ir.Alloc() | ir.BarrierAlloc():
            return after_use


def _only_users(block: ir.Block) -> tuple[int, int, str] | None:
    """The warps that alone use the shared memory that a block allocates; None if others do."""
    later = {s.name for s in walk(block) if isinstance(s, ir.Alloc) and _is_shared(s)}
    users = set(_users(block, later))
    return users.pop() if len(users) == 1 else None


def _users(block: ir.Block, names: set[Sym]) -> Iterator[tuple[int, int, str] | None]:
    """Yields the outermost warps around each access to one of the variables, None without any."""
    for stmt in block:
        if isinstance(stmt, ir.Warps):
            if any(_uses(stmt, name) for name in names):
                yield stmt.lo, stmt.hi, stmt.group
            continue
        if any(access.name in names for access in accesses(stmt)):
            yield None
        for inner in blocks(stmt):
            yield from _users(inner, names)


def _place(block: ir.Block, end: int, alloc: ir.Alloc | ir.BarrierAlloc) -> Span:
    """Returns the place that a reader takes for the end: the allocation that may reuse the memory,
    or else the last statement before the end."""
    if end < len(block) and isinstance(alloc, ir.Alloc) and _is_shared(block[end]):
        return block[end].span
    last = block[end - 1]
    while isinstance(last, ir.If | ir.For | ir.DeviceFunction | ir.Warps):
        inside = last.orelse or last.body if isinstance(last, ir.If) else last.body
        inner = [stmt for stmt in inside if not isinstance(stmt, ir.Free)]
        if not inner:
            break
        last = inner[-1]
    return last.span


def _is_shared(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.Alloc) and stmt.memory.space is Space.SHARED


def _uses(stmt: ir.Stmt, name: Sym) -> bool:
    return any(access.name == name for inner in walk((stmt,)) for access in accesses(inner))
