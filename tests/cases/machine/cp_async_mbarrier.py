"""cp.async signalled through an mbarrier: Arrive(Sm80_cp_async) tags the copies."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm80 import Sm80_cp_async_copy


def make(name: str, timeline: object) -> Procedure:
    @proc(name=name)
    def copy(g: f32[128] @ CudaGmemLinear, out: f32[128] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for task in cuda_tasks(0, 1):
                s: f32[128] @ CudaSmemLinear
                z: barrier @ CudaMbarrier
                with CudaWarps(0, 1):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        Sm80_cp_async_copy(s[4 * t : 4 * t + 4], g[4 * t : 4 * t + 4])
                    Arrive(timeline) >> z
                with CudaWarps(1, 2):
                    Await(z, cuda_in_order)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        for i in seq(0, 4):
                            out[4 * t + i] = s[4 * t + i]
                Fence(Sm80_generic, cuda_in_order)

    return copy


signalled = make("signalled", Sm80_cp_async)  # safe
ordinary = make("ordinary", cuda_in_order)  # refuted: RAW s 18 24
