"""TileLang #2566: a pipeline of one iteration expects bytes on a barrier and nobody arrives.

Fact: in a loop of a single iteration the copies were lowered in another way, which counted
their bytes on the barrier and forgot the arrival; the consumer waited for ever.
Hazard: DEADLOCK on the barrier, at the consumer's Await.
Fires: at exactly one k tile; longer loops have their arrivals.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_load, Sm90_wgmma_tf32, Sm90_zero_scale_d

RING = 2

WARPS = [
    CudaWarpConfig("producer", 1, 40, 0),
    CudaWarpConfig("unused", 3, 40, 0),
    CudaWarpConfig("consumer", 4, 0, 232),
]


def make(name: str, at_least: int) -> Procedure:
    """The producer arrives on `full` in loops of `at_least` iterations."""

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
        with CudaDeviceFunction(warp_config=WARPS):
            for task in cuda_tasks(0, 1):
                A_smem: f32[RING, 64, 32] @ Sm90_SmemSwizzled(128)
                B_smem: f32[RING, 64, 32] @ Sm90_SmemSwizzled(128)
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                full: barrier @ CudaMbarrier  # [end]
                empty: barrier(full) @ CudaMbarrier
                cg: barrier @ CudaCommitGroup
                with CudaWarps(name="consumer"):
                    Sm90_zero_scale_d(D[:, :], N=64)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                for k in seq(0, (K + 31) / 32):
                    with CudaWarps(name="producer"):
                        Await(empty, cuda_temporal, ~RING)
                        (  # [load_A]
                            Sm90_tma_load(
                                A_smem[k % RING, :, :],
                                A_map[0:64, 32 * k : 32 * k + 32],
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
                        if at_least <= (K + 31) / 32:
                            Arrive(cuda_temporal) >> full
                    with CudaWarps(name="consumer"):
                        Await(full, cuda_generic_and_async, ~0)  # [await]
                        for kk in seq(0, 4):
                            Sm90_wgmma_tf32(
                                D[:, :],
                                A_smem[k % RING, :, 8 * kk : 8 * kk + 8],
                                B_smem[k % RING, :, 8 * kk : 8 * kk + 8],
                                N=64,
                            )
                        Arrive(wgmma_async) >> cg
                        Await(cg, cuda_in_order, 0)
                        Arrive(cuda_in_order) >> empty
                with CudaWarps(name="consumer"):
                    Sm90_store_D(64, 64, C[:, :], D[:, :], N=64)
                Fence(cuda_in_order, cuda_in_order)

    return gemm


bug = make("bug", at_least=2)
# refuted at K=4: DEADLOCK full - await, DEADLOCK full load_A end, DEADLOCK full load_B end,
#     BARRIER full - end
# safe iff K >= 36
# safe at K=36
# safe at K=64
fix = make("fix", at_least=1)
# safe
