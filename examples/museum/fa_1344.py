"""FlashAttention #1344 (FA3): the epilogue reads shared memory before its writers have finished.

Fact: for sequences of varying length the output tile is staged in shared memory and copied
out by all threads, each what others staged; they did not wait for each other in between.
Hazard: RAW on the staged tile, from the staging to the copy.
Fires: always.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_stage_D, Sm90_tma_load, Sm90_wgmma_tf32, Sm90_zero_scale_d


def make(name: str, waits: bool) -> Procedure:
    """With or without a barrier between the staging and the copy."""

    @proc(name=name)
    def gemm(
        M: size,
        A: f32[M, 32] @ CudaGmemLinear,
        B: f32[64, 32] @ CudaGmemLinear,
        C: f32[M, 64] @ CudaGmemLinear,
    ):
        A_map = A[:, :] @ Sm90_tensorMap(128, 128, 32)
        B_map = B[:, :] @ Sm90_tensorMap(128, 64, 32)
        with CudaDeviceFunction(blockDim=256):
            for tm in cuda_tasks(0, (M + 127) / 128):
                A_smem: f32[128, 32] @ Sm90_SmemSwizzled(128)
                B_smem: f32[64, 32] @ Sm90_SmemSwizzled(128)
                D: f32[2, 64, 64] @ Sm90_RmemMatrixD(64, 64)
                full: barrier @ CudaMbarrier
                cg: barrier[2] @ CudaCommitGroup
                with CudaWarps(0, 1):
                    (
                        Sm90_tma_load(
                            A_smem[:, :],
                            A_map[128 * tm : 128 * tm + 128, 0:32],
                            rows=128,
                            cols=32,
                            box=(128, 32),
                        )
                        >> full
                    )
                    (
                        Sm90_tma_load(
                            B_smem[:, :], B_map[0:64, 0:32], rows=64, cols=32, box=(64, 32)
                        )
                        >> full
                    )
                    Arrive(cuda_temporal) >> full
                Await(full, cuda_generic_and_async, ~0)
                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                    Sm90_zero_scale_d(D[wg, :, :], N=64)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                    for kk in seq(0, 4):
                        Sm90_wgmma_tf32(
                            D[wg, :, :],
                            A_smem[64 * wg : 64 * wg + 64, 8 * kk : 8 * kk + 8],
                            B_smem[:, 8 * kk : 8 * kk + 8],
                            N=64,
                        )
                    Arrive(wgmma_async) >> cg[wg]
                    Await(cg[wg], cuda_in_order, 0)
                Fence(cuda_in_order, cuda_in_order)
                C_smem: f32[128, 64] @ CudaSmemLinear
                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                    Sm90_stage_D(C_smem[64 * wg : 64 * wg + 64, :], D[wg, :, :], N=64)  # [stage]
                if waits:
                    Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 256, unit=cuda_thread):
                    for i in seq(0, 32):
                        if 128 * tm + 4 * i + t / 64 < M:
                            C[128 * tm + 4 * i + t / 64, t % 64] = C_smem[  # [read]
                                4 * i + t / 64, t % 64
                            ]
                Fence(cuda_in_order, cuda_in_order)

    return gemm


bug = make("bug", waits=False)
# refuted at M=1: RAW C_smem stage read
fix = make("fix", waits=True)
# safe
