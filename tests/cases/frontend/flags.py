"""Flags: where they are declared, what may be arrived on and awaited, and how."""

from __future__ import annotations

from exogpu import *


@proc
def flags(n: size, x: f32[n] @ CudaGmemLinear):
    ready: barrier[n] @ CudaFlag
    done: barrier @ CudaFlag
    turn: barrier(done) @ CudaFlag  # expect: T216
    Arrive(cpu_in_order) >> done  # expect: S325
    with CudaDeviceFunction(blockDim=32):
        between: barrier @ CudaFlag  # expect: S318
        for m in cuda_tasks(0, n):
            inside: barrier @ CudaFlag  # expect: S318
            Arrive(cuda_in_order) >> ready[m]
            Arrive(cuda_in_order) >> ready[m] >> ready[m]  # expect: T239
            Arrive(cuda_in_order) >> ready[:]  # expect: T239
            Arrive(tma_to_gmem_async) >> ready[m]  # expect: T275
            Arrive(cuda_temporal) >> ready[m]  # expect: T275
            Await(ready[m], cuda_in_order)
            Await(ready[m], cuda_temporal, 0)
            Await(ready[m], cuda_generic_and_async, 0)
            Await(ready[m], tma_to_smem_async, 0)  # expect: T275
            Await(ready[m], cuda_in_order, 1)  # expect: T241
            Await(ready[m], cuda_in_order, ~0)  # expect: T241
            Await(ready[0:2], cuda_in_order, 0)  # expect: T240
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[slot(ready)] = 1.0  # expect: T250
