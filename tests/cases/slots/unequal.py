"""Rings that run on through tasks of unequal numbers of steps (decision `ring-steps`).

`# expect NAME: ...` stands below each kernel.
"""

from __future__ import annotations

from exogpu import *


def ring(
    name: str,
    *,
    ahead: int = 3,
    full_skip: int = 0,
    arrives: bool = True,
    first: bool = False,
    after: bool = False,
    sometimes: bool = False,
    inner: bool = False,
) -> Procedure:
    """A ring of three slots, in task m of m + 1 steps; with `inner` of that many times more."""

    @macro
    def step(tile, full, empty, x, y, m, k):
        with CudaWarps(0, 1):
            Await(empty, cuda_in_order, ~ahead)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                tile[slot(full), t] = x[m, k, t]
            Arrive(cuda_in_order) >> full
        with CudaWarps(1, 2):
            if first:
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, k, t] = tile[slot(empty), 31 - t]
            Await(full, cuda_in_order, ~full_skip)
            if not first:
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, k, t] = tile[slot(empty), 31 - t]
            if arrives:
                if sometimes:
                    if k < m:
                        Arrive(cuda_in_order) >> empty
                else:
                    Arrive(cuda_in_order) >> empty

    @proc(name=name)
    def kernel(M: size, x: f32[M, M, 32] @ CudaGmemLinear, y: f32[M, M, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            tile: f32[3, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for m in cuda_tasks(0, M):
                if inner:
                    for j in seq(0, m + 1):
                        for k in seq(j, m + 1):
                            step(tile, full, empty, x, y, m, k)
                            Fence(cuda_in_order, cuda_in_order)
                else:
                    for k in seq(0, m + 1):
                        step(tile, full, empty, x, y, m, k)
                if after:
                    with CudaWarps(0, 1):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            tile[slot(full), t] = 0.0

    return kernel


by_task = ring("by_task")
# expect by_task: proved
shorter = ring("shorter", ahead=2)
# expect shorter: proved
in_two_loops = ring("in_two_loops", inner=True)
# expect in_two_loops: proved
too_early = ring("too_early", ahead=4)
# expect too_early: refuted WAR tile
without_arrivals = ring("without_arrivals", arrives=False)
# expect without_arrivals: refuted BARRIER empty
of_the_step_after = ring("of_the_step_after", full_skip=1)
# expect of_the_step_after: refuted RAW tile
before_the_await = ring("before_the_await", first=True)
# expect before_the_await: refuted RAW tile
not_in_the_last_step = ring("not_in_the_last_step", sometimes=True)
# expect not_in_the_last_step: refuted BARRIER empty
after_the_last_step = ring("after_the_last_step", after=True)
# expect after_the_last_step: refuted WAR tile


@proc
def by_memory(
    M: size,
    K: size,
    counts: i32[M] @ CudaGmemLinear,
    x: f32[M, K, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
):
    """Rows of as many steps as memory says; one more ring has a tile of each task, which all its
    steps read."""
    with CudaDeviceFunction(blockDim=64):
        tile: f32[3, 32] @ CudaSmemLinear
        scale: f32[2, 32] @ CudaSmemLinear
        full: barrier @ CudaMbarrier
        empty: barrier(full) @ CudaMbarrier
        begun: barrier @ CudaMbarrier
        ended: barrier(begun) @ CudaMbarrier
        for m in cuda_tasks(0, M):
            n = load_index(counts[m], 0, K + 1)
            total: f32[32]
            with CudaWarps(0, 1):
                Await(ended, cuda_in_order, ~2)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    scale[slot(begun), t] = 2.0
                Arrive(cuda_in_order) >> begun
            with CudaWarps(1, 2):
                Await(begun, cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    total[t] = 0.0
            for k in seq(0, n):
                with CudaWarps(0, 1):
                    Await(empty, cuda_in_order, ~3)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[slot(full), t] = x[m, k, t]
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        total[t] += tile[slot(empty), 31 - t] * scale[slot(ended), t]
                    Arrive(cuda_in_order) >> empty
            with CudaWarps(1, 2):
                Arrive(cuda_in_order) >> ended
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] = total[t]


# expect by_memory: proved


def fenced(name: str, when: str) -> Procedure:
    """A tile that two warps hand over by Fences: the first of a step stands alone, under a
    condition, or in a loop that the task tells."""

    @proc(name=name)
    def kernel(M: size, x: f32[M, M, 32] @ CudaGmemLinear, y: f32[M, M, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            tile: f32[32] @ CudaSmemLinear
            for m in cuda_tasks(0, M):
                for k in seq(0, m + 1):
                    with CudaWarps(0, 1):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            tile[t] = x[m, k, t]
                    if when == "always":
                        Fence(cuda_in_order, cuda_in_order)
                    if when == "sometimes":  # noqa: SIM102 (the first is of Python)
                        if k < m:
                            Fence(cuda_in_order, cuda_in_order)
                    if when == "in a loop":
                        for n in seq(0, m):
                            Fence(cuda_in_order, cuda_in_order)
                    with CudaWarps(1, 2):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[m, k, t] = tile[31 - t]
                    Fence(cuda_in_order, cuda_in_order)

    return kernel


by_fences = fenced("by_fences", "always")
# expect by_fences: proved
sometimes_fenced = fenced("sometimes_fenced", "sometimes")
# expect sometimes_fenced: refuted RAW tile
fenced_in_a_loop = fenced("fenced_in_a_loop", "in a loop")
# expect fenced_in_a_loop: refuted RAW tile
