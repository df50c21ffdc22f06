"""Section 2.1: read sequentially, every B[i] would be A[31]; the register cannot do that.

`exogpu check` rejects it: one register cannot belong to 32 threads.
"""

from __future__ import annotations

from exogpu import *


@proc
def broadcast(A: f32[32] @ CudaGmemLinear, B: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            tmp: f32 @ CudaRmem  # Register
            for i in cuda_threads(0, 32, unit=cuda_thread):
                tmp = A[i]
            for i in cuda_threads(0, 32, unit=cuda_thread):
                B[i] = tmp
