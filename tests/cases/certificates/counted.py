"""A ring that runs on from task to task, its slots counted."""

from __future__ import annotations

from exogpu import *


@proc
def counted(M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        tile: f32[3, 32] @ CudaSmemLinear
        full: barrier @ CudaMbarrier
        empty: barrier(full) @ CudaMbarrier
        for m in cuda_tasks(0, M):
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    Await(empty, cuda_in_order, ~3)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[slot(full), t] = x[m, k, t]
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[m, k, t] = tile[slot(empty), 31 - t]
                    Arrive(cuda_in_order) >> empty
