"""DeepGEMM #449, #448: the A registers of a wgmma are overwritten while it still reads them.

Fact: A was promoted into registers, and the registers were filled for the next K block before
the wgmma of this one, which reads them asynchronously, had been waited for.
Hazard: WAR on the registers, from the wgmma to the load.
Fires: from two K blocks on; the registers of a single block are filled once.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import (
    Sm90_load_A,
    Sm90_store_D,
    Sm90_tma_load,
    Sm90_wgmma_rs_tf32,
    Sm90_zero_scale_d,
)


def make(name: str, outstanding: int) -> Procedure:
    """At most `outstanding` wgmma groups are under way when the registers are refilled."""

    @proc(name=name)
    def gemm(
        K: size,
        A: f32[64, K] @ CudaGmemLinear,
        B: f32[64, K] @ CudaGmemLinear,
        C: f32[64, 64] @ CudaGmemLinear,
    ):
        assert K % 8 == 0
        B_map = B[:, :] @ Sm90_tensorMap(32, 64, 8)
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                A_smem: f32[2, 64, 8] @ CudaSmemLinear
                B_smem: f32[2, 64, 8] @ Sm90_SmemSwizzled(32)
                A_reg: f32[64, 8] @ Sm90_RmemMatrixA(64)
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                full: barrier @ CudaMbarrier
                cg: barrier @ CudaCommitGroup
                Sm90_zero_scale_d(D[:, :], N=64)
                Fence(wgmma_fence_1, wgmma_fence_2)
                for k in seq(0, K / 8):
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        for i in seq(0, 4):
                            A_smem[k % 2, 16 * i + t / 8, t % 8] = A[16 * i + t / 8, 8 * k + t % 8]
                    Fence(cuda_in_order, cuda_in_order)
                    with CudaWarps(0, 1):
                        (
                            Sm90_tma_load(
                                B_smem[k % 2, :, :],
                                B_map[0:64, 8 * k : 8 * k + 8],
                                rows=64,
                                cols=8,
                                box=(64, 8),
                                swizzle=32,
                            )
                            >> full
                        )
                        Arrive(cuda_temporal) >> full
                    Sm90_load_A(A_reg[:, :], A_smem[k % 2, :, :])  # [load]
                    Await(full, cuda_generic_and_async, ~0)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                    Sm90_wgmma_rs_tf32(  # [wgmma]
                        D[:, :], A_reg[:, :], B_smem[k % 2, :, :], N=64, swizzle=32
                    )
                    Arrive(wgmma_async) >> cg
                    Await(cg, cuda_in_order, outstanding)
                Await(cg, cuda_in_order, 0)
                Sm90_store_D(64, 64, C[:, :], D[:, :], N=64)
                Fence(cuda_in_order, cuda_in_order)

    return gemm


bug = make("bug", outstanding=1)
# refuted at K=16: WAR A_reg wgmma load
# safe iff K = 8
# safe at K=8
fix = make("fix", outstanding=0)
# safe
