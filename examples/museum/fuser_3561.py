"""nvFuser #3561, #3863: a ring slot is handed back while wgmma still reads it.

Fact: in a warp-specialised GEMM the consumer arrived on `empty` right after it had issued its
wgmma; it waited for the wgmma group only afterwards.
Hazard: WAR on the operands, from the wgmma to the TMA load that refills the slot.
Fires: as soon as a slot is used twice, that is with more k tiles than the ring has slots.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_load, Sm90_wgmma_tf32, Sm90_zero_scale_d

RING = 3

WARPS = [
    CudaWarpConfig("producer", 1, 40, 0),
    CudaWarpConfig("unused", 3, 40, 0),
    CudaWarpConfig("consumer", 4, 0, 232),
]


def make(name: str, early: bool) -> Procedure:
    """The consumer releases a slot before it waits for its wgmma group, or after."""

    @proc(name=name)
    def gemm(
        M: size,
        K: size,
        A: f32[M, K] @ CudaGmemLinear,
        B: f32[64, K] @ CudaGmemLinear,
        C: f32[M, 64] @ CudaGmemLinear,
    ):
        assert K % 4 == 0
        A_map = A[:, :] @ Sm90_tensorMap(128, 64, 32)
        B_map = B[:, :] @ Sm90_tensorMap(128, 64, 32)
        with CudaDeviceFunction(warp_config=WARPS):
            for tm in cuda_tasks(0, (M + 63) / 64):
                A_smem: f32[RING, 64, 32] @ Sm90_SmemSwizzled(128)
                B_smem: f32[RING, 64, 32] @ Sm90_SmemSwizzled(128)
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                cg: barrier @ CudaCommitGroup
                with CudaWarps(name="consumer"):
                    Sm90_zero_scale_d(D[:, :], M=64, N=64)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                for k in seq(0, (K + 31) / 32):
                    with CudaWarps(name="producer"):
                        Await(empty, cuda_temporal, ~RING)
                        (  # [load_A]
                            Sm90_tma_load(
                                A_smem[k % RING, :, :],
                                A_map[64 * tm : 64 * tm + 64, 32 * k : 32 * k + 32],
                                rows=64,
                                cols=32,
                                box=(64, 32),
                            )
                            >> full
                        )
                        (  # [load_B]
                            Sm90_tma_load(
                                B_smem[k % RING, :, :],
                                B_map[0:64, 32 * k : 32 * k + 32],
                                rows=64,
                                cols=32,
                                box=(64, 32),
                            )
                            >> full
                        )
                        Arrive(cuda_temporal) >> full
                    with CudaWarps(name="consumer"):
                        Await(full, cuda_generic_and_async, ~0)
                        for kk in seq(0, 4):
                            Sm90_wgmma_tf32(  # [wgmma]
                                D[:, :],
                                A_smem[k % RING, :, 8 * kk : 8 * kk + 8],
                                B_smem[k % RING, :, 8 * kk : 8 * kk + 8],
                                N=64,
                            )
                        Arrive(wgmma_async) >> cg
                        if early:
                            Arrive(cuda_in_order) >> empty
                        Await(cg, cuda_in_order, 0)
                        if not early:
                            Arrive(cuda_in_order) >> empty
                with CudaWarps(name="consumer"):
                    Sm90_store_D(M - 64 * tm, 64, C[64 * tm : 64 * tm + 64, :], D[:, :], N=64)
                Fence(cuda_in_order, cuda_in_order)

    return gemm


bug = make("bug", early=True)
# refuted at M=1 K=100: WAR A_smem wgmma load_A, WAR B_smem wgmma load_B
# safe iff K <= 96
# safe at M=1 K=96
fix = make("fix", early=False)
# safe
