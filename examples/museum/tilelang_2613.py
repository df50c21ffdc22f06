"""TileLang #2613: the next tile overwrites an operand that the other warpgroup still reads.

Fact: two warpgroups multiply from one shared tile and each waits for its own wgmma; the barrier
on the loop's back edge was dropped, so that the faster one went on to store the next tile.
Hazard: WAR on the tile, from the wgmma of one warpgroup to the stores of the other.
Fires: from two k tiles on; with one, the back edge is never taken.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_store_D, Sm90_wgmma_tf32, Sm90_zero_scale_d


def make(name: str, back_edge: bool) -> Procedure:
    """With or without the barrier at the end of the loop's body."""

    @proc(name=name)
    def gemm(
        K: size,
        A: f32[128, K] @ CudaGmemLinear,
        B: f32[64, K] @ CudaGmemLinear,
        C: f32[128, 64] @ CudaGmemLinear,
    ):
        assert K % 32 == 0
        with CudaDeviceFunction(blockDim=256):
            for task in cuda_tasks(0, 1):
                A_smem: f32[128, 32] @ Sm90_SmemSwizzled(128)
                B_smem: f32[64, 32] @ Sm90_SmemSwizzled(128)
                D: f32[2, 64, 64] @ Sm90_RmemMatrixD(64, 64)
                cg: barrier[2] @ CudaCommitGroup
                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                    Sm90_zero_scale_d(D[wg, :, :], N=64)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                for k in seq(0, K / 32):
                    for t in cuda_threads(0, 256, unit=cuda_thread):
                        for i in seq(0, 16):
                            A_smem[8 * i + t / 32, t % 32] = A[  # [store_A]
                                8 * i + t / 32, 32 * k + t % 32
                            ]
                        for i in seq(0, 8):
                            B_smem[8 * i + t / 32, t % 32] = B[  # [store_B]
                                8 * i + t / 32, 32 * k + t % 32
                            ]
                    Fence(cuda_in_order, cuda_generic_and_async)
                    for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                        for kk in seq(0, 4):
                            Sm90_wgmma_tf32(  # [wgmma]
                                D[wg, :, :],
                                A_smem[64 * wg : 64 * wg + 64, 8 * kk : 8 * kk + 8],
                                B_smem[:, 8 * kk : 8 * kk + 8],
                                N=64,
                            )
                        Arrive(wgmma_async) >> cg[wg]
                        Await(cg[wg], cuda_in_order, 0)
                    if back_edge:
                        Fence(cuda_in_order, cuda_in_order)
                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                    Sm90_store_D(64, 64, C[64 * wg : 64 * wg + 64, :], D[wg, :, :], N=64)
                Fence(cuda_in_order, cuda_in_order)

    return gemm


bug = make("bug", back_edge=False)
# refuted at K=64: WAR A_smem wgmma store_A, WAR B_smem wgmma store_B
# safe iff K = 32
# safe at K=32
fix = make("fix", back_edge=True)
# safe
