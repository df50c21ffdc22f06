"""Tasks that wait for tasks, of which some threads or some accesses are left out.

# proved whole
# refuted some_wait: RAW | | | M = 1
# refuted some_arrive: RAW | | | M = 1
# refuted skips_one: RAW | | | M = 1
# proved stored
# refuted source_alone: RAW
#     | let the first timeline of Arrive at line {stored} be tma_to_gmem_async | proved
# proved fenced
# refuted no_proxy_fence: RAW
#     | add `Fence(cuda_in_order, cuda_generic_and_async)` after line {flag} | proved
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_tma_load, Sm90_tma_store


def chain(name: str, waiting: int = 8, arriving: int = 8, back: int = 1) -> Procedure:
    """Each task adds to the row of the one before: so many warps wait and arrive."""

    @proc(name=name)
    def sums(M: size, x: f32[M, 256] @ CudaGmemLinear, y: f32[M, 256] @ CudaGmemLinear):
        done: barrier[M] @ CudaFlag
        with CudaDeviceFunction(blockDim=256):
            for m in cuda_tasks(0, M):
                if m >= back:
                    with CudaWarps(0, waiting):
                        Await(done[m - back], cuda_in_order, 0)
                if m > 0:
                    for t in cuda_threads(0, 256, unit=cuda_thread):
                        y[m, t] = y[m - 1, t] + x[m, t]
                else:
                    for t in cuda_threads(0, 256, unit=cuda_thread):
                        y[m, t] = x[m, t]
                with CudaWarps(0, arriving):
                    Arrive(cuda_in_order) >> done[m]

    return sums


whole = chain("whole")
some_wait = chain("some_wait", waiting=4)
some_arrive = chain("some_arrive", arriving=4)
skips_one = chain("skips_one", back=2)


def passed_on(name: str, written: bool) -> Procedure:
    """A TMA store is complete, or its source has been read, before the flag is raised."""

    @proc(name=name)
    def pass_on(M: size, x: f32[M, 32, 32] @ CudaGmemLinear, y: f32[M, 32, 32] @ CudaGmemLinear):
        between: f32[M, 32, 32] @ CudaGmemLinear
        ready: barrier[M] @ CudaFlag
        to = between[:, :, :] @ Sm90_tensorMap(0, 1, 32, 32)
        with CudaDeviceFunction(blockDim=32):
            for role in cuda_tasks(0, 2):
                for m in cuda_tasks(0, M):
                    tile: f32[32, 32] @ CudaSmemLinear
                    group: barrier @ CudaCommitGroup
                    if role == 0:
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            for i in seq(0, 32):
                                tile[i, t] = x[m, i, t]
                        Fence(cuda_in_order, cuda_generic_and_async)
                        Sm90_tma_store(to[m, :, :], tile[:, :], rows=32, cols=32, box=(1, 32, 32))
                        if written:
                            Arrive(tma_to_gmem_async) >> group
                        else:
                            Arrive(tma_to_gmem_source) >> group  # [stored]
                        Await(group, cuda_in_order, 0)
                        Arrive(cuda_in_order) >> ready[m]
                    else:
                        Await(ready[m], cuda_in_order, 0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            for i in seq(0, 32):
                                y[m, i, t] = between[m, i, 31 - t]

    return pass_on


stored = passed_on("stored", True)
source_alone = passed_on("source_alone", False)


def fetched(name: str, fence: bool) -> Procedure:
    """What another task wrote is fetched by TMA: a flag takes no timeline of the async proxy."""

    @proc(name=name)
    def fetch(M: size, x: f32[M, 32, 32] @ CudaGmemLinear, y: f32[M, 32, 32] @ CudaGmemLinear):
        between: f32[M, 32, 32] @ CudaGmemLinear
        ready: barrier[M] @ CudaFlag
        source = between[:, :, :] @ Sm90_tensorMap(0, 1, 32, 32)
        with CudaDeviceFunction(blockDim=32):
            for role in cuda_tasks(0, 2):
                for m in cuda_tasks(0, M):
                    tile: f32[32, 32] @ CudaSmemLinear
                    full: barrier @ CudaMbarrier
                    if role == 0:
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            for i in seq(0, 32):
                                between[m, i, t] = x[m, i, t]
                        Arrive(cuda_in_order) >> ready[m]
                    else:
                        Await(ready[m], cuda_in_order, 0)  # [flag]
                        if fence:
                            Fence(cuda_in_order, cuda_generic_and_async)
                        (
                            Sm90_tma_load(
                                tile[:, :],
                                source[m, :, :],
                                rows=32,
                                cols=32,
                                box=(1, 32, 32),
                                swizzle=0,
                            )
                            >> full
                        )
                        Arrive(cuda_temporal) >> full
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            for i in seq(0, 32):
                                y[m, i, t] = tile[i, 31 - t]
                        Fence(cuda_in_order, cuda_in_order)

    return fetch


fenced = fetched("fenced", True)
no_proxy_fence = fetched("no_proxy_fence", False)
