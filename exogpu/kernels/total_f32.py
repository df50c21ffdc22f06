"""y = the sum of all elements of x, in the same order each time: each task publishes what it has
summed, and the last one, which a flag tells that all have, sums that."""

from __future__ import annotations

from typing import Final

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.language import f32
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor

WARPS: Final = 8
LOADS: Final = 16
"""Vectors of a thread, which it has all under way."""
TILE: Final = 32 * WARPS * LOADS * 4
"""Elements that a task sums."""


def make_total(*, vectors: bool) -> Procedure:
    """The kernel for a number of elements that is a multiple of four, or any."""
    V = 4 if vectors else 1
    EACH = TILE // (32 * WARPS * V)

    @macro
    def summed(a, other, shared, w):
        """Over a warp; its first lane has the sum then, and tells the CTA."""
        for mask in (16, 8, 4, 2, 1):
            cuda_shfl_xor(other[w, :], a[w, :], mask=mask)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                a[w, t] += other[w, t]
        for t in cuda_threads(0, 1, unit=cuda_thread):
            shared[w] = a[w, t]

    @proc(name=f"total_f32{'' if vectors else '_any'}")
    def total(N: size, x: f32[N] @ CudaGmemLinear, y: f32 @ CudaGmemLinear):
        assert N % V == 0
        sums: f32[(N + TILE - 1) / TILE] @ CudaGmemLinear
        done: barrier @ CudaFlag
        with CudaDeviceFunction(blockDim=32 * WARPS):
            for task in cuda_tasks(0, (N + TILE - 1) / TILE):
                a: f32[WARPS, 32]
                other: f32[WARPS, 32]
                shared: f32[2, WARPS] @ CudaSmemLinear
                for w in cuda_threads(0, WARPS, unit=cuda_warp):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        v: f32[EACH, V]
                        a[w, t] = 0.0
                        for i in seq(0, EACH):
                            at = TILE * task + 32 * WARPS * V * i + V * (32 * w + t)
                            for j in seq(0, V):
                                v[i, j] = 0.0
                            if at < N:
                                cuda_load(v[i, :], x[at : at + V], n=V)
                        for i in seq(0, EACH):
                            for j in seq(0, V):
                                a[w, t] += v[i, j]
                    summed(a, other, shared[0, :], w)
                Fence(cuda_in_order, cuda_in_order)
                with CudaWarps(0, 1):
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        of_task: f32
                        of_task = 0.0
                        for w in seq(0, WARPS):
                            of_task += shared[0, w]
                        sums[task] = of_task
                        Arrive(cuda_in_order) >> done
                if task == (N + TILE - 1) / TILE - 1:
                    Await(done, cuda_in_order, 0)
                    for w in cuda_threads(0, WARPS, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            a[w, t] = 0.0
                            for k in seq(0, (task + 32 * WARPS) / (32 * WARPS)):
                                if 32 * WARPS * k + 32 * w + t <= task:
                                    a[w, t] += sums[32 * WARPS * k + 32 * w + t]
                        summed(a, other, shared[1, :], w)
                    Fence(cuda_in_order, cuda_in_order)
                    with CudaWarps(0, 1):
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            of_all: f32
                            of_all = 0.0
                            for w in seq(0, WARPS):
                                of_all += shared[1, w]
                            y = of_all
                Fence(cuda_in_order, cuda_temporal)

    return total


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel for kernel in (make_total(vectors=True), make_total(vectors=False))
}
"""Both, by name."""
