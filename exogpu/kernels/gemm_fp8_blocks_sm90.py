"""C[l, m, n] = sum over blocks b of 128 columns of A_scale[l, b, m] * B_scale[l, n / 128, b] times
the sum over k in b of A[l, m, k] * B[l, n, k], of 8-bit floats, for Hopper.

Two levels of sums: the tensor cores, which keep some 14 bits, have a block of 128 columns each; its
sums are scaled and added in f32.  A has a scale for each row and block, B one for 128 x 128.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.language import bf16, f8e4m3, f32
from exogpu.ir.types import DataType
from exogpu.isa.f8 import Sm90_wgmma_f8
from exogpu.isa.sm90 import Sm90_store_D, Sm90_store_D_f16, Sm90_tma_load, Sm90_zero_scale_d
from exogpu.kernels.gemm_sm90 import warps

BLOCK = 128
"""Columns, and rows of B, that have a scale."""


def make_gemm_fp8_blocks(
    RING: int = 6, dtype: DataType = f8e4m3, result: DataType = bf16
) -> Procedure:
    """The kernel with tiles of 128 x 128, whose rows two consumer warpgroups divide among them."""

    @macro
    def load(tile, tensor, batch, row, k, full):
        (
            Sm90_tma_load(
                tile,
                tensor[batch, row : row + 128, 128 * k : 128 * k + 128],
                rows=128,
                cols=128,
                box=(1, 128, 128),
                dtype=dtype,
            )
            >> full
        )

    @macro
    def store(C, total, batch, row, column, M, N):
        if result is f32:
            Sm90_store_D(
                M - row,
                N - column,
                C[batch, row : row + 64, column : column + 128],
                total,
                M=64,
                N=128,
            )
        else:
            Sm90_store_D_f16(
                M - row,
                N - column,
                C[batch, row : row + 64, column : column + 128],
                total,
                M=64,
                N=128,
                dtype=result,
            )

    @proc(name=f"gemm_fp8_blocks_sm90{'_f32' if result is f32 else ''}")
    def gemm_fp8_blocks_sm90(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        scales: size,
        A: dtype[L, M, cluster_K] @ CudaGmemLinear,
        B: dtype[L, N, cluster_K] @ CudaGmemLinear,
        A_scale: f32[L, (cluster_K + 127) / 128, scales] @ CudaGmemLinear,
        B_scale: f32[L, (N + 127) / 128, (cluster_K + 127) / 128] @ CudaGmemLinear,
        C: result[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % 16 == 0 and scales % 4 == 0  # TMA strides are multiples of 16 bytes
        assert scales >= M
        A_map = A[:, :, :] @ Sm90_tensorMap(128, 1, 128, 128)
        B_map = B[:, :, :] @ Sm90_tensorMap(128, 1, 128, 128)
        scale_map = A_scale[:, :, :] @ Sm90_tensorMap(0, 1, 1, 128)
        with CudaDeviceFunction(warp_config=warps(2)):
            A_smem: dtype[RING, 128, 128] @ Sm90_SmemSwizzled(128)
            B_smem: dtype[RING, 128, 128] @ Sm90_SmemSwizzled(128)
            scale_smem: f32[RING, 1, 128] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + 127) / 128):
                    for tn in cuda_tasks(0, (N + 127) / 128):
                        D: f32[2, 64, 128] @ Sm90_RmemMatrixD(64, 128)
                        total: f32[2, 64, 128] @ Sm90_RmemMatrixD(64, 128)
                        factor: f32[2, 64, 4] @ Sm90_RmemRows(64)
                        cg: barrier[2] @ CudaCommitGroup
                        with CudaWarps(name="consumer"):
                            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                                for m, n in fragment(total[wg, :, :]):
                                    total[wg, m, n] = 0.0
                        for k in seq(0, (cluster_K + 127) / 128):
                            with CudaWarps(0, 1, name="producer"):
                                # Scales are read by ordinary loads: TMA follows over a proxy fence.
                                Await(empty, cuda_generic_and_async, ~RING)
                                load(A_smem[slot(full), :, :], A_map, batch, 128 * tm, k, full)
                                load(B_smem[slot(full), :, :], B_map, batch, 128 * tn, k, full)
                                (
                                    Sm90_tma_load(
                                        scale_smem[slot(full), :, :],
                                        scale_map[batch, k : k + 1, 128 * tm : 128 * tm + 128],
                                        rows=1,
                                        cols=128,
                                        box=(1, 1, 128),
                                        swizzle=0,
                                    )
                                    >> full
                                )
                                Arrive(cuda_temporal) >> full
                            with CudaWarps(name="consumer"):
                                Await(full, cuda_generic_and_async, ~0)
                                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                                    Fence(wgmma_fence_1, wgmma_fence_2)
                                    Sm90_zero_scale_d(D[wg, :, :], M=64, N=128)
                                    Fence(wgmma_fence_1, wgmma_fence_2)
                                    for kk in seq(0, 4):
                                        Sm90_wgmma_f8(
                                            D[wg, :, :],
                                            A_smem[
                                                slot(empty),
                                                64 * wg : 64 * wg + 64,
                                                32 * kk : 32 * kk + 32,
                                            ],
                                            B_smem[slot(empty), :, 32 * kk : 32 * kk + 32],
                                            M=64,
                                            N=128,
                                            dtype=dtype,
                                        )
                                    Arrive(wgmma_async) >> cg[wg]
                                    for m in fragment(factor[wg, :, :]):
                                        factor[wg, m] = (
                                            scale_smem[slot(empty), 0, 64 * wg + m]
                                            * B_scale[batch, tn, k]
                                        )
                                    Await(cg[wg], cuda_in_order, 0)
                                Arrive(cuda_in_order) >> empty
                                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                                    for m, n in fragment(total[wg, :, :]):
                                        total[wg, m, n] = fma(
                                            D[wg, m, n], factor[wg, m], total[wg, m, n]
                                        )
                        with CudaWarps(name="consumer"):
                            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                                store(
                                    C,
                                    total[wg, :, :],
                                    batch,
                                    128 * tm + 64 * wg,
                                    128 * tn,
                                    M,
                                    N,
                                )

    return gemm_fp8_blocks_sm90


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel for kernel in (make_gemm_fp8_blocks(), make_gemm_fp8_blocks(result=f32))
}
"""By name."""
