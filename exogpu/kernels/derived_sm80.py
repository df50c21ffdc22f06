"""The kernel `gemm_sm80`, derived from three loops: tiles, padding, a pipeline, instructions.

`derived()` is that kernel up to names; `exogpu.schedule.history` prints its steps.
"""

from __future__ import annotations

from exogpu import schedule
from exogpu.api import Procedure, proc
from exogpu.hw.memories import (
    CudaCommitGroup,
    CudaGmemLinear,
    CudaSmemLinear,
    Sm80_RmemMatrixA,
    Sm80_RmemMatrixB,
    Sm80_RmemMatrixD,
)
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.hw.units import cuda_thread, cuda_warp
from exogpu.isa.sm80 import (
    Sm80_cp_async_copy_zfill,
    Sm80_load_A,
    Sm80_load_B,
    Sm80_mma_tf32,
    Sm80_store_D,
    Sm80_zero_D,
)

cuda_in_order, cp_async = SYNC_TIMELINES["cuda_in_order"], SYNC_TIMELINES["Sm80_cp_async"]


def textbook() -> Procedure:
    """C = A * B^T in three loops."""

    @proc
    def gemm_sm80(
        M: size,
        N: size,
        K: size,
        A: f32[M, K] @ DRAM,
        B: f32[N, K] @ DRAM,
        C: f32[M, N] @ DRAM,
    ):
        assert K % 4 == 0
        for i in seq(0, M):
            for j in seq(0, N):
                C[i, j] = 0
                for k in seq(0, K):
                    C[i, j] += A[i, k] * B[j, k]

    return gemm_sm80


@schedule.derives()
def derived() -> Procedure:
    """The kernel, made on first use."""
    p = textbook()
    for part in (tiles, padding, fragments, loads, instructions, launch):
        p = part(p)
    return synchronisation(p)


def tiles(p: Procedure) -> Procedure:
    """64 x 64 elements a task, 32 x 32 a warp, 16 x 8 an instruction; 16 columns of A and B at a
    time."""
    p = schedule.tile(p, "i", (64, 64), ["tm", "tn"], ["i", "j"])
    p = schedule.tile(p, "i", (32, 32), ["wm", "wn"], ["i", "j"], tail="perfect")
    p = schedule.tile(p, "i", (16, 8), ["i", "j"], ["m", "n"], tail="perfect")
    p = schedule.accumulate(p, "k", "D", over="wm")
    p = schedule.divide_loop(p, "k", 16, ["ko", "kk"])
    p = schedule.divide_loop(p, "kk", 8, ["kk", "k"], tail="perfect")
    p = schedule.outwards(p, "ko", over="wm #1")
    for x, rows in (("A", "64 * tm : 64 * tm + 64"), ("B", "64 * tn : 64 * tn + 64")):
        p = schedule.stage_ring(
            p, "wm #1", f"{x}[{rows}, 16 * ko : 16 * ko + 16]", f"{x}_smem", "ko"
        )
    return p


def padding(p: Procedure) -> Procedure:
    """Zeros beyond column K, so that sums need no guard; nobody reads sums beyond M and N.

    The tiles of the next step are loaded before those of this one are used: two of each.
    """
    p = schedule.fill_zero(p, "if 16 * ko + i1 < K: _")
    p = schedule.fill_zero(p, "if 16 * ko + i1 < K: _ #1")
    p = schedule.remove_if(p, "if 16 * ko + (8 * kk + k) < K: _")
    p = schedule.remove_if(p, "if 64 * tm + (32 * wm + _) < M: _")
    p = schedule.remove_if(p, "if 64 * tn + (32 * wn + _) < N: _")
    p = schedule.outwards(p, "kk", over="i #1")
    return schedule.pipeline(p, "wm #1", ["A_smem", "B_smem"])


def fragments(p: Procedure) -> Procedure:
    """The parts of the tiles that a warp multiplies, in registers; one loop over the warps."""
    slot = "(ko + 1) % 2"
    p = schedule.stage_mem(
        p, "i #1", f"A_smem[{slot}, 32 * wm:32 * wm + 32, 8 * kk:8 * kk + 8]", "A_reg"
    )
    p = schedule.stage_mem(
        p, "i #1", f"B_smem[{slot}, 32 * wn:32 * wn + 32, 8 * kk:8 * kk + 8]", "B_reg"
    )
    p = schedule.divide_loop(p, "i0 #2", 16, ["i", "m"], tail="perfect")
    p = schedule.divide_loop(p, "i0 #2", 8, ["j", "n"], tail="perfect")
    p = schedule.divide_dim(schedule.divide_dim(p, "A_reg", 0, 16), "B_reg", 0, 8)
    for part in ("A_reg", "B_reg"):
        p = schedule.expand_dim(schedule.expand_dim(p, part, 2, "wn"), part, 2, "wm")
        p = schedule.mult_dim(p, part, 0)
    p = schedule.mult_dim(p, "D", 0)
    for _ in range(3):
        p = schedule.mult_loops(p, "wm", "w")
    return p


def loads(p: Procedure) -> Procedure:
    """128 threads copy 4 elements each, twice for each tile."""
    for tile, extent, nth in (("tm", "M", ""), ("tn", "N", " #1")):
        p = schedule.divide_loop(p, "i0", 32, ["r", "t"], tail="perfect")
        p = schedule.divide_loop(p, "i1", 4, ["q", "c"], tail="perfect")
        p = schedule.lift_scope(p, f"if 64 * {tile} + (32 * r + t) < {extent}: _")
        p = schedule.reorder_loops(schedule.reorder_loops(p, f"r{nth}"), f"r{nth}")
        p = schedule.mult_loops(p, f"t{nth}", "t")
        p = schedule.replace(p, "c", Sm80_cp_async_copy_zfill)
    p = schedule.fuse(schedule.fuse(p, "t"), "r")
    for x, tile, extent in (("A", "tm", "M"), ("B", "tn", "N")):  # rows that no sum is stored of
        guard = schedule.find(p, f"if 64 * {tile} + _ < {extent}: _")
        part = "ko % 2, 32 * r + t / 4, 4 * (t % 4) : 4 * (t % 4) + 4"
        where = (f"64 * {tile} + 32 * r + t / 4", ">=", extent)
        p = schedule.insert_uninit(p, guard.before(), f"{x}_smem[{part}]", where)
    return p


def instructions(p: Procedure) -> Procedure:
    """The loops that are left are instructions of a warp."""
    for loop, instruction in (
        ("m", Sm80_zero_D),
        ("m", Sm80_load_A),
        ("n", Sm80_load_B),
        ("m", Sm80_mma_tf32),
        ("m", Sm80_store_D),
    ):
        p = schedule.replace(p, loop, instruction)
    # All variables first, as one writes them.
    for statement in ("w", "D: _", "w", "D: _", "for i in _: _ #1"):
        p = schedule.reorder_stmts(p, statement)
    return schedule.simplify(p)


def launch(p: Procedure) -> Procedure:
    """Memories, tasks and threads."""
    for name, memory in (
        ("A", CudaGmemLinear),
        ("B", CudaGmemLinear),
        ("C", CudaGmemLinear),
        ("A_smem", CudaSmemLinear),
        ("B_smem", CudaSmemLinear),
        ("D", Sm80_RmemMatrixD(16, 8)),
        ("A_reg", Sm80_RmemMatrixA(16, 8)),
        ("B_reg", Sm80_RmemMatrixB(8, 8)),
    ):
        p = schedule.set_memory(p, name, memory)
    p = schedule.wrap_kernel(p, "tm", 128)
    for loop in ("tm", "tn"):
        p = schedule.set_loop_mode(p, loop, "tasks")
    for loop in ("w", "w #1", "w #2"):
        p = schedule.set_loop_mode(p, loop, cuda_warp)
    return schedule.set_loop_mode(p, "t", cuda_thread)


def synchronisation(p: Procedure) -> Procedure:
    """A group of copies a step: all but the newest are awaited, at the end all."""
    warps = schedule.find(p, "w #1")
    p = schedule.insert_barrier_alloc(
        p, schedule.find(p, "w").before(), "cg", [128], CudaCommitGroup
    )
    p = schedule.insert_arrive(p, schedule.find(p, "r").after(), cp_async, "cg[t]")
    threads = [("t", 128, cuda_thread)]
    p = schedule.insert_await(p, warps.before(), "cg[t]", cuda_in_order, 0, over=threads)
    p = schedule.specialize(p, "Await(_)", "ko", "<", "(K + 15) / 16")
    p = schedule.insert_await(p, schedule.find(p, "Await(_)").before(), "cg[t]", cuda_in_order, 1)
    p = schedule.delete_sync(p, "Await(_) #1")
    p = schedule.insert_fence(p, warps.before(), cuda_in_order, cuda_in_order)
    return schedule.insert_fence(p, warps.after(), cuda_in_order, cuda_in_order)
