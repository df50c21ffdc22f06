"""Rings that run on through two loops of a task, and slots that are counted before them.

`# expect NAME: ...` stands below each kernel.
"""

from __future__ import annotations

from exogpu import *


def ring(name: str, *, own: bool = False, ahead: int = 3, more: bool = False) -> Procedure:
    """A ring of three slots; the consumer arrives on one more barrier `more` in each step, by whose
    slot it reads."""

    @macro
    def step(tile, full, empty, other, x, y, m, n, k):
        with CudaWarps(0, 1):
            Await(empty, cuda_in_order, ~ahead)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                tile[slot(full), t] = x[m, n, k, t]
            Arrive(cuda_in_order) >> full
        with CudaWarps(1, 2):
            Await(full, cuda_in_order, ~0)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                if more:
                    y[m, n, k, t] = tile[slot(other), 31 - t]
                else:
                    y[m, n, k, t] = tile[slot(empty), 31 - t]
            Arrive(cuda_in_order) >> empty
            if more:
                Arrive(cuda_in_order) >> other
                Await(other, cuda_in_order, ~0)

    if own:

        @proc(name=name)
        def kernel(
            M: size,
            N: size,
            K: size,
            x: f32[M, N, K, 32] @ CudaGmemLinear,
            y: f32[M, N, K, 32] @ CudaGmemLinear,
        ):
            with CudaDeviceFunction(blockDim=64):
                for task in cuda_tasks(0, 1):
                    tile: f32[3, 32] @ CudaSmemLinear
                    full: barrier @ CudaMbarrier
                    empty: barrier(full) @ CudaMbarrier
                    other: barrier @ CudaMbarrier
                    for m in seq(0, M):
                        for n in seq(0, N):
                            for k in seq(0, K):
                                step(tile, full, empty, other, x, y, m, n, k)
                    Fence(cuda_in_order, cuda_in_order)

        return kernel

    @proc(name=name)
    def kernel(
        M: size,
        N: size,
        K: size,
        x: f32[M, N, K, 32] @ CudaGmemLinear,
        y: f32[M, N, K, 32] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=64):
            tile: f32[3, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            other: barrier @ CudaMbarrier
            for m in cuda_tasks(0, M):
                for n in seq(0, N):
                    for k in seq(0, K):
                        step(tile, full, empty, other, x, y, m, n, k)

    return kernel


from_task_to_task = ring("from_task_to_task")
# expect from_task_to_task: proved
another_count = ring("another_count", more=True)
# expect another_count: proved
too_early = ring("too_early", ahead=4)
# expect too_early: refuted WAR tile
in_one_task = ring("in_one_task", own=True)
# expect in_one_task: proved
too_early_in_one_task = ring("too_early_in_one_task", own=True, ahead=4)
# expect too_early_in_one_task: refuted WAR tile
