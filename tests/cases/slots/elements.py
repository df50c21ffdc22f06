"""Slots of an array of mbarriers, whose elements have to have as many Arrives (D519): also where
values from memory tell whether they have.

`# expect NAME: ...` stands below each kernel.
"""

from __future__ import annotations

from exogpu import *


def ring(name: str, at: str) -> Procedure:
    """Two warps with a ring each, whose steps are as many as a value from memory says: of the task,
    of the warp, of a table that names one by the warp, or of the warp in another kernel."""

    @macro
    def step(n, tile, full, x, k, w):
        for t in cuda_threads(0, 32, unit=cuda_thread):
            tile[w, 0, t] = x[k, w, t]
        if n > 0:
            Arrive(cuda_in_order) >> full[w]
            Await(full[w], cuda_in_order, ~0)

    @proc(name=name)
    def kernel(M: size, n: i32[M, 2] @ CudaGmemLinear, x: f32[M, 2, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for m in cuda_tasks(0, M):
                tile: f32[2, 2, 32] @ CudaSmemLinear
                full: barrier[2] @ CudaMbarrier
                for w in cuda_threads(0, 2, unit=cuda_warp):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[w, slot(full), t] = 0.0
                for w in cuda_threads(0, 2, unit=cuda_warp):
                    if at == "warp":
                        b = load_index(n[m, w], 0, 2)
                        step(b, tile, full, x, m, w)
                    if at == "table":
                        a = load_index(n[m, w], 0, 2)
                        c = load_index(n[m, a], 0, 2)
                        step(c, tile, full, x, m, w)
                    if at == "task":
                        d = load_index(n[m, 0], 0, 2)
                        step(d, tile, full, x, m, w)
                    if at == "unread":
                        e = load_index(n[m, w], 0, 2)
                        step(1, tile, full, x, m, w)
                Fence(cuda_in_order, cuda_in_order)

    return kernel


of_the_task = ring("of_the_task", "task")
# expect of_the_task: proved
unread = ring("unread", "unread")
# expect unread: proved
of_the_warp = ring("of_the_warp", "warp")
# expect of_the_warp: error D519
by_a_table = ring("by_a_table", "table")
# expect by_a_table: error D519
