"""A ring of two slots between two warps: small, with every kind of obligation on mbarriers."""

from __future__ import annotations

from exogpu import *


@proc
def ring(K: size, x: f32[K, 32] @ CudaGmemLinear, y: f32[K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    Await(empty, cuda_in_order, ~2)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[k % 2, t] = x[k, t]
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[k, t] = tile[k % 2, 31 - t]
                    Arrive(cuda_in_order) >> empty
            Fence(cuda_in_order, cuda_in_order)
