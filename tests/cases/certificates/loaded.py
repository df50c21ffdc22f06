"""Tasks that copy the rows between two cuts, through a ring of as many steps."""

from __future__ import annotations

from exogpu import *


@proc
def loaded(
    G: size,
    N: size,
    cuts: i32[G + 1] @ CudaGmemLinear,
    x: f32[N, 32] @ CudaGmemLinear,
    y: f32[N, 32] @ CudaGmemLinear,
):
    assert monotone(cuts)
    with CudaDeviceFunction(blockDim=64):
        for g in cuda_tasks(0, G):
            begin = load_index(cuts[g], 0, N + 1)
            end = load_index(cuts[g + 1], 0, N + 1)
            tile: f32[2, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for m in seq(begin, end):
                with CudaWarps(0, 1):
                    Await(empty, cuda_in_order, ~2)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[m % 2, t] = x[m, t]
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[m, t] = tile[m % 2, 31 - t]
                    Arrive(cuda_in_order) >> empty
            Fence(cuda_in_order, cuda_in_order)
