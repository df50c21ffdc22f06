"""TileLang #2556, #2612: a barrier of the CTA is dropped, or stands under a guard on the thread.

Fact: the compiler dropped a barrier of the whole CTA (`bug`), or left it under a condition on
the thread, where not all threads come (`bug_guarded`).
Hazard: RAW on the tile, from the store of one thread to the read of another.
Fires: always.
"""

from __future__ import annotations

from exogpu import *


def make(name: str, barrier_by: str) -> Procedure:
    """The barrier between a tile's stores and its reads, of the CTA, of some warps, or none."""

    @proc(name=name)
    def reverse(M: size, x: f32[M, 128] @ CudaGmemLinear, y: f32[M, 128] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=128):
            for m in cuda_tasks(0, M):
                tile: f32[128] @ CudaSmemLinear
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    tile[t] = x[m, t]  # [write]
                if barrier_by == "cta":
                    Fence(cuda_in_order, cuda_in_order)
                if barrier_by == "warps":
                    for w in cuda_threads(0, 4, unit=cuda_warp):
                        if w < 2:
                            Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    y[m, t] = tile[127 - t]  # [read]
                Fence(cuda_in_order, cuda_in_order)

    return reverse


bug = make("bug", barrier_by="none")
# refuted at M=1: RAW tile write read
bug_guarded = make("bug_guarded", barrier_by="warps")
# refuted at M=1: RAW tile write read
fix = make("fix", barrier_by="cta")
# safe
