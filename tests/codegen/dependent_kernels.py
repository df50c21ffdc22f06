"""Kernels whose second launch is dependent: with TMA, with roles, and where it waits by default."""

from __future__ import annotations

from exogpu import proc
from exogpu.isa.sm90 import Sm90_tma_load


@proc
def scaled_by(
    M: size,
    w: f32[32, 32] @ CudaGmemLinear,
    x: f32[32 * M, 32] @ CudaGmemLinear,
    y: f32[32 * M, 32] @ CudaGmemLinear,
    z: f32[32 * M, 32] @ CudaGmemLinear,
):
    """y = x + x, then z = w * y: w is loaded before y is waited for, and y comes by TMA."""
    y_map = y[:, :] @ Sm90_tensorMap(0, 32, 32)
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for i in seq(0, 32):
                    y[32 * m + i, t] = x[32 * m + i, t] + x[32 * m + i, t]
    with CudaDeviceFunction(blockDim=32, dependent=True):
        for m in cuda_tasks(0, M):
            tile: f32[32, 32] @ CudaSmemLinear
            here: barrier @ CudaMbarrier
            factor: f32[32, 32]
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for i in seq(0, 32):
                    factor[t, i] = w[i, t]
            Fence(cuda_stream_sync, cuda_generic_and_async)
            (
                Sm90_tma_load(
                    tile[:, :],
                    y_map[32 * m : 32 * m + 32, :],
                    rows=32,
                    cols=32,
                    box=(32, 32),
                    swizzle=0,
                )
                >> here
            )
            Arrive(cuda_temporal) >> here
            Await(here, cuda_in_order, ~0)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for i in seq(0, 32):
                    z[32 * m + i, t] = factor[t, i] * tile[i, t]
            Fence(cuda_in_order, cuda_generic_and_async)


@proc
def in_two(n: size, x: f32[n, 32] @ CudaGmemLinear, y: f32[n, 32] @ CudaGmemLinear):
    assert n >= 0
    part: f32[n, 32] @ CudaGmemLinear
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                part[i, t] = x[i, t] + x[i, t]
    with CudaDeviceFunction(blockDim=32, dependent=True):
        for i in cuda_tasks(0, 4):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                if i < n:
                    y[i, t] = part[i, 31 - t]
