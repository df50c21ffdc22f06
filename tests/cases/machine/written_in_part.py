"""An instruction overwrites what it writes of its window (decision `partial-overwrite`)."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm80 import *


def resident(name: str, rows: int, read: int) -> Procedure:
    """Rows of `read` and more are another task's where fewer are stored."""

    @proc(name=name)
    def kernel(n: size, x: f32[n, 16, 8] @ CudaGmemLinear, y: f32[n, 16, 8] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            s: f32[16, 8] @ CudaSmemLinear
            for m in cuda_tasks(0, n):
                d: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    Sm80_zero_D(d[:, :])
                    Sm80_store_D(rows, 8, s[:, :], d[:, :])
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, read, unit=cuda_thread):
                    for i in seq(0, 8):
                        y[m, t, i] = s[t, i]
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 16, unit=cuda_thread):
                    for i in seq(0, 8):
                        s[t, i] = x[m, t, i]
                Fence(cuda_in_order, cuda_in_order)

    return kernel


def told(name: str, rows: int, global_memory: bool = False) -> Procedure:
    """Who knows of the first writes in time only overwrites `rows`, and reads all."""
    memory = CudaGmemLinear if global_memory else CudaSmemLinear

    @proc(name=name)
    def kernel(y: f32[16, 8] @ CudaGmemLinear):
        s: f32[16, 8] @ CudaGmemLinear
        with CudaDeviceFunction(blockDim=64):
            for task in cuda_tasks(0, 1):
                if not global_memory:
                    s: f32[16, 8] @ memory
                b: barrier @ CudaMbarrier
                d: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)
                with CudaWarps(0, 1):
                    for t in cuda_threads(0, 16, unit=cuda_thread):
                        for i in seq(0, 8):
                            s[t, i] = 1.0
                    Arrive(cuda_in_order) >> b
                with CudaWarps(1, 2):
                    for w in cuda_threads(0, 1, unit=cuda_warp):
                        Sm80_zero_D(d[:, :])
                        Await(b, cuda_temporal, ~0)
                        Sm80_store_D(rows, 8, s[:, :], d[:, :])
                        Fence(cuda_in_order, cuda_in_order)
                        for t in cuda_threads(0, 16, unit=cuda_thread):
                            for i in seq(0, 8):
                                y[t, i] = s[t, i]
                Fence(cuda_in_order, cuda_in_order)

    return kernel


whole = resident("whole", 16, 16)  # safe
what_is_stored = resident("what_is_stored", 8, 8)  # safe
what_is_not = resident("what_is_not", 8, 9)  # refuted: LEAK s 28 24, UNINIT s - 24
nothing = resident("nothing", 0, 1)  # refuted: LEAK s 28 24, UNINIT s - 24
# Under the paper's policy a Fence makes what is known in time known in full.
told_whole = told("told_whole", 16)  # safe
told_half = told("told_half", 8)  # ptx refuted: RAW s 50 60; paper safe
told_half_global = told("told_half_global", 8, True)  # ptx refuted: RAW s 50 60; paper safe
told_whole_global = told("told_whole_global", 16, True)  # safe
