"""TensorRT-LLM #15338: the consumer waits on the barrier of the wrong ring stage.

Fact: the address of the barrier to wait on was computed once, before the loop: in every round
through the ring the consumer polled the first stage's barrier and read the stage of its turn.
Hazard: RAW on the operands, from the TMA loads to the wgmma.
Fires: from two k tiles on; the first tile is in the first stage.
An Await counts arrivals: for the k-th tile, the first stage's is k % RING arrivals back.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_load, Sm90_wgmma_tf32, Sm90_zero_scale_d

RING = 4

WARPS = [
    CudaWarpConfig("producer", 1, 40, 0),
    CudaWarpConfig("unused", 3, 40, 0),
    CudaWarpConfig("consumer", 4, 0, 232),
]


def make(name: str, stale: bool) -> Procedure:
    """The consumer waits on the first stage's barrier, or on that of the stage that it reads."""

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
                A_smem: f32[RING, 64, 32] @ Sm90_SmemSwizzled(128)  # [end_A]
                B_smem: f32[RING, 64, 32] @ Sm90_SmemSwizzled(128)  # [end_B]
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                full: barrier @ CudaMbarrier  # [end_full]
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
                        Arrive(cuda_temporal) >> full
                    with CudaWarps(name="consumer"):
                        if stale:
                            for stage in range(RING):
                                if k % RING == stage:
                                    Await(full, cuda_generic_and_async, ~stage)
                        else:
                            Await(full, cuda_generic_and_async, ~0)
                        for kk in seq(0, 4):
                            Sm90_wgmma_tf32(  # [wgmma]
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


bug = make("bug", stale=True)
# refuted at K=36: RAW A_smem load_A wgmma, RAW B_smem load_B wgmma,
#     FREE A_smem load_A end_A, FREE B_smem load_B end_B,
#     FREE full load_A end_full, FREE full load_B end_full
# safe iff K <= 32
# safe at K=32
fix = make("fix", stale=False)
# safe
