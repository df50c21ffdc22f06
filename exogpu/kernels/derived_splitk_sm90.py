"""The Hopper GEMM split along K, derived from its textbook loops: slices are tasks of their own."""

from __future__ import annotations

from exogpu import schedule
from exogpu.api import Procedure, proc
from exogpu.hw.memories import CudaCommitGroup, CudaGmemLinear, Sm90_SmemSwizzled, Sm90_tensorMap
from exogpu.hw.timelines import SYNC_TIMELINES as SYNC
from exogpu.hw.units import cuda_warp
from exogpu.isa.cuda import cuda_memset0_3d
from exogpu.isa.sm90 import Sm90_stage_tile, Sm90_tma_reduce
from exogpu.kernels import derived_sm90
from exogpu.kernels.derived_sm90 import Tiles
from exogpu.kernels.gemm_splitk_sm90 import staged_columns

cuda_in_order, both = SYNC["cuda_in_order"], SYNC["cuda_generic_and_async"]


def textbook() -> Procedure:
    """C = A * B^T for each of L matrices, whose rows are in K_split parts."""

    @proc
    def gemm_splitk_sm90(
        L: size,
        M: size,
        N: size,
        K_split: size,
        cluster_K: size,
        A: f32[L, M, K_split, cluster_K] @ DRAM,
        B: f32[L, N, K_split, cluster_K] @ DRAM,
        C: f32[L, M, N] @ DRAM,
    ):
        assert cluster_K % 4 == 0
        assert N % 4 == 0
        for batch in seq(0, L):
            for i in seq(0, M):
                for j in seq(0, N):
                    C[batch, i, j] = 0
                    for part in seq(0, K_split):
                        for k in seq(0, cluster_K):
                            C[batch, i, j] += tf32(A[batch, i, part, k]) * tf32(
                                B[batch, j, part, k]
                            )

    return gemm_splitk_sm90


@schedule.derives(2, 1, 128, 256)
def derived(CM: int, CN: int, TM: int, TN: int, RING: int = 4, groups: int = 2) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA."""
    t = Tiles(CM, CN, TM, TN, RING, groups)
    p = textbook()
    p = schedule.fission(p, schedule.find(p, "C[_] = 0").after(), 3)
    p = schedule.set_memory(p, "C", CudaGmemLinear)
    p = schedule.replace(p, "batch", cuda_memset0_3d)
    p = derived_sm90.tiles(p, t)
    p = schedule.outwards(p, "part", over="m")
    p = schedule.accumulate(p, "k", "D", over="m")
    p = derived_sm90.products(p, t, split="part")
    p = epilogue(p, t)
    p = derived_sm90.launch(p, t)
    p = schedule.set_loop_mode(p, "part", "tasks")
    p = synchronisation(derived_sm90.synchronisation(p, t), t)
    return schedule.rename(p, f"gemm_splitk_sm90_{CM}x{CN}_{TM}x{TN}")


def epilogue(p: Procedure, t: Tiles) -> Procedure:
    """A warpgroup's part goes to shared memory slice by slice, and is added to C from there."""
    W = staged_columns(t.TN)
    p = schedule.reorder_loops(schedule.divide_loop(p, "j", W, ["slice", "j"], tail="perfect"), "i")
    window = f"D[m, n, wg, 0:{t.MM}, {W} * slice:{W} * slice + {W}]"
    p = schedule.stage_epilogue(p, "i", window, "C_smem", over="m #3")
    p = schedule.set_memory(p, "C_smem", Sm90_SmemSwizzled(4 * W))
    p = schedule.replace(p, "i0", Sm90_stage_tile, M=t.MM, N=t.TN, cols=W, swizzle=4 * W)
    box = Sm90_tensorMap(4 * W, 1, t.MM, W)
    p = schedule.bind_window(p, schedule.find(p, "batch"), "C[0:L, 0:M, 0:N]", "C_map", box)
    for _ in "ABC":
        p = schedule.reorder_stmts(p, "cuda_memset0_3d")
    p = schedule.divide_loop(p, "i", t.MM, ["one", "i"], tail="perfect")
    p = schedule.set_loop_mode(p, "one", cuda_warp)
    rows = {"rows": t.MM, "cols": W, "box": (1, t.MM, W), "swizzle": 4 * W}
    return schedule.replace(p, "i", Sm90_tma_reduce, **rows)


def synchronisation(p: Procedure, t: Tiles) -> Procedure:
    """The memory of the ring may hold the output tile; a task ends when it has been added."""
    p = schedule.insert_fence(p, schedule.find(p, "k").after(), cuda_in_order, both)
    stored, added = schedule.find(p, "Sm90_stage_tile"), schedule.find(p, "Sm90_tma_reduce")
    warps = schedule.find(p, "with CudaWarps(_) _: _ #3")
    p = schedule.insert_barrier_alloc(
        p, warps.before(), "done", [t.CM, t.CN, t.groups], CudaCommitGroup
    )
    p = schedule.insert_fence(p, stored.after(), cuda_in_order, both)
    p = schedule.insert_arrive(p, added.after(), SYNC["tma_to_gmem_async"], "done[m, n, wg]")
    p = schedule.insert_pass(p, schedule.find(p, "slice").after())
    p = schedule.add_loop(p, schedule.find(p, "slice").next(), "one", 1)
    p = schedule.set_loop_mode(p, "one #1", cuda_warp)
    here = schedule.find(p, "one #1").body()[0].before()
    p = schedule.delete_pass(schedule.insert_await(p, here, "done[m, n, wg]", cuda_in_order, 0))
    return schedule.insert_fence(p, warps.after(), cuda_in_order, cuda_in_order)
