"""C[l, m, n] = relu(bias[n] + sum over k of A[l, m, k] * B[l, n, k]), tf32, for Hopper.

Multiplied as in `gemm_sm90`; the output tile goes through shared memory, from where the threads of
a warpgroup take it row by row.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.hw.language import f32
from exogpu.isa.sm90 import Sm90_stage_D
from exogpu.kernels.gemm_sm90 import WARPS, make_product, operand_map


def make_gemm_bias_relu(CM: int, CN: int, TM: int, TN: int, RING: int = 4) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA."""
    MM = TM // 2  # rows of a warpgroup
    product = make_product(CM, CN, TM, TN, RING, split=False)

    @proc(name=f"gemm_bias_relu_sm90_{CM}x{CN}_{TM}x{TN}")
    def gemm_bias_relu_sm90(
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
        A_map = A[:, :, :] @ operand_map(f32, 1, TM // CN, 32)
        B_map = B[:, :, :] @ operand_map(f32, 1, TN // CM, 32)
        with CudaDeviceFunction(clusterDim=CM * CN, warp_config=WARPS):
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + CM * TM - 1) / (CM * TM)):
                    for tn in cuda_tasks(0, (N + CN * TN - 1) / (CN * TN)):
                        D: f32[CM, CN, 2, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                        product(D, A_map, B_map, cluster_K, batch, tm, tn, None)
                        # The ring is done with: its shared memory may hold the output tile.
                        Fence(cuda_in_order, cuda_generic_and_async)
                        C_smem: f32[CM, CN, 2, MM, TN] @ CudaSmemLinear
                        with CudaWarps(name="consumer"):
                            for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                                for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                                    for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                                        Sm90_stage_D(
                                            C_smem[m, n, wg, :, :],
                                            D[m, n, wg, :, :],
                                            M=MM,
                                            N=TN,
                                        )
                                        Fence(cuda_in_order, cuda_in_order)
                                        row = (CM * tm + m) * TM + MM * wg
                                        column = (CN * tn + n) * TN
                                        for t in cuda_threads(0, 128, unit=cuda_thread):
                                            for i in seq(0, MM * TN / 128):
                                                if (
                                                    row + (128 * i + t) / TN < M
                                                    and column + (128 * i + t) % TN < N
                                                ):
                                                    C[
                                                        batch,
                                                        row + (128 * i + t) / TN,
                                                        column + (128 * i + t) % TN,
                                                    ] = relu(
                                                        C_smem[
                                                            m,
                                                            n,
                                                            wg,
                                                            (128 * i + t) / TN,
                                                            (128 * i + t) % TN,
                                                        ]
                                                        + bias[column + (128 * i + t) % TN]
                                                    )
                        Fence(cuda_in_order, cuda_generic_and_async)

    return gemm_bias_relu_sm90
