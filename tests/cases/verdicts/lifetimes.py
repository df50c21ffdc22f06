"""What shares the bytes of shared memory: the end of a variable is for all threads of the cluster,
whoever accessed it, since any of them may be the first to access what takes its place."""

from __future__ import annotations

from exogpu import *


def reused(name: str, meet: str, first: str) -> Procedure:
    """Warp `a` is done with old, and warp `a` or `b` writes new first."""

    @proc(name=name)
    def kernel(x: f32[32] @ CudaGmemLinear, y: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(warp_config=[CudaWarpConfig("a", 1), CudaWarpConfig("b", 1)]):
            for task in cuda_tasks(0, 1):
                old: f32[32] @ CudaSmemLinear
                with CudaWarps(name="a"):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        old[t] = x[t]
                    Fence(cuda_in_order, cuda_in_order)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[t] = old[31 - t]
                    if meet == "a":
                        Fence(cuda_in_order, cuda_in_order)
                if meet == "all":
                    Fence(cuda_in_order, cuda_in_order)
                new: f32[32] @ CudaSmemLinear
                with CudaWarps(name=first):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        new[t] = 1.0
                Fence(cuda_in_order, cuda_in_order)

    return kernel


# Warp b has not waited for warp a to be done, and writes the same bytes.
# expect another_warp: refuted FREE old
another_warp = reused("another_warp", "a", "b")

# The memory that ends does not tell who takes it: this is refuted alike (decision
# `shared-lifetime`).
# expect same_warp: refuted FREE old
same_warp = reused("same_warp", "a", "a")

# expect all_meet: proved
all_meet = reused("all_meet", "all", "b")
