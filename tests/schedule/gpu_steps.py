"""Small kernels whose synchronisation is changed."""

from __future__ import annotations

from exogpu import CudaWarpConfig, proc
from exogpu.isa.sm80 import Sm80_cp_async_copy
from exogpu.isa.sm90 import Sm90_tma_load, Sm90_tma_store

ROLES = [
    CudaWarpConfig("producer", 1, 40, 0),
    CudaWarpConfig("unused", 3, 40, 0),
    CudaWarpConfig("consumer", 4, 0, 232),
]


@proc
def reversal(M: size, x: f32[M, 128] @ CudaGmemLinear, y: f32[M, 128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for m in cuda_tasks(0, M):
            tile: f32[128] @ CudaSmemLinear
            for t in cuda_threads(0, 128, unit=cuda_thread):
                tile[t] = x[m, t]
            for t in cuda_threads(0, 128, unit=cuda_thread):
                y[m, t] = tile[127 - t]
            Fence(cuda_in_order, cuda_in_order)


@proc
def fenced(M: size, x: f32[M, 128] @ CudaGmemLinear, y: f32[M, 128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for m in cuda_tasks(0, M):
            tile: f32[128] @ CudaSmemLinear
            for t in cuda_threads(0, 128, unit=cuda_thread):
                tile[t] = x[m, t]
            Fence(cuda_in_order, cuda_in_order)
            for w in cuda_threads(0, 4, unit=cuda_warp):
                Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 128, unit=cuda_thread):
                y[m, t] = tile[127 - t]
            Fence(cuda_in_order, cuda_in_order)


@proc
def copied(M: size, x: f32[M, 128] @ CudaGmemLinear, y: f32[M, 128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            tile: f32[128] @ CudaSmemLinear
            for t in cuda_threads(0, 32, unit=cuda_thread):
                Sm80_cp_async_copy(tile[4 * t : 4 * t + 4], x[m, 4 * t : 4 * t + 4])
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for i in seq(0, 4):
                    y[m, 4 * t + i] = tile[127 - 4 * t - i]


@proc
def loaded(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    assert M % 8 == 0
    x_map = x[:, :] @ Sm90_tensorMap(128, 8, 32)
    with CudaDeviceFunction(warp_config=ROLES):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 8, 32] @ Sm90_SmemSwizzled(128)
            full: barrier @ CudaMbarrier
            for m in seq(0, M / 8):
                with CudaWarps(0, 1, name="producer"):
                    (
                        Sm90_tma_load(
                            tile[m % 2, :, :],
                            x_map[8 * m : 8 * m + 8, :],
                            rows=8,
                            cols=32,
                            box=(8, 32),
                        )
                        >> full
                    )
                    Arrive(cuda_temporal) >> full
                with CudaWarps(0, 1, name="consumer"):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        for i in seq(0, 8):
                            y[8 * m + i, t] = tile[m % 2, i, t]


@proc
def plain(M: size):
    for m in seq(0, M):
        for t in seq(0, 32):
            pass


@proc
def staged(M: size, x: f32[M, 8, 32] @ CudaGmemLinear, y: f32[8 * M, 32] @ CudaGmemLinear):
    y_map = y[:, :] @ Sm90_tensorMap(0, 8, 32)
    with CudaDeviceFunction(blockDim=256):
        for m in cuda_tasks(0, M):
            tile: f32[8, 32] @ CudaSmemLinear
            for t in cuda_threads(0, 256, unit=cuda_thread):
                tile[t / 32, t % 32] = x[m, t / 32, t % 32]
            with CudaWarps(0, 1):
                Sm90_tma_store(
                    y_map[8 * m : 8 * m + 8, :],
                    tile[:, :],
                    rows=8,
                    cols=32,
                    box=(8, 32),
                    swizzle=0,
                )


@proc
def racing(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[1, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[0, t] = x[m, t]


@proc
def beyond(M: size, x: f32[M, 128] @ CudaGmemLinear, y: f32[M, 128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 128, unit=cuda_thread):
                y[m, t] = x[m, t + 1]
