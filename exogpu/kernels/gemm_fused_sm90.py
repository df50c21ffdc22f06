"""C[l, m, n] = relu(bias[n] + sum over k of A[l, m, k] * B[l, n, k]), tf32, for Hopper.

Multiplied as in `gemm_sm90`; what follows the product is a loop over the accumulator's fragment.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.kernels.gemm_sm90 import WARPS, make_product


def make_gemm_fused(CM: int, CN: int, TM: int, TN: int, RING: int = 4) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA."""
    MM = TM // 2  # rows of a warpgroup
    product = make_product(CM, CN, TM, TN, RING, split=False)

    @proc(name=f"gemm_fused_sm90_{CM}x{CN}_{TM}x{TN}")
    def gemm_fused_sm90(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        A: f32[L, M, cluster_K] @ CudaGmemLinear,
        B: f32[L, N, cluster_K] @ CudaGmemLinear,
        bias: f32[N] @ CudaGmemLinear,
        C: f32[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % 4 == 0  # TMA strides are multiples of 16 bytes
        A_map = A[:, :, :] @ Sm90_tensorMap(128, 1, TM // CN, 32)
        B_map = B[:, :, :] @ Sm90_tensorMap(128, 1, TN // CM, 32)
        with CudaDeviceFunction(clusterDim=CM * CN, warp_config=WARPS):
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + CM * TM - 1) / (CM * TM)):
                    for tn in cuda_tasks(0, (N + CN * TN - 1) / (CN * TN)):
                        D: f32[CM, CN, 2, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                        product(D, A_map, B_map, cluster_K, batch, tm, tn, None)
                        # The ring is done with: the next task's loads overlap the stores.
                        Fence(cuda_in_order, cuda_in_order)
                        with CudaWarps(name="consumer"):
                            for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                                for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                                    for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                                        row = (CM * tm + m) * TM + MM * wg
                                        column = (CN * tn + n) * TN
                                        for i, j in fragment(D[m, n, wg, :, :]):
                                            if row + i < M and column + j < N:
                                                C[batch, row + i, column + j] = relu(
                                                    D[m, n, wg, i, j] + bias[column + j]
                                                )

    return gemm_fused_sm90
