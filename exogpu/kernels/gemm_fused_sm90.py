"""C[l, m, n] = f(bias[n] + sum over k of A[l, m, k] * B[l, n, k]) + residual[l, m, n], for Hopper.

Multiplied as in `gemm_sm90`, by a ring that runs on from tile to tile, in tf32, bf16 or f16 with
sums of f32; what follows the product is a loop over the accumulator's fragment, in f32, rounded
once.
One procedure a configuration: `gemm_fused_<type>_sm90_<cluster m>x<cluster n>_<tile m>x<tile n>`,
followed by what it has of `_bias`, the activation and `_residual`.
"""

from __future__ import annotations

from typing import Final

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.language import bf16, f32
from exogpu.ir.types import DataType
from exogpu.kernels.array_arguments import ACTIVATIONS
from exogpu.kernels.gemm_epilogue import make_epilogue
from exogpu.kernels.gemm_sm90 import make_product, operand_map, warps


def name_of(
    CM: int,
    CN: int,
    TM: int,
    TN: int,
    dtype: DataType,
    bias: bool,
    activation: str,
    residual: bool,
) -> str:
    """The procedure's name.

    >>> name_of(1, 1, 128, 256, bf16, True, "gelu", False)
    'gemm_fused_bf16_sm90_1x1_128x256_bias_gelu'
    """
    ends = ("bias" * bias, activation, "residual" * residual)
    of = f"gemm_fused_{dtype.value}_sm90_{CM}x{CN}_{TM}x{TN}"
    return "_".join((of, *(end for end in ends if end)))


def make_gemm_fused(
    CM: int,
    CN: int,
    TM: int,
    TN: int,
    RING: int = 4,
    *,
    dtype: DataType = f32,
    bias: bool = True,
    activation: str = "relu",
    residual: bool = False,
) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA.

    Bias and residual are of the type of A, B and C, and are parameters if asked for.
    """
    assert activation in ACTIVATIONS
    MM = TM // 2  # rows of a warpgroup
    TK = 128 // dtype.bytes  # columns of a step
    CHUNK = 16 // dtype.bytes
    product = make_product(
        CM, CN, TM, TN, RING, split=False, resident=True, slots=True, dtype=dtype
    )
    epilogue = make_epilogue(CM, CN, TM, TN, dtype=dtype)
    name = name_of(CM, CN, TM, TN, dtype, bias, activation, residual)

    @macro
    def finish(sums, bias_of, residual_of, M, N, batch, row, column):
        for i, j in fragment(sums[:, :]):
            if row + i < M and column + j < N:
                if bias:
                    sums[i, j] += bias_of[column + j]
                if activation == "relu":
                    sums[i, j] = relu(sums[i, j])
                if activation == "gelu":
                    sums[i, j] = sums[i, j] * (0.5 + 0.5 * erf(sums[i, j] * 0.7071067811865476))
                if activation == "silu":
                    sums[i, j] = sums[i, j] * sigmoid(sums[i, j])
                if residual:
                    sums[i, j] += residual_of[batch, row + i, column + j]

    @macro
    def launched(L, M, N, K, A, B, bias_of, residual_of, C):
        A_map = A[:, :, :] @ operand_map(dtype, 1, TM // CN, TK)
        B_map = B[:, :, :] @ operand_map(dtype, 1, TN // CM, TK)
        with CudaDeviceFunction(clusterDim=CM * CN, warp_config=warps(2)):
            A_smem: dtype[CM, CN, RING, TM, TK] @ Sm90_SmemSwizzled(128)
            B_smem: dtype[CM, CN, RING, TN, TK] @ Sm90_SmemSwizzled(128)
            full: barrier[CM, CN] @ CudaMbarrier
            empty: barrier(full)[CM, CN] @ CudaMbarrier
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + CM * TM - 1) / (CM * TM)):
                    for tn in cuda_tasks(0, (N + CN * TN - 1) / (CN * TN)):
                        D: f32[CM, CN, 2, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                        steps = (K + TK - 1) / TK
                        product(
                            D, A_map, B_map, steps, batch, tm, tn, None, A_smem, B_smem, full, empty
                        )
                        with CudaWarps(name="consumer"):
                            for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                                for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                                    for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                                        finish(
                                            D[m, n, wg, :, :],
                                            bias_of,
                                            residual_of,
                                            M,
                                            N,
                                            batch,
                                            (CM * tm + m) * TM + MM * wg,
                                            (CN * tn + n) * TN,
                                        )
                        epilogue(C, D, M, N, batch, tm, tn)

    if bias and residual:

        @proc(name=name)
        def gemm_fused_sm90(
            L: size,
            M: size,
            N: size,
            cluster_K: size,
            A: dtype[L, M, cluster_K] @ CudaGmemLinear,
            B: dtype[L, N, cluster_K] @ CudaGmemLinear,
            bias: dtype[N] @ CudaGmemLinear,
            residual: dtype[L, M, N] @ CudaGmemLinear,
            C: dtype[L, M, N] @ CudaGmemLinear,
        ):
            assert cluster_K % CHUNK == 0  # TMA strides are multiples of 16 bytes
            launched(L, M, N, cluster_K, A, B, bias, residual, C)

        return gemm_fused_sm90

    if residual:

        @proc(name=name)
        def gemm_fused_sm90(
            L: size,
            M: size,
            N: size,
            cluster_K: size,
            A: dtype[L, M, cluster_K] @ CudaGmemLinear,
            B: dtype[L, N, cluster_K] @ CudaGmemLinear,
            residual: dtype[L, M, N] @ CudaGmemLinear,
            C: dtype[L, M, N] @ CudaGmemLinear,
        ):
            assert cluster_K % CHUNK == 0  # TMA strides are multiples of 16 bytes
            launched(L, M, N, cluster_K, A, B, None, residual, C)

        return gemm_fused_sm90

    if bias:

        @proc(name=name)
        def gemm_fused_sm90(
            L: size,
            M: size,
            N: size,
            cluster_K: size,
            A: dtype[L, M, cluster_K] @ CudaGmemLinear,
            B: dtype[L, N, cluster_K] @ CudaGmemLinear,
            bias: dtype[N] @ CudaGmemLinear,
            C: dtype[L, M, N] @ CudaGmemLinear,
        ):
            assert cluster_K % CHUNK == 0  # TMA strides are multiples of 16 bytes
            launched(L, M, N, cluster_K, A, B, bias, None, C)

        return gemm_fused_sm90

    @proc(name=name)
    def gemm_fused_sm90(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        A: dtype[L, M, cluster_K] @ CudaGmemLinear,
        B: dtype[L, N, cluster_K] @ CudaGmemLinear,
        C: dtype[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % CHUNK == 0  # TMA strides are multiples of 16 bytes
        launched(L, M, N, cluster_K, A, B, None, None, C)

    return gemm_fused_sm90


RINGS: Final = {256: 4, 128: 6}
"""Steps of a ring, by the columns of a tile."""

KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        make_gemm_fused(1, 1, 128, 256, dtype=bf16, activation="gelu"),
        make_gemm_fused(1, 1, 128, 256, dtype=bf16, activation="", bias=False, residual=True),
    )
}
"""By name; others are proved when they are first asked for."""
