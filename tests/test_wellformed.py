"""The executable specification of IR refuses what a careless pass would leave behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from exogpu.analysis.inline import inline
from exogpu.analysis.lifetimes import insert_frees
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Assign,
    Await,
    Block,
    CVar,
    DeviceFunction,
    For,
    Free,
    Point,
    Proc,
    Stmt,
)
from exogpu.ir.walk import map_blocks
from exogpu.ir.wellformed import flaws
from tests.texts import made

KERNEL = made("""
@proc
def kernel(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            z: barrier @ CudaMbarrier
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            Arrive(cuda_in_order) >> z
            Await(z, cuda_in_order, ~0)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
            Fence(cuda_in_order, cuda_in_order)
""")

Change = Callable[[Stmt], Block]


def changed(change: Change) -> Proc:
    def block(stmts: Block) -> Block:
        return tuple(new for old in stmts for new in change(map_blocks(old, block)))

    proc = insert_frees(inline(KERNEL.ir))
    return replace(proc, body=block(proc.body))


def no_allocation(stmt: Stmt) -> Block:
    return () if isinstance(stmt, Alloc) else (stmt,)


def twice(stmt: Stmt) -> Block:
    return (stmt, stmt) if isinstance(stmt, Alloc) else (stmt,)


def freed_twice(stmt: Stmt) -> Block:
    return (stmt, stmt) if isinstance(stmt, Free) else (stmt,)


def point_less(stmt: Stmt) -> Block:
    if isinstance(stmt, Assign):
        return (replace(stmt, target=Access(stmt.target.name, stmt.target.coords[1:])),)
    return (stmt,)


def loop_lost(stmt: Stmt) -> Block:
    return stmt.body if isinstance(stmt, For) else (stmt,)


def nested(stmt: Stmt) -> Block:
    if isinstance(stmt, DeviceFunction):
        return (replace(stmt, body=(stmt,)),)
    return (stmt,)


def data_awaited(stmt: Stmt) -> Block:
    if isinstance(stmt, Await):
        (x, *_) = (p.name for p in KERNEL.ir.params if p.name.name == "x")
        return (replace(stmt, barrier=Access(x, (Point(CVar(stmt.barrier.name)),) * 2)),)
    return (stmt,)


SAID = {
    no_allocation: "tile is not declared here",
    twice: "tile is declared twice",
    freed_twice: "used after it is freed",
    point_less: "dimensions, not",
    loop_lost: "is no control variable in scope",
    nested: "a launch inside a launch",
    data_awaited: "x is awaited and no barrier",
}


def test_what_the_passes_make_is_well_formed() -> None:
    assert not [*flaws(KERNEL.ir)]
    assert not [*flaws(insert_frees(inline(KERNEL.ir)), inlined=True)]


@pytest.mark.parametrize("change", SAID, ids=lambda c: c.__name__)
def test_what_a_careless_pass_makes_is_not(change: Change) -> None:
    assert any(SAID[change] in flaw for flaw in flaws(changed(change), inlined=True))
