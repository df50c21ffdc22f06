"""Names that are words of SMT-LIB or of a solver, or begin as few do."""

from __future__ import annotations

from exogpu import *


@proc
def names(_K: size, let: size, x: f32[_K, 32] @ CudaGmemLinear, y: f32[_K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for _ in cuda_tasks(0, 1):
            tile: f32[2, 32] @ CudaSmemLinear
            for min in seq(0, _K):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    tile[min % 2, t] = x[min, t]
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[min, t] = tile[min % 2, 31 - t]
            Fence(cuda_in_order, cuda_in_order)
