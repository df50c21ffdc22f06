"""What an instruction cannot do is a type error: memories, types and shapes that it lacks."""

from __future__ import annotations

from exogpu import proc
from exogpu.hw.language import f16, f64, i64, ui16
from exogpu.isa.cuda import (
    cuda_load,
    cuda_memcpy_to_device,
    cuda_shfl_down,
    cuda_shfl_idx,
    cuda_shfl_xor,
    cuda_store,
)
from exogpu.isa.sm80 import (
    Sm80_cp_async_copy,
    Sm80_cp_async_copy_zfill,
    Sm80_load_A,
    Sm80_load_B,
    Sm80_mma_f16,
    Sm80_mma_tf32,
    Sm80_store_D,
    Sm80_zero_D,
)
from exogpu.isa.sm90 import Sm90_load_A, Sm90_stage_D, Sm90_store_D, Sm90_tma_reduce, Sm90_wgmma_f16


@proc
def shuffles():
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            a: f32[32]
            b: f32[32]
            cuda_shfl_down(a[:], b[:], delta=0)
            cuda_shfl_down(a[:], b[:], delta=31)
            cuda_shfl_down(a[:], b[:], delta=32)  # expect: T221
            cuda_shfl_down(a[:], b[:], delta=33)  # expect: T221
            cuda_shfl_down(a[:], b[:], delta=-1)  # expect: T221
            cuda_shfl_xor(a[:], b[:], mask=16)
            cuda_shfl_xor(a[:], b[:], mask=3)  # expect: T221
            cuda_shfl_xor(a[:], b[:], mask=32)  # expect: T221
            cuda_shfl_xor(a[:], b[:], mask=0)  # expect: T221
            cuda_shfl_idx(a[:], b[:], lane=31)
            cuda_shfl_idx(a[:], b[:], lane=32)  # expect: T221
            cuda_shfl_idx(a[:], b[:], lane=-1)  # expect: T221


@proc
def vectors(x: f32[32] @ CudaGmemLinear, g: f32 @ CudaGridConstant):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            a: f32[32, 4]
            s: f32[32] @ CudaSmemLinear
            w: f32[8, 32] @ Sm90_SmemSwizzled(128)
            for t in cuda_threads(0, 8, unit=cuda_thread):
                cuda_load(a[t, :], x[4 * t : 4 * t + 4])
                cuda_load(a[t, :], s[4 * t : 4 * t + 4])
                cuda_load(a[t, :], w[t, 0:4])  # expect: T227
                cuda_load(a[t, 0:3], x[0:3], n=3)  # expect: T221
                cuda_load(a[t, 0:0], x[0:0], n=0)  # expect: T221
                cuda_store(x[0:3], a[t, 0:3], n=3)  # expect: T221
                Sm80_cp_async_copy(s[4 * t : 4 * t + 4], x[4 * t : 4 * t + 4])
                Sm80_cp_async_copy(s[0:3], x[0:3], n=3)  # expect: T221
                Sm80_cp_async_copy(s[0:4], s[4:8])  # expect: T227
                Sm80_cp_async_copy(x[0:4], s[4:8])  # expect: T227
                Sm80_cp_async_copy_zfill(4, s[0:4], s[4:8])  # expect: T227
                Sm80_cp_async_copy_zfill(4, s[0:3], x[4:7], n=3)  # expect: T221


@proc
def tiles(x: f32[64, 8] @ CudaGmemLinear, y: f64[16, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            s: f32[64, 8] @ CudaSmemLinear
            w: f32[64, 8] @ Sm90_SmemSwizzled(32)
            a: f32[16, 8] @ Sm80_RmemMatrixA(16, 8)
            long: f32[16, 16] @ Sm80_RmemMatrixA(16, 16)
            b: f32[8, 8] @ Sm80_RmemMatrixB(8, 8)
            h: f16[16, 8] @ Sm80_RmemMatrixA(16, 8)
            d: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)
            e: f32[32, 8] @ Sm80_RmemMatrixD(32, 8)
            f: f32[64, 8] @ Sm90_RmemMatrixD(64, 8)
            A: f32[64, 8] @ Sm90_RmemMatrixA(64)
            hs: f16[16, 8] @ CudaSmemLinear
            for t in cuda_threads(0, 1, unit=cuda_warp):
                Sm80_load_A(a[:, :], s[0:16, :])
                Sm80_load_A(a[:, :], w[0:16, :])  # expect: T227
                Sm80_load_A(a[:, :], x[0:16, :])  # expect: T227
                Sm80_load_A(h[:, :], hs[:, :], dtype=f16)  # expect: T221
                Sm80_load_A(long[:, :], s[0:16, :], K=16)  # expect: T221
                Sm80_load_B(b[:, :], s[0:8, :])
                Sm80_load_B(b[:, :], w[0:8, :])  # expect: T227
                Sm80_load_B(b[:, :], s[0:8, :], K=16)  # expect: T221
                Sm80_mma_tf32(d[:, :], long[:, :], b[:, :], K=16)  # expect: T221
                Sm80_mma_f16(d[:, :], a[:, :], b[:, :], dtype=ui16)  # expect: T221
                Sm80_zero_D(e[:, :], M=32)  # expect: T221
                Sm80_store_D(16, 8, x[0:16, :], d[:, :])
                Sm80_store_D(16, 8, s[0:16, :], d[:, :])
                Sm80_store_D(16, 8, w[0:16, :], d[:, :])  # expect: T227
                Sm80_store_D(32, 8, x[0:32, :], e[:, :], M=32)  # expect: T221
            for t in cuda_threads(0, 1, unit=cuda_warpgroup):
                Sm90_load_A(A[:, :], s[:, :])
                Sm90_load_A(A[:, :], w[:, :])  # expect: T227
                Sm90_load_A(A[:, :], s[:, :], dtype=i64)  # expect: T221
                Sm90_load_A(A[:, :], s[:, :], K=4)  # expect: T221
                Sm90_store_D(64, 8, x[:, :], f[:, :], N=8)
                Sm90_store_D(64, 8, s[:, :], f[:, :], N=8)  # expect: T227
                Sm90_store_D(64, 8, w[:, :], f[:, :], N=8)  # expect: T227
                Sm90_store_D(32, 8, x[0:32, :], f[:, :], M=32, N=8)  # expect: T221
                Sm90_stage_D(x[:, :], f[:, :], N=16)  # expect: T227
                Sm90_stage_D(w[:, :], f[:, :], N=16)  # expect: T227
                Sm90_wgmma_f16(f[:, :], w[:, :], w[:, :], N=8, dtype=f64)  # expect: T221


@proc
def reduced(x: i64[8, 16] @ CudaGmemLinear):
    m = x[:, :] @ Sm90_tensorMap(0, 8, 16)
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            s: i64[8, 16] @ CudaSmemLinear
            Sm90_tma_reduce(  # expect: T221
                m[:, :], s[:, :], rows=8, cols=16, box=(8, 16), dtype=i64
            )


@proc
def stream(x: f32[64] @ CudaGmemLinear, h: f32[64] @ DRAM):
    cuda_memcpy_to_device(64, x[:], h[:])
    cuda_memcpy_to_device(64, h[:], x[:])  # expect: T227
