"""C[m, n] = sum over k of A[m, k] * B[g, n, k], g being the group of row m, for Hopper.

The rows of A are sorted by group.  A tile has rows `cuts[t]` to `cuts[t + 1]`, at most 128 and all
of group `group[t]`, as `grouped_tiles` finds them: TMA loads 128 rows from the first on, and those
of the next group are multiplied in vain and not stored.  One procedure a configuration:
`gemm_grouped_bf16_sm90_<tile m>x<tile n>`, and of f16, and of f32, multiplied as tf32.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.language import bf16, f16, f32, i32
from exogpu.ir.types import DataType
from exogpu.isa.sm90 import (
    Sm90_store_D,
    Sm90_store_D_f16,
    Sm90_tma_load,
    Sm90_tma_load_tf32,
    Sm90_wgmma_f16,
    Sm90_wgmma_tf32,
    Sm90_zero_scale_d,
)
from exogpu.isa.some_rows import Sm90_store_rows, Sm90_store_rows_f16
from exogpu.kernels.gemm_sm90 import operand_map, warps


def make_grouped(
    TM: int = 128, TN: int = 256, RING: int = 4, groups: int = 2, dtype: DataType = bf16
) -> Procedure:
    """The kernel with tiles of TM x TN, whose rows so many consumer warpgroups divide among them.

    A tile without rows is left out, and the ring runs on from the tile before to the one after.
    """
    MM = TM // groups  # rows of a warpgroup
    TK = 128 // dtype.bytes  # columns of a step, and of one product
    KK = 32 // dtype.bytes
    CHUNK = 16 // dtype.bytes

    @macro
    def load(tile, source, full, rows, box):
        """By the producer: a tile of A or B, f32 rounded to tf32."""
        if dtype is f32:
            Sm90_tma_load_tf32(tile, source, rows=rows, cols=TK, box=box) >> full
        else:
            Sm90_tma_load(tile, source, rows=rows, cols=TK, box=box, dtype=dtype) >> full

    @macro
    def multiply(sums, A_tile, B_tile):
        """By a consumer warpgroup: the products of one step."""
        for kk in seq(0, 4):
            if dtype is f32:
                Sm90_wgmma_tf32(
                    sums[:, :],
                    A_tile[:, KK * kk : KK * kk + KK],
                    B_tile[:, KK * kk : KK * kk + KK],
                    M=MM,
                    N=TN,
                )
            else:
                Sm90_wgmma_f16(
                    sums[:, :],
                    A_tile[:, KK * kk : KK * kk + KK],
                    B_tile[:, KK * kk : KK * kk + KK],
                    M=MM,
                    N=TN,
                    dtype=dtype,
                )

    @macro
    def store(C, row, hi, N, tn, sums):
        """By a consumer warpgroup: of its part of the tile, the rows before `hi`."""
        column = TN * tn
        if row + MM <= hi:
            if dtype is f32:
                Sm90_store_D(
                    MM, N - column, C[row : row + MM, column : column + TN], sums, M=MM, N=TN
                )
            else:
                Sm90_store_D_f16(
                    MM,
                    N - column,
                    C[row : row + MM, column : column + TN],
                    sums,
                    M=MM,
                    N=TN,
                    dtype=dtype,
                )
        else:
            if row < hi:
                if dtype is f32:
                    Sm90_store_rows(
                        hi - row, N - column, C[row:hi, column : column + TN], sums, M=MM, N=TN
                    )
                else:
                    Sm90_store_rows_f16(
                        hi - row,
                        N - column,
                        C[row:hi, column : column + TN],
                        sums,
                        M=MM,
                        N=TN,
                        dtype=dtype,
                    )

    @macro
    def tile(A_map, B_map, C, N, K, lo, hi, g, tn, A_smem, B_smem, full, empty):
        D: f32[groups, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
        cg: barrier[groups] @ CudaCommitGroup
        with CudaWarps(name="consumer"):
            for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                Sm90_zero_scale_d(D[wg, :, :], M=MM, N=TN)
                Fence(wgmma_fence_1, wgmma_fence_2)
        for k in seq(0, (K + TK - 1) / TK):
            with CudaWarps(name="producer"):
                Await(empty, cuda_temporal, ~RING)
                load(
                    A_smem[slot(full), :, :],
                    A_map[lo : lo + TM, TK * k : TK * k + TK],
                    full,
                    TM,
                    (TM, TK),
                )
                load(
                    B_smem[slot(full), :, :],
                    B_map[g, TN * tn : TN * tn + TN, TK * k : TK * k + TK],
                    full,
                    TN,
                    (1, TN, TK),
                )
                Arrive(cuda_temporal) >> full
            with CudaWarps(name="consumer"):
                Await(full, cuda_generic_and_async, ~0)
                for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                    multiply(
                        D[wg, :, :],
                        A_smem[slot(empty), MM * wg : MM * wg + MM, :],
                        B_smem[slot(empty), :, :],
                    )
                    Arrive(wgmma_async) >> cg[wg]
                    Await(cg[wg], cuda_in_order, 0)
                Arrive(cuda_in_order) >> empty
        with CudaWarps(name="consumer"):
            for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                store(C, lo + MM * wg, hi, N, tn, D[wg, :, :])

    @proc(name=f"gemm_grouped_{dtype.value}_sm90_{TM}x{TN}")
    def gemm_grouped_sm90(
        G: size,
        T: size,
        M: size,
        N: size,
        cluster_K: size,
        A: dtype[M, cluster_K] @ CudaGmemLinear,
        B: dtype[G, N, cluster_K] @ CudaGmemLinear,
        cuts: i32[T + 1] @ CudaGmemLinear,
        group: i32[T] @ CudaGmemLinear,
        C: dtype[M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % CHUNK == 0  # TMA strides are multiples of 16 bytes
        assert monotone(cuts)
        A_map = A[:, :] @ operand_map(dtype, TM, TK)
        B_map = B[:, :, :] @ operand_map(dtype, 1, TN, TK)
        with CudaDeviceFunction(warp_config=warps(groups)):
            A_smem: dtype[RING, TM, TK] @ Sm90_SmemSwizzled(128)
            B_smem: dtype[RING, TN, TK] @ Sm90_SmemSwizzled(128)
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for t in cuda_tasks(0, T):
                for tn in cuda_tasks(0, (N + TN - 1) / TN):
                    g = load_index(group[t], 0, G)
                    lo = load_index(cuts[t], 0, M + 1)
                    hi = load_index(cuts[t + 1], 0, M + 1)
                    if lo < hi:
                        tile(
                            A_map,
                            B_map,
                            C,
                            N,
                            cluster_K,
                            lo,
                            hi,
                            g,
                            tn,
                            A_smem,
                            B_smem,
                            full,
                            empty,
                        )

    return gemm_grouped_sm90


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        *(make_grouped(dtype=dtype) for dtype in (bf16, f16, f32)),
        *(make_grouped(TN=128, RING=6, dtype=dtype) for dtype in (bf16, f16, f32)),
    )
}
"""By name."""
