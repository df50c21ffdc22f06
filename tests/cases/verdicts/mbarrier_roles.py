"""An Await is of its own arrival (`await-own-arrival`): another role's earlier one may be late.

Warp 0 writes and makes arrival 0, warp 1 makes arrival 1; warp 3 awaits arrival 1, and reads what
warp 0 wrote.  On a ring of two mbarriers nothing orders it after warp 0.
"""

# expect bug: refuted RAW part
# expect apart: refuted RAW part
# expect fix: proved

from __future__ import annotations

from exogpu import *


@proc
def bug(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for m in cuda_tasks(0, M):
            part: f32[32] @ CudaSmemLinear
            turn: barrier @ CudaMbarrier
            with CudaWarps(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    part[t] = x[m, t]
                Arrive(cuda_in_order) >> turn
            with CudaWarps(2, 3):
                Await(turn, cuda_in_order, ~0)
            with CudaWarps(1, 2):
                Arrive(cuda_in_order) >> turn
            with CudaWarps(3, 4):
                Await(turn, cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] = part[31 - t]
            Fence(cuda_in_order, cuda_in_order)


@proc
def apart(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for m in cuda_tasks(0, M):
            part: f32[32] @ CudaSmemLinear
            first: barrier @ CudaMbarrier
            second: barrier @ CudaMbarrier
            with CudaWarps(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    part[t] = x[m, t]
                Arrive(cuda_in_order) >> first
            with CudaWarps(2, 3):
                Await(first, cuda_in_order, ~0)
            with CudaWarps(1, 2):
                Arrive(cuda_in_order) >> second
            with CudaWarps(3, 4):
                Await(second, cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] = part[31 - t]
            Fence(cuda_in_order, cuda_in_order)


@proc
def fix(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    """The reader of warp 0's data awaits warp 0's arrival."""
    with CudaDeviceFunction(blockDim=128):
        for m in cuda_tasks(0, M):
            part: f32[32] @ CudaSmemLinear
            turn: barrier @ CudaMbarrier
            with CudaWarps(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    part[t] = x[m, t]
                Arrive(cuda_in_order) >> turn
            with CudaWarps(2, 3):
                Await(turn, cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] = part[31 - t]
            with CudaWarps(1, 2):
                Arrive(cuda_in_order) >> turn
            with CudaWarps(3, 4):
                Await(turn, cuda_in_order, ~0)
            Fence(cuda_in_order, cuda_in_order)
