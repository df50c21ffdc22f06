"""A ring that counts on across an outer loop: its counts are products, told per iteration."""

from __future__ import annotations

from exogpu import *


@proc
def nest(
    J: size,
    K: size,
    x: f32[J, 2 * K, 32] @ CudaGmemLinear,
    y: f32[J, 2 * K, 32] @ CudaGmemLinear,
):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for i in seq(0, J):
                for k in seq(0, 2 * K):
                    with CudaWarps(0, 1):
                        Await(empty, cuda_in_order, ~2)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            tile[k % 2, t] = x[i, k, t]
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(1, 2):
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[i, k, t] = tile[k % 2, 31 - t]
                        Arrive(cuda_in_order) >> empty
            Fence(cuda_in_order, cuda_in_order)
