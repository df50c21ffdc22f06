"""Ten copies of the Hopper GEMM, each with one more Fence than it needs: all must still be right.

exogpu compile benchmarks/extra_fences.py -o build/gpu/fences --cubin
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from exogpu.api import Procedure
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.nodes import Arrive, Await, Block, CallInstr, Fence, For, Stmt
from exogpu.ir.walk import map_blocks, walk
from exogpu.kernels.gemm_sm90 import KERNELS as GEMMS

Where = Callable[[Stmt], bool]


def call(name: str) -> Where:
    """The first call of an instruction."""
    return lambda stmt: isinstance(stmt, CallInstr) and stmt.instr.name.startswith(name)


def arrive(name: str) -> Where:
    """The first Arrive on a barrier."""
    return lambda stmt: isinstance(stmt, Arrive) and stmt.targets[0].name.name == name


def wait(name: str) -> Where:
    """The first Await on a barrier."""
    return lambda stmt: isinstance(stmt, Await) and stmt.barrier.name.name == name


def loop(name: str) -> Where:
    """The first loop over an iterator."""
    return lambda stmt: isinstance(stmt, For) and stmt.iterator.name == name


def cluster_fence(stmt: Stmt) -> bool:
    """The fence that ends the task."""
    return isinstance(stmt, Fence) and stmt.pre.name == "cuda_in_order"


PLACES: tuple[tuple[str, Where, bool, str, str], ...] = (
    ("zero", call("Sm90_zero_scale_d"), False, "cuda_in_order", "cuda_in_order"),
    ("wgmma_fence", call("Sm90_zero_scale_d"), True, "wgmma_fence_1", "wgmma_fence_2"),
    ("producer_warp", wait("empty"), True, "cuda_in_order", "cuda_in_order"),
    ("producer_proxy", arrive("full"), False, "cuda_in_order", "cuda_generic_and_async"),
    ("consumers", wait("full"), True, "cuda_in_order", "cuda_generic_and_async"),
    ("products", arrive("cg"), True, "wgmma_async", "cuda_in_order"),
    ("warpgroup", wait("cg"), True, "cuda_in_order", "cuda_in_order"),
    ("release", arrive("empty"), False, "cuda_in_order", "cuda_generic_and_async"),
    ("task", loop("k"), False, "cuda_in_order", "cuda_in_order"),
    ("twice", cluster_fence, True, "cuda_in_order", "cuda_generic_and_async"),
)
"""Name; the statement beside which the fence goes, and whether after it; its two timelines."""


def with_fence(
    gemm: Procedure, name: str, where: Where, after: bool, pre: str, post: str
) -> Procedure:
    """The GEMM with one more Fence."""
    proc = gemm.ir
    assert proc is not None
    at = next(stmt for stmt in walk(proc.body) if where(stmt))
    added = Fence(SYNC_TIMELINES[pre], SYNC_TIMELINES[post], span=at.span)

    def inserted(block: Block) -> Block:
        found: list[Stmt] = []
        for stmt in block:
            pair = (stmt, added) if after else (added, stmt)
            found += pair if stmt is at else (map_blocks(stmt, inserted),)
        return tuple(found)

    title = f"{gemm.name}_{name}"
    return Procedure(title, replace(proc, name=title, body=inserted(proc.body)), ())


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (with_fence(GEMMS["gemm_sm90_2x1_128x256"], *place) for place in PLACES)
}
"""By name."""

globals().update(KERNELS)  # a procedure that @proc has not made is found as a variable
