"""Ranges of values from memory in which there is none: what follows them is not reached.

`# expect NAME: ...` stands below each kernel.
"""

from __future__ import annotations

from exogpu import *


@proc
def never(M: size, o: i32[M] @ CudaGmemLinear, x: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(o[m], 5, 5)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[b] = 1.0


# expect never: error T251


@proc
def sometimes_empty(M: size, K: size, o: i32[M] @ CudaGmemLinear, x: f32[M] @ CudaGmemLinear):
    assert K <= 5
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(o[m], 5, K)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[0] = 1.0


# expect sometimes_empty: proved


@proc
def not_empty(M: size, K: size, o: i32[M] @ CudaGmemLinear, x: f32[M] @ CudaGmemLinear):
    assert K <= 6
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(o[m], 5, K)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[0] = 1.0


# expect not_empty: refuted WAW x


@proc
def by_task(M: size, o: i32[M] @ CudaGmemLinear, x: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(o[m], 0, m)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[0] = 1.0


# expect by_task: undecided


@proc
def by_other(M: size, o: i32[M] @ CudaGmemLinear, x: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(o[m], 0, M)
            c = load_index(o[b], 0, b)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[m] = 1.0


# expect by_other: proved
