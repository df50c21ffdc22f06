"""CUTLASS #3324: a barrier of one CTA where two CTAs of a cluster share shared memory.

Fact: two CTAs of a cluster shared shared memory behind a barrier whose semantics were those of
one CTA.  There it was the scope of an mbarrier, which in this language follows from who arrives
where; here it is a Fence of each CTA before a multicast writes into both.
Hazards: WAR on the shared tile, from the wgmma of one CTA to the multicast of the other; and WAW,
since a CTA that waits for its own copy does not know that the other one's has landed.
Fires: from two k tiles on, when the buffer is filled for the second time.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import (
    Sm90_store_D,
    Sm90_tma_load,
    Sm90_tma_multicast,
    Sm90_wgmma_tf32,
    Sm90_zero_scale_d,
)


def make(name: str, whole_cluster: bool) -> Procedure:
    """The barrier at the end of the loop's body is the cluster's, or one a CTA."""

    @proc(name=name)
    def gemm(
        K: size,
        A: f32[128, K] @ CudaGmemLinear,
        B: f32[64, K] @ CudaGmemLinear,
        C: f32[128, 64] @ CudaGmemLinear,
    ):
        assert K % 4 == 0
        A_map = A[:, :] @ Sm90_tensorMap(128, 64, 32)
        B_map = B[:, :] @ Sm90_tensorMap(128, 32, 32)
        with CudaDeviceFunction(clusterDim=2, blockDim=128):
            for task in cuda_tasks(0, 1):
                A_smem: f32[2, 64, 32] @ Sm90_SmemSwizzled(128)
                B_smem: f32[2, 64, 32] @ Sm90_SmemSwizzled(128)
                D: f32[2, 64, 64] @ Sm90_RmemMatrixD(64, 64)
                full: barrier[2] @ CudaMbarrier
                cg: barrier[2] @ CudaCommitGroup
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    Sm90_zero_scale_d(D[cta, :, :], N=64)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                for k in seq(0, (K + 31) / 32):
                    with CudaWarps(0, 1):
                        for cta in cuda_threads(0, 2, unit=cuda_warp_in_cluster):
                            (
                                Sm90_tma_load(
                                    A_smem[cta, :, :],
                                    A_map[64 * cta : 64 * cta + 64, 32 * k : 32 * k + 32],
                                    rows=64,
                                    cols=32,
                                    box=(64, 32),
                                )
                                >> full[cta]
                            )
                        (  # [multicast]
                            Sm90_tma_multicast(
                                B_smem[:, :, :],
                                B_map[0:64, 32 * k : 32 * k + 32],
                                n=2,
                                rows=64,
                                cols=32,
                                box=(32, 32),
                            )
                            >> full[:]
                        )
                        for cta in cuda_threads(0, 2, unit=cuda_warp_in_cluster):
                            Arrive(cuda_temporal) >> full[cta]
                    for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                        Await(full[cta], cuda_generic_and_async, ~0)
                        for kk in seq(0, 4):
                            Sm90_wgmma_tf32(  # [wgmma]
                                D[cta, :, :],
                                A_smem[cta, :, 8 * kk : 8 * kk + 8],
                                B_smem[cta, :, 8 * kk : 8 * kk + 8],
                                N=64,
                            )
                        Arrive(wgmma_async) >> cg[cta]
                        Await(cg[cta], cuda_in_order, 0)
                        if not whole_cluster:
                            Fence(cuda_in_order, cuda_in_order)
                    if whole_cluster:
                        Fence(cuda_in_order, cuda_in_order)
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    Sm90_store_D(64, 64, C[64 * cta : 64 * cta + 64, :], D[cta, :, :], N=64)
                Fence(cuda_in_order, cuda_in_order)

    return gemm


bug = make("bug", whole_cluster=False)
# refuted at K=36: WAR B_smem wgmma multicast, WAW B_smem multicast multicast
# safe iff K <= 32
# safe at K=32
fix = make("fix", whole_cluster=True)
# safe
