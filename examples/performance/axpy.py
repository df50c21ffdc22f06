"""y = 2 x + y, four elements a thread: vectors of 16 bytes, and a fused multiply-add."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.cuda import cuda_load, cuda_store


@proc
def axpy(n: size, x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
    assert n % 1024 == 0
    with CudaDeviceFunction(blockDim=256):
        for b in cuda_tasks(0, n / 1024):
            for t in cuda_threads(0, 256, unit=cuda_thread):
                i = 1024 * b + 4 * t
                a: f32[4]
                c: f32[4]
                cuda_load(a[:], x[i : i + 4])
                cuda_load(c[:], y[i : i + 4])
                for k in seq(0, 4):
                    c[k] = fma(2.0, a[k], c[k])
                cuda_store(y[i : i + 4], c[:])
