"""C[l, m, n] = sum over s, k of A[l, m, s, k] * B[l, n, s, k], for Hopper, split along K in two
passes: the same inputs give the same bits.

The K_split slices of a tile are tasks of their own, multiplied as in `gemm_sm90`; each stores its
part, and a second kernel, launched dependent on the first, adds the parts of an element in one
order.  The parts are device memory of the procedure's own.
One procedure a configuration:
`gemm_splitk_sum_sm90_<cluster m>x<cluster n>_<tile m>x<tile n>`; A, B and C of
`gemm_splitk_sum_bf16_sm90_...` and `gemm_splitk_sum_f16_sm90_...` have 16 bits.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.hw.language import f32
from exogpu.ir.types import DataType
from exogpu.isa.cuda import cuda_load, cuda_store
from exogpu.kernels.gemm_epilogue import make_epilogue
from exogpu.kernels.gemm_sm90 import HALVES, make_product, operand_map, warps

SUMMING = 4
"""Warps of a CTA of the second pass, which divide the slices among them."""
LOADS = 4
"""Parts that a thread has on their way at a time."""


def make_gemm_splitk_sum(
    CM: int,
    CN: int,
    TM: int,
    TN: int,
    RING: int = 4,
    groups: int = 2,
    dtype: DataType = f32,
    dependent: bool = True,
    *,
    overlapped: bool = False,
) -> Procedure:
    """The kernels for a cluster of CM x CN CTAs with a tile of TM x TN a CTA, whose rows so many
    consumer warpgroups divide among them; the second may be `dependent` on the first; products of
    two steps are `overlapped`, or not."""
    MM = TM // groups  # rows of a warpgroup
    TK = 128 // dtype.bytes  # columns of a step
    CHUNK = 16 // dtype.bytes
    STEP = SUMMING * LOADS
    product = make_product(
        CM, CN, TM, TN, RING, split=True, groups=groups, dtype=dtype, overlapped=overlapped
    )
    epilogue = make_epilogue(CM, CN, TM, TN, groups)
    half = "" if dtype is f32 else f"_{dtype.value}"
    rest = "" if dependent else "_serial"

    @proc(name=f"gemm_splitk_sum{half}_sm90_{CM}x{CN}_{TM}x{TN}{rest}")
    def gemm_splitk_sum_sm90(
        L: size,
        M: size,
        N: size,
        K_split: size,
        cluster_K: size,
        A: dtype[L, M, K_split, cluster_K] @ CudaGmemLinear,
        B: dtype[L, N, K_split, cluster_K] @ CudaGmemLinear,
        C: dtype[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % CHUNK == 0  # TMA strides are multiples of 16 bytes
        assert N % 4 == 0  # parts are read in vectors of 16 bytes
        A_map = A[:, :, :, :] @ operand_map(dtype, 1, TM // CN, 1, TK)
        B_map = B[:, :, :, :] @ operand_map(dtype, 1, TN // CM, 1, TK)
        parts: f32[K_split, L, M, N] @ CudaGmemLinear
        with CudaDeviceFunction(clusterDim=CM * CN, warp_config=warps(groups)):
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + CM * TM - 1) / (CM * TM)):
                    for tn in cuda_tasks(0, (N + CN * TN - 1) / (CN * TN)):
                        for s in cuda_tasks(0, K_split):
                            D: f32[CM, CN, groups, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                            product(D, A_map, B_map, cluster_K, batch, tm, tn, s)
                            # The ring is done with: the next task's loads overlap the stores.
                            Fence(cuda_in_order, cuda_in_order)
                            epilogue(parts[s, :, :, :], D, M, N, batch, tm, tn)
        with CudaDeviceFunction(blockDim=32 * SUMMING, dependent=dependent):
            for batch in cuda_tasks(0, L):
                for m in cuda_tasks(0, M):
                    for block in cuda_tasks(0, (N + 127) / 128):
                        sums: f32[SUMMING, 128] @ CudaSmemLinear
                        for w in cuda_threads(0, SUMMING, unit=cuda_warp):
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                column = 128 * block + 4 * t
                                some: f32[4]
                                for j in seq(0, 4):
                                    some[j] = 0
                                if column < N:
                                    for i in seq(0, (K_split + STEP - 1) / STEP):
                                        part: f32[LOADS, 4]
                                        for u in seq(0, LOADS):
                                            s = STEP * i + SUMMING * u + w
                                            if s < K_split:
                                                cuda_load(
                                                    part[u, :],
                                                    parts[s, batch, m, column : column + 4],
                                                )
                                        for u in seq(0, LOADS):
                                            if STEP * i + SUMMING * u + w < K_split:
                                                for j in seq(0, 4):
                                                    some[j] += part[u, j]
                                cuda_store(sums[w, 4 * t : 4 * t + 4], some[:])
                        Fence(cuda_in_order, cuda_in_order)
                        for t in cuda_threads(0, 128, unit=cuda_thread):
                            if 128 * block + t < N:
                                total: f32
                                total = 0
                                for w in seq(0, SUMMING):
                                    total += sums[w, t]
                                C[batch, m, 128 * block + t] = total
                        Fence(cuda_in_order, cuda_in_order)

    return gemm_splitk_sum_sm90


LARGE = ((1, 1, 128, 256, 4, 2), (2, 1, 128, 256, 4, 2))
"""Cluster, rows, columns, ring, consumer warpgroups."""
SMALL = ((1, 1, 64, 128, 9, 1),)
HALF_SMALL = ((1, 1, 128, 128, 7, 2), (1, 1, 64, 128, 9, 1), (1, 1, 64, 64, 12, 1))
"""A step's products are overlapped with those of the next.  Types of 16 bits are added in f32 and
rounded once."""

KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        *(make_gemm_splitk_sum(*one) for one in LARGE),
        *(make_gemm_splitk_sum(*one, overlapped=True) for one in SMALL),
        *(make_gemm_splitk_sum(*one, dtype=half) for half in HALVES for one in LARGE),
        *(
            make_gemm_splitk_sum(*one, dtype=half, overlapped=True)
            for half in HALVES
            for one in HALF_SMALL
        ),
    )
}
"""Every configuration, by name."""
