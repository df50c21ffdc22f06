"""A bitonic sort of 256 numbers, unrolled, with a Fence left out of one of 36 steps: for
`wrong_kernels.py`, too long for a test."""

from __future__ import annotations

from exogpu import *

STEPS = [(k, 1 << j) for k in range(8) for j in range(k, -1, -1)]


def bitonic(name: str, left_out: int | None) -> Procedure:
    """128 threads compare pairs; no Fence follows on the step `left_out`."""

    @proc(name=name)
    def sort(M: size, x: f32[M, 256] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=256):
            for m in cuda_tasks(0, M):
                s: f32[256] @ CudaSmemLinear
                for t in cuda_threads(0, 256, unit=cuda_thread):
                    s[t] = x[m, t]
                Fence(cuda_in_order, cuda_in_order)
                for n in range(len(STEPS)):
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        a: f32
                        b: f32
                        i = 2 * STEPS[n][1] * (t / STEPS[n][1]) + t % STEPS[n][1]
                        a = min(s[i], s[i + STEPS[n][1]])
                        b = max(s[i], s[i + STEPS[n][1]])
                        if (t / (1 << STEPS[n][0])) % 2 == 0:
                            s[i] = a
                            s[i + STEPS[n][1]] = b
                        else:
                            s[i] = b
                            s[i + STEPS[n][1]] = a
                    if left_out is None or n != left_out:
                        Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 256, unit=cuda_thread):
                    x[m, t] = s[t]
                Fence(cuda_in_order, cuda_in_order)

    return sort


racy_256 = bitonic("racy_256", 20)
