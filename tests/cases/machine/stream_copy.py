"""Copies around a launch: the host writes, the stream copies in, a kernel adds, it copies out."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.cuda import cuda_memcpy_to_device, cuda_memcpy_to_host


def make(name: str, before: bool, after: bool) -> Procedure:
    @proc(name=name)
    def copies(n: size, x: f32[n]):
        d: f32[n] @ CudaGmemLinear
        for i in seq(0, n):
            x[i] = 1
        if before:
            Fence(cpu_in_order, cuda_stream_sync)
        cuda_memcpy_to_device(n, d[:], x[:])
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, n):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    d[task] += 1
        cuda_memcpy_to_host(n, x[:], d[:])
        if after:
            Fence(cuda_stream_sync, cpu_in_order)
        for i in seq(0, n):
            x[i] += 1

    return copies


both = make("both", True, True)  # safe
no_fence_before = make("no_fence_before", False, True)  # refuted: RAW x 14 17
no_fence_after = make("no_fence_after", True, False)  # refuted: RAW x 22 26
