"""ThunderKittens #33: an accumulator is read before the wgmma that fills it has finished.

Fact: the kernel used its accumulator, and only then waited for the wgmma group.
Hazard: RAW on the accumulator, from the wgmma to the store.
Fires: always.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_load, Sm90_wgmma_tf32, Sm90_zero_scale_d


def make(name: str, late: bool) -> Procedure:
    """The wait for the wgmma groups after the accumulator's store, or before."""

    @proc(name=name)
    def gemm(
        K: size,
        A: f32[64, K] @ CudaGmemLinear,
        B: f32[64, K] @ CudaGmemLinear,
        C: f32[64, 64] @ CudaGmemLinear,
    ):
        assert K % 4 == 0
        A_map = A[:, :] @ Sm90_tensorMap(128, 64, 32)
        B_map = B[:, :] @ Sm90_tensorMap(128, 64, 32)
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                A_smem: f32[2, 64, 32] @ Sm90_SmemSwizzled(128)
                B_smem: f32[2, 64, 32] @ Sm90_SmemSwizzled(128)
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                full: barrier @ CudaMbarrier
                cg: barrier @ CudaCommitGroup
                Sm90_zero_scale_d(D[:, :], N=64)
                Fence(wgmma_fence_1, wgmma_fence_2)
                for k in seq(0, (K + 31) / 32):
                    with CudaWarps(0, 1):
                        (
                            Sm90_tma_load(
                                A_smem[k % 2, :, :],
                                A_map[0:64, 32 * k : 32 * k + 32],
                                rows=64,
                                cols=32,
                                box=(64, 32),
                            )
                            >> full
                        )
                        (
                            Sm90_tma_load(
                                B_smem[k % 2, :, :],
                                B_map[0:64, 32 * k : 32 * k + 32],
                                rows=64,
                                cols=32,
                                box=(64, 32),
                            )
                            >> full
                        )
                        Arrive(cuda_temporal) >> full
                    Await(full, cuda_generic_and_async, ~0)
                    for kk in seq(0, 4):
                        Sm90_wgmma_tf32(  # [wgmma]
                            D[:, :],
                            A_smem[k % 2, :, 8 * kk : 8 * kk + 8],
                            B_smem[k % 2, :, 8 * kk : 8 * kk + 8],
                            N=64,
                        )
                    Arrive(wgmma_async) >> cg
                    if k >= 1:
                        Await(cg, cuda_in_order, 1)
                    Fence(cuda_in_order, cuda_in_order)
                if late:
                    Sm90_store_D(64, 64, C[:, :], D[:, :], N=64)  # [store]
                Await(cg, cuda_in_order, 0)
                if not late:
                    Sm90_store_D(64, 64, C[:, :], D[:, :], N=64)
                Fence(cuda_in_order, cuda_in_order)

    return gemm


bug = make("bug", late=True)
# refuted at K=4: RAW D wgmma store
fix = make("fix", late=False)
# safe
