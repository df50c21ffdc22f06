"""One tile of C = A * B^T, with A in registers, and from swizzled shared memory: for the GPU check.

exogpu compile benchmarks/tiles.py -o build/gpu/tiles --cubin
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.hw.language import bf16, f16, f32
from exogpu.isa.mn_major import Sm90_wgmma_mn_f16, Sm90_wgmma_rs_mn_f16
from exogpu.isa.sm80 import Sm80_cp_async_copy
from exogpu.isa.sm90 import (
    Sm90_load_A,
    Sm90_store_D,
    Sm90_tma_load,
    Sm90_wgmma_rs_f16,
    Sm90_wgmma_rs_tf32,
    Sm90_zero_scale_d,
)
from exogpu.kernels.gemm_sm90 import make_gemm


def make_tile(dtype: object, K: int, name: str) -> Procedure:
    """C = A * B^T, 64 x 64 elements from K columns of 32 bytes; A goes through registers."""
    HALF = K // 2

    @proc(name=name)
    def tile(  # noqa: ANN202
        A: dtype[64, K] @ CudaGmemLinear,
        B: dtype[64, K] @ CudaGmemLinear,
        C: f32[64, 64] @ CudaGmemLinear,
    ):
        B_map = B[:, :] @ Sm90_tensorMap(32, 64, K)
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                A_smem: dtype[64, K] @ CudaSmemLinear
                B_smem: dtype[64, K] @ Sm90_SmemSwizzled(32)
                A_reg: dtype[64, K] @ Sm90_RmemMatrixA(64)
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                full: barrier @ CudaMbarrier
                cg: barrier @ CudaCommitGroup
                copies: barrier @ CudaMbarrier
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    Sm80_cp_async_copy(
                        A_smem[t / 2, HALF * (t % 2) : HALF * (t % 2) + HALF],
                        A[t / 2, HALF * (t % 2) : HALF * (t % 2) + HALF],
                        n=HALF,
                        dtype=dtype,
                    )
                Arrive(Sm80_cp_async) >> copies
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    (
                        Sm90_tma_load(
                            B_smem[:, :],
                            B_map[:, :],
                            rows=64,
                            cols=K,
                            box=(64, K),
                            swizzle=32,
                            dtype=dtype,
                        )
                        >> full
                    )
                    Arrive(cuda_temporal) >> full
                Await(copies, cuda_in_order, ~0)
                Sm90_load_A(A_reg[:, :], A_smem[:, :], K=K, dtype=dtype)
                Await(full, cuda_generic_and_async, ~0)
                Sm90_zero_scale_d(D[:, :], M=64, N=64)
                Fence(wgmma_fence_1, wgmma_fence_2)
                if dtype is f32:
                    Sm90_wgmma_rs_tf32(D[:, :], A_reg[:, :], B_smem[:, :], N=64, swizzle=32)
                else:
                    Sm90_wgmma_rs_f16(
                        D[:, :], A_reg[:, :], B_smem[:, :], N=64, swizzle=32, dtype=dtype
                    )
                Arrive(wgmma_async) >> cg
                Await(cg, cuda_in_order, 0)
                Sm90_store_D(64, 64, C[:, :], D[:, :], M=64, N=64)
                Fence(cuda_in_order, cuda_in_order)

    return tile


def make_columns(
    dtype: object, K: int, N: int, swizzle: int, *, registers: bool = False
) -> Procedure:
    """C = A * B, 128 x N elements, from K rows of B."""
    wide = swizzle // 2
    blocks = N // wide
    groups = 2 if registers else 1
    MM = 128 // groups
    place = "registers" if registers else "shared"

    @proc(name=f"columns_{place}_{dtype.value}_{K}x{N}_{swizzle}")
    def tile(  # noqa: ANN202
        A: dtype[128, K] @ CudaGmemLinear,
        BT: dtype[K, N] @ CudaGmemLinear,
        C: f32[128, N] @ CudaGmemLinear,
    ):
        A_map = A[:, :] @ Sm90_tensorMap(swizzle, 128, wide)
        B_map = BT[:, :] @ Sm90_tensorMap(swizzle, K, wide)
        with CudaDeviceFunction(blockDim=128 * groups):
            for task in cuda_tasks(0, 1):
                A_smem: dtype[K / wide, 128, wide] @ Sm90_SmemSwizzled(swizzle)
                B_smem: dtype[blocks, K, wide] @ Sm90_SmemSwizzled(swizzle)
                A_reg: dtype[groups, K / 16, 64, 16] @ Sm90_RmemMatrixA(64)
                D: f32[groups, MM, N] @ Sm90_RmemMatrixD(MM, N)
                full: barrier @ CudaMbarrier
                cg: barrier[groups] @ CudaCommitGroup
                with CudaWarps(0, 1):
                    for k in seq(0, K / wide):
                        (
                            Sm90_tma_load(
                                A_smem[k, :, :],
                                A_map[:, wide * k : wide * k + wide],
                                rows=128,
                                cols=wide,
                                box=(128, wide),
                                swizzle=swizzle,
                                dtype=dtype,
                            )
                            >> full
                        )
                    for b in seq(0, blocks):
                        (
                            Sm90_tma_load(
                                B_smem[b, :, :],
                                B_map[:, wide * b : wide * b + wide],
                                rows=K,
                                cols=wide,
                                box=(K, wide),
                                swizzle=swizzle,
                                dtype=dtype,
                            )
                            >> full
                        )
                    Arrive(cuda_temporal) >> full
                Await(full, cuda_generic_and_async, ~0)
                for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                    Sm90_zero_scale_d(D[wg, :, :], M=MM, N=N)
                    if registers:
                        for k in seq(0, K / 16):
                            for m, kk in fragment(A_reg[wg, k, :, :]):
                                A_reg[wg, k, m, kk] = A[64 * wg + m, 16 * k + kk]
                    Fence(wgmma_fence_1, wgmma_fence_2)
                    for k in seq(0, K / 16):
                        if registers:
                            Sm90_wgmma_rs_mn_f16(
                                D[wg, :, :],
                                A_reg[wg, k, :, :],
                                B_smem[:, 16 * k : 16 * k + 16, :],
                                N=N,
                                swizzle=swizzle,
                                dtype=dtype,
                            )
                        else:
                            Sm90_wgmma_mn_f16(
                                D[wg, :, :],
                                A_smem[16 * k / wide, :, 16 * k % wide : 16 * k % wide + 16],
                                B_smem[:, 16 * k : 16 * k + 16, :],
                                M=MM,
                                N=N,
                                swizzle=swizzle,
                                dtype=dtype,
                            )
                    Arrive(wgmma_async) >> cg[wg]
                    Await(cg[wg], cuda_in_order, 0)
                    Sm90_store_D(MM, N, C[MM * wg : MM * wg + MM, :], D[wg, :, :], M=MM, N=N)
                Fence(cuda_in_order, cuda_in_order)

    return tile


def make_scalar_tile(swizzle: int) -> Procedure:
    """C = A * B^T, 64 x 64 elements, by threads that read swizzled shared memory."""
    K = swizzle // 4

    @proc(name=f"swizzled_{swizzle}")
    def tile(  # noqa: ANN202
        A: f32[64, K] @ CudaGmemLinear,
        B: f32[64, K] @ CudaGmemLinear,
        C: f32[64, 64] @ CudaGmemLinear,
    ):
        A_map = A[:, :] @ Sm90_tensorMap(swizzle, 64, K)
        B_map = B[:, :] @ Sm90_tensorMap(swizzle, 64, K)
        with CudaDeviceFunction(blockDim=64):
            for task in cuda_tasks(0, 1):
                A_smem: f32[64, K] @ Sm90_SmemSwizzled(swizzle)
                B_smem: f32[64, K] @ Sm90_SmemSwizzled(swizzle)
                full: barrier @ CudaMbarrier
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    (
                        Sm90_tma_load(
                            A_smem[:, :], A_map[:, :], rows=64, cols=K, box=(64, K), swizzle=swizzle
                        )
                        >> full
                    )
                    (
                        Sm90_tma_load(
                            B_smem[:, :], B_map[:, :], rows=64, cols=K, box=(64, K), swizzle=swizzle
                        )
                        >> full
                    )
                    Arrive(cuda_temporal) >> full
                Await(full, cuda_generic_and_async, ~0)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    for i in seq(0, 64):
                        sum: f32
                        sum = 0
                        for k in seq(0, K):
                            sum += A_smem[i, k] * B_smem[t, k]
                        C[i, t] = sum
                Fence(cuda_in_order, cuda_generic_and_async)

    return tile


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        make_tile(f32, 8, "registers_f32"),
        make_tile(f16, 16, "registers_f16"),
        make_tile(bf16, 16, "registers_bf16"),
        *(make_scalar_tile(swizzle) for swizzle in (32, 64, 128)),
        *(make_columns(bf16, 64, 128, swizzle) for swizzle in (32, 64, 128)),
        make_columns(f16, 128, 192, 128),
        make_columns(f16, 64, 64, 128, registers=True),
        make_columns(bf16, 128, 128, 128, registers=True),
        make_columns(bf16, 64, 96, 64, registers=True),
        # Of the four groups of 8 columns that four lanes store, some are missing.
        *(make_gemm(1, 1, 64, columns, 4, 1, dtype=bf16) for columns in (8, 24, 216)),
    )
}
"""By name."""
