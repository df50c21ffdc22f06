"""Variables that share bytes of shared memory: the end of one is for all threads that may access
what takes its place, whoever accessed it (decision `shared-lifetime`)."""

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

# Warp a meets, and it alone takes the bytes until all do.
# expect same_warp: proved
same_warp = reused("same_warp", "a", "a")

# expect all_meet: proved
all_meet = reused("all_meet", "all", "b")


def taken_twice(name: str, last: str) -> Procedure:
    """Warp `a` is done with old and takes its bytes; then warp `last` does."""

    @proc(name=name)
    def kernel(x: f32[32] @ CudaGmemLinear, y: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(warp_config=[CudaWarpConfig("a", 1), CudaWarpConfig("b", 1)]):
            for task in cuda_tasks(0, 1):
                old: f32[64] @ CudaSmemLinear
                with CudaWarps(name="a"):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        old[t] = x[t]
                    Fence(cuda_in_order, cuda_in_order)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[t] = old[31 - t]
                    Fence(cuda_in_order, cuda_in_order)
                new: f32[32] @ CudaSmemLinear
                with CudaWarps(name="a"):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        new[t] = 1.0
                newer: f32[32] @ CudaSmemLinear
                with CudaWarps(name=last):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        newer[t] = 1.0
                Fence(cuda_in_order, cuda_in_order)

    return kernel


# What warp a writes to new is not ordered before newer takes its bytes, of the same warp or not.
# expect same_warp_twice: refuted FREE new
same_warp_twice = taken_twice("same_warp_twice", "a")

# Warp b is the first to write into the other half of old, and has not waited for warp a.
# expect two_warps: refuted FREE old
two_warps = taken_twice("two_warps", "b")


def of_cluster(name: str, meet: str) -> Procedure:
    """Warp `a` of each CTA reads the other CTA's part of old; then it meets, or the cluster."""

    @proc(name=name)
    def kernel(x: f32[2, 32] @ CudaGmemLinear, y: f32[2, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(
            clusterDim=2, warp_config=[CudaWarpConfig("a", 1), CudaWarpConfig("b", 1)]
        ):
            for task in cuda_tasks(0, 1):
                old: f32[2, 32] @ CudaSmemCluster
                with CudaWarps(name="a"):
                    for c in cuda_threads(0, 2, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            old[c, t] = x[c, t]
                Fence(cuda_in_order, cuda_in_order)
                with CudaWarps(name="a"):
                    for c in cuda_threads(0, 2, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[c, t] = old[1 - c, 31 - t]
                        if meet == "warp":
                            Fence(cuda_in_order, cuda_in_order)
                if meet == "cluster":
                    Fence(cuda_in_order, cuda_in_order)
                new: f32[2, 32] @ CudaSmemCluster
                with CudaWarps(name="a"):
                    for c in cuda_threads(0, 2, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            new[c, t] = 1.0
                Fence(cuda_in_order, cuda_in_order)

    return kernel


# The other CTA's warp may still read what new takes the bytes of.
# expect warp_of_each_cta: refuted FREE old
warp_of_each_cta = of_cluster("warp_of_each_cta", "warp")

# expect both_ctas: proved
both_ctas = of_cluster("both_ctas", "cluster")
