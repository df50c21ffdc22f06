"""The Hopper GEMM with bias and activation, derived from its textbook loops."""

from __future__ import annotations

from exogpu import schedule
from exogpu.api import Procedure, proc
from exogpu.hw.memories import CudaGmemLinear, CudaSmemLinear
from exogpu.hw.timelines import SYNC_TIMELINES as SYNC
from exogpu.hw.units import cuda_thread
from exogpu.isa.sm90 import Sm90_stage_D
from exogpu.kernels import derived_sm90
from exogpu.kernels.derived_sm90 import Tiles

cuda_in_order, both = SYNC["cuda_in_order"], SYNC["cuda_generic_and_async"]


def textbook() -> Procedure:
    """C = relu(A * B^T + bias) for each of L matrices."""

    @proc
    def gemm_bias_relu_sm90(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        A: f32[L, M, cluster_K] @ DRAM,
        B: f32[L, N, cluster_K] @ DRAM,
        bias: f32[N] @ DRAM,
        C: f32[L, M, N] @ DRAM,
    ):
        assert cluster_K % 4 == 0
        for batch in seq(0, L):
            for i in seq(0, M):
                for j in seq(0, N):
                    D: f32 @ DRAM
                    D = 0
                    for k in seq(0, cluster_K):
                        D += tf32(A[batch, i, k]) * tf32(B[batch, j, k])
                    C[batch, i, j] = relu(D + bias[j])

    return gemm_bias_relu_sm90


@schedule.derives(2, 1, 128, 256)
def derived(CM: int, CN: int, TM: int, TN: int, RING: int = 4) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA."""
    t = Tiles(CM, CN, TM, TN, RING)
    p = derived_sm90.tiles(textbook(), t)
    p = schedule.accumulate(p, "k", "D", over="m")
    p = derived_sm90.products(p, t)
    p = epilogue(p, t)
    p = derived_sm90.launch(p, t)
    p = synchronisation(derived_sm90.synchronisation(p, t), t)
    return schedule.rename(p, f"gemm_bias_relu_sm90_{CM}x{CN}_{TM}x{TN}")


def epilogue(p: Procedure, t: Tiles) -> Procedure:
    """A warpgroup's part goes to shared memory, of which its threads take rows."""
    p = schedule.stage_epilogue(p, "i", f"D[m, n, wg, 0:{t.MM}, 0:{t.TN}]", "C_smem", over="m #3")
    p = schedule.set_memory(
        schedule.set_memory(p, "C_smem", CudaSmemLinear), "bias", CudaGmemLinear
    )
    p = schedule.replace(p, "i0", Sm90_stage_D, M=t.MM, N=t.TN)
    p = schedule.mult_loops(p, "i", "e")
    p = schedule.divide_loop(p, "e", 128, ["e", "t"], tail="perfect")
    p = schedule.merge_ifs(schedule.reorder_loops(p, "e"), f"if {t.CM * t.TM} * tm + _ < M: _")
    return schedule.set_loop_mode(p, "t", cuda_thread)


def synchronisation(p: Procedure, t: Tiles) -> Procedure:
    """The memory of the ring may hold the output tile, until all of it was read."""
    p = schedule.insert_fence(p, schedule.find(p, "k").after(), cuda_in_order, both)
    p = schedule.insert_fence(
        p, schedule.find(p, "Sm90_stage_D").after(), cuda_in_order, cuda_in_order
    )
    warps = schedule.find(p, "with CudaWarps(_) _: _ #3")
    return schedule.insert_fence(p, warps.after(), cuda_in_order, both)
