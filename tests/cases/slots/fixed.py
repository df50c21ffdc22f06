"""A slot that is named beside those that are counted: with whole rings it is one of them.

`# expect NAME: ...` stands below each kernel.
"""

from __future__ import annotations

from exogpu import *


def fixed(
    name: str, multiple: int, *, depth: int = 2, own: bool = False, guarded: bool = False
) -> Procedure:
    """A ring whose slot 1 is cleared as a task, or an iteration of the only task, ends; `guarded`:
    if it has whole rings."""

    @macro
    def step(tile, full, empty, free, x, y, m, k):
        with CudaWarps(0, 1):
            if k == 1:
                Await(free, cuda_in_order, ~1)
            Await(empty, cuda_in_order, ~depth)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                tile[slot(full), t] = x[m, k, t]
            Arrive(cuda_in_order) >> full
        with CudaWarps(1, 2):
            Await(full, cuda_in_order, ~0)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, k, t] = tile[slot(empty), 31 - t]
            Arrive(cuda_in_order) >> empty

    @macro
    def clear(K, tile, free):
        with CudaWarps(1, 2):
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                if guarded:
                    if K % depth == 0:
                        tile[1, t] = 0.0
                else:
                    tile[1, t] = 0.0
            Arrive(cuda_in_order) >> free

    if own:

        @proc(name=name)
        def ring(
            M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear
        ):
            assert K % multiple == 0
            assert K >= 2
            with CudaDeviceFunction(blockDim=64):
                for task in cuda_tasks(0, 1):
                    tile: f32[depth, 32] @ CudaSmemLinear
                    full: barrier @ CudaMbarrier
                    empty: barrier(full) @ CudaMbarrier
                    free: barrier @ CudaMbarrier
                    for m in seq(0, M):
                        for k in seq(0, K):
                            step(tile, full, empty, free, x, y, m, k)
                        clear(K, tile, free)
                    Fence(cuda_in_order, cuda_in_order)

        return ring

    @proc(name=name)
    def ring(
        M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear
    ):
        assert K % multiple == 0
        assert K >= 2
        with CudaDeviceFunction(blockDim=64):
            tile: f32[depth, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            free: barrier @ CudaMbarrier
            for m in cuda_tasks(0, M):
                for k in seq(0, K):
                    step(tile, full, empty, free, x, y, m, k)
                clear(K, tile, free)

    return ring


even = fixed("even", 2)
# expect even: proved
whole_rings = fixed("whole_rings", 3, depth=3)
# expect whole_rings: proved
several_rings = fixed("several_rings", 6, depth=3)
# expect several_rings: proved
any_number = fixed("any_number", 1)
# expect any_number: error D529
another_number = fixed("another_number", 2, depth=3)
# expect another_number: error D529
if_whole = fixed("if_whole", 1, depth=3, guarded=True)
# expect if_whole: proved
even_iterations = fixed("even_iterations", 2, own=True)
# expect even_iterations: proved
iterations = fixed("iterations", 1, own=True)
# expect iterations: refuted WAW tile
iterations_if_whole = fixed("iterations_if_whole", 1, own=True, guarded=True)
# expect iterations_if_whole: proved
