"""TileLang #2634: wgmma reads shared memory that ordinary stores wrote, without a proxy fence.

Fact: an operand tile was stored by ordinary instructions, and the barrier after it ordered
threads but not proxies; wgmma reads shared memory through the async proxy.
Hazard: RAW on the tile, from the stores to the wgmma.
Fires: always.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_store_D, Sm90_wgmma_tf32, Sm90_zero_scale_d


def make(name: str, post: object) -> Procedure:
    """The barrier between the stores and the wgmma has `post` as its second timeline."""

    @proc(name=name)
    def scaled_gemm(
        K: size,
        A: f32[64, K] @ CudaGmemLinear,
        B: f32[64, K] @ CudaGmemLinear,
        C: f32[64, 64] @ CudaGmemLinear,
    ):
        assert K % 32 == 0
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                A_smem: f32[64, 32] @ Sm90_SmemSwizzled(128)
                B_smem: f32[64, 32] @ Sm90_SmemSwizzled(128)
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                cg: barrier @ CudaCommitGroup
                Sm90_zero_scale_d(D[:, :], N=64)
                Fence(wgmma_fence_1, wgmma_fence_2)
                for k in seq(0, K / 32):
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        for i in seq(0, 16):
                            A_smem[4 * i + t / 32, t % 32] = (  # [store_A]
                                2.0 * A[4 * i + t / 32, 32 * k + t % 32]
                            )
                            B_smem[4 * i + t / 32, t % 32] = (  # [store_B]
                                2.0 * B[4 * i + t / 32, 32 * k + t % 32]
                            )
                    Fence(cuda_in_order, post)
                    for kk in seq(0, 4):
                        Sm90_wgmma_tf32(  # [wgmma]
                            D[:, :],
                            A_smem[:, 8 * kk : 8 * kk + 8],
                            B_smem[:, 8 * kk : 8 * kk + 8],
                            N=64,
                        )
                    Arrive(wgmma_async) >> cg
                    Await(cg, cuda_in_order, 0)
                    Fence(cuda_in_order, cuda_in_order)
                Sm90_store_D(64, 64, C[:, :], D[:, :], N=64)

    return scaled_gemm


bug = make("bug", post=cuda_in_order)
# refuted at K=32: RAW A_smem store_A wgmma, RAW B_smem store_B wgmma
fix = make("fix", post=cuda_generic_and_async)
# safe
