"""Half of a ring slot is released, then the whole slot is overwritten."""

from __future__ import annotations

from exogpu import *


def make(name: str, halves: int) -> Procedure:
    @proc(name=name)
    def partial(n: size, out: f32[2] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=96):
            for task in cuda_tasks(0, 1):
                ring: f32[2, 2] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier @ CudaMbarrier
                for k in seq(0, n):
                    with CudaWarps(0, 1):
                        Await(empty, cuda_in_order, ~2)
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            for i in seq(0, 2):
                                ring[k % 2, i] = 1
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(1, 3):
                        Await(full, cuda_in_order)
                        for w in cuda_threads(0, 2, unit=cuda_warp):
                            for t in cuda_threads(0, 1, unit=cuda_thread):
                                out[w] = ring[k % 2, w]
                        if halves == 2:
                            Arrive(cuda_in_order) >> empty
                    if halves == 1:
                        with CudaWarps(1, 2):
                            Arrive(cuda_in_order) >> empty
                Fence(cuda_in_order, cuda_in_order)

    return partial


both = make("both", 2)  # safe at n=1 n=2 n=3 n=9
# Only the warp that read ring[., 0] releases the slot; ring[., 1] is still being read.
one = make("one", 1)  # refuted at n=3: WAR ring 27 21
one_short = make("one_short", 1)  # safe at n=1 n=2
