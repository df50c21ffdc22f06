"""A single mbarrier: who awaits its second phase alone runs ahead (`mbarrier-phase` iii)."""

from __future__ import annotations

from exogpu import *


def make(name: str, first: int, *, guarded: bool = True) -> Procedure:
    """Warp 0 arrives twice; the `first` warps await the first phase, warp 1 the second."""

    @proc(name=name)
    def twice(g: f32[32] @ CudaGmemLinear, out: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for task in cuda_tasks(0, 1):
                s: f32[32] @ CudaSmemLinear
                z: barrier @ CudaMbarrier
                if guarded:
                    y: barrier(z) @ CudaMbarrier
                    with CudaWarps(1, 2):
                        Arrive(cuda_in_order) >> y
                    with CudaWarps(0, 1):
                        Await(y, cuda_in_order)
                with CudaWarps(0, 1):
                    Arrive(cuda_in_order) >> z
                with CudaWarps(0, first):
                    Await(z, cuda_in_order)
                    Fence(cuda_in_order, cuda_in_order)
                with CudaWarps(0, 1):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        s[t] = g[t]
                    Arrive(cuda_in_order) >> z
                with CudaWarps(1, 2):
                    Await(z, cuda_in_order)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        out[t] = s[t]
                Fence(cuda_in_order, cuda_in_order)

    return twice


both_phases = make("both_phases", 2)  # safe
second_phase = make("second_phase", 1)  # refuted: PHASE z - 33
ring_of_two = make("ring_of_two", 1, guarded=False)  # safe
