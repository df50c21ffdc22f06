"""A ring of two warps, each of which loads how many steps there are."""

from __future__ import annotations

from exogpu import *


@proc
def loaded_twice(
    G: size,
    K: size,
    counts: i32[G] @ CudaGmemLinear,
    others: i32[G] @ CudaGmemLinear,
    y: f32[G, K] @ CudaGmemLinear,
):
    with CudaDeviceFunction(blockDim=64):
        for g in cuda_tasks(0, G):
            tile: f32[1] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    n = load_index(counts[g], 0, K + 1)
                    if k < n:
                        Await(empty, cuda_in_order, ~1)
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            tile[0] = 1.0
                        Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    m = load_index(counts[g], 0, K + 1)
                    if k < m:
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            y[g, k] = tile[0]
                        Arrive(cuda_in_order) >> empty
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                o = load_index(others[g], 0, K + 1)
                if o > 0:
                    y[g, o - 1] = 0.0
            Fence(cuda_in_order, cuda_in_order)
