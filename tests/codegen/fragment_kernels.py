"""Kernels with loops over fragments, beside instructions that know the tiles by themselves."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.hw.language import bf16, f16, f32
from exogpu.ir.types import DataType
from exogpu.isa.rows import Sm90_row_max, Sm90_row_sum
from exogpu.isa.sm80 import Sm80_load_A, Sm80_load_B, Sm80_mma_f16, Sm80_mma_tf32, Sm80_store_D
from exogpu.isa.sm90 import (
    Sm90_load_A,
    Sm90_store_D,
    Sm90_wgmma_rs_f16,
    Sm90_wgmma_rs_tf32,
    Sm90_zero_scale_d,
)


def make_stored(N: int = 24, M: int = 64) -> Procedure:
    """Written by a fragment, stored by the instruction; stored by a fragment, too."""

    @proc(name=f"stored_{M}x{N}")
    def stored(
        x: f32[M, N] @ CudaGmemLinear,
        y: f32[M, N] @ CudaGmemLinear,
        z: f32[M, N] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                D: f32[M, N] @ Sm90_RmemMatrixD(M, N)
                for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                    for m, n in fragment(D):
                        D[m, n] = x[m, n]
                    Sm90_store_D(M, N, y[:, :], D[:, :], M=M, N=N)
                    for m, n in fragment(D):
                        if m + n < 50:
                            z[m, n] = D[m, n] * 2.0

    return stored


def make_multiplied(dtype: DataType) -> Procedure:
    """C = A * B^T by wgmma, A written by a fragment; and A again, as an instruction loads it."""
    K = 8 if dtype is f32 else 16
    multiply = Sm90_wgmma_rs_tf32 if dtype is f32 else Sm90_wgmma_rs_f16
    which = {} if dtype is f32 else {"dtype": dtype}

    @proc(name=f"multiplied_{dtype.value}")
    def multiplied(
        A: dtype[64, K] @ CudaGmemLinear,
        B: dtype[8, K] @ CudaGmemLinear,
        C: f32[64, 8] @ CudaGmemLinear,
        D: dtype[64, K] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                staged: dtype[64, K] @ CudaSmemLinear
                factor: dtype[8, K] @ Sm90_SmemSwizzled(32)
                a: dtype[64, K] @ Sm90_RmemMatrixA(64)
                b: dtype[64, K] @ Sm90_RmemMatrixA(64)
                c: f32[64, 8] @ Sm90_RmemMatrixD(64, 8)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    for k in seq(0, K):
                        staged[t, k] = A[t, k]
                for t in cuda_threads(0, 8, unit=cuda_thread):
                    for k in seq(0, K):
                        factor[t, k] = B[t, k]
                Fence(cuda_in_order, cuda_generic_and_async)
                for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                    Sm90_load_A(b[:, :], staged[:, :], K=K, dtype=dtype)
                    for m, k in fragment(a):
                        a[m, k] = A[m, k] + 0.0
                    for m, k in fragment(b):
                        D[m, k] = b[m, k]
                        if k == 1:
                            a[m, k] = b[m, k]
                    Sm90_zero_scale_d(c[:, :], M=64, N=8)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                    if dtype is f32:
                        multiply(c[:, :], a[:, :], factor[:, :], N=8, swizzle=32)
                    else:
                        multiply(c[:, :], a[:, :], factor[:, :], N=8, swizzle=32, dtype=dtype)
                    Fence(wgmma_async, cuda_in_order)
                    Sm90_store_D(64, 8, C[:, :], c[:, :], M=64, N=8)
                Fence(cuda_in_order, cuda_in_order)

    return multiplied


def make_by_a_warp(dtype: DataType) -> Procedure:
    """C = A * B^T by mma.sync, all of it by fragments, and A and B as instructions load them."""
    K = 8 if dtype is f32 else 16

    @proc(name=f"by_a_warp_{dtype.value}")
    def by_a_warp(
        A: dtype[16, K] @ CudaGmemLinear,
        B: dtype[8, K] @ CudaGmemLinear,
        C: f32[16, 8] @ CudaGmemLinear,
        E: dtype[24, K] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                staged: dtype[24, K] @ CudaSmemLinear
                a: dtype[2, 16, K] @ Sm80_RmemMatrixA(16, K)
                b: dtype[2, 8, K] @ Sm80_RmemMatrixB(8, K)
                c: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)
                for t in cuda_threads(0, 16, unit=cuda_thread):
                    for k in seq(0, K):
                        staged[t, k] = A[t, k]
                        if t < 8:
                            staged[16 + t, k] = B[t, k]
                Fence(cuda_in_order, cuda_in_order)
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    Sm80_load_A(a[1, :, :], staged[0:16, :], K=K, dtype=dtype)
                    Sm80_load_B(b[1, :, :], staged[16:24, :], K=K, dtype=dtype)
                    for m, k in fragment(a[0, :, :]):
                        a[0, m, k] = A[m, k]
                        E[m, k] = a[1, m, k]
                    for n, k in fragment(b[0, :, :]):
                        b[0, n, k] = B[n, k]
                        E[16 + n, k] = b[1, n, k]
                    for m, n in fragment(c):
                        c[m, n] = A[m, n]
                    if dtype is f32:
                        Sm80_mma_tf32(c[:, :], a[0, :, :], b[0, :, :], K=K)
                    else:
                        Sm80_mma_f16(c[:, :], a[0, :, :], b[0, :, :], dtype=dtype)
                    Sm80_store_D(16, 8, C[:, :], c[:, :])
                Fence(cuda_in_order, cuda_in_order)

    return by_a_warp


def make_rows(N: int = 16, M: int = 64) -> Procedure:
    """The greatest of each row and the sum, from all copies."""

    @proc(name=f"rows_{M}x{N}")
    def rows(
        x: f32[M, N] @ CudaGmemLinear,
        big: f32[M, 4] @ CudaGmemLinear,
        total: f32[M, 4] @ CudaGmemLinear,
        y: bf16[M, N] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                D: f32[M, N] @ Sm90_RmemMatrixD(M, N)
                r: f32[2, M, 4] @ Sm90_RmemRows(M)
                for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                    for m, n in fragment(D):
                        D[m, n] = x[m, n]
                    Sm90_row_max(r[0, :, :], D[:, :], M=M, N=N)
                    Sm90_row_sum(r[1, :, :], D[:, :], M=M, N=N)
                    for m, copy in fragment(r[0, :, :]):
                        big[m, copy] = r[0, m, copy]
                        total[m, copy] = r[1, m, copy]
                    for m, n in fragment(D):
                        y[m, n] = (D[m, n] - r[0, m]) + r[1, m]

    return rows


KERNELS = (
    make_stored(),
    make_stored(8, 128),
    make_multiplied(f32),
    make_multiplied(f16),
    make_multiplied(bf16),
    make_by_a_warp(f32),
    make_by_a_warp(bf16),
    make_rows(),
    make_rows(8, 128),
)
