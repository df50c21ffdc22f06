"""y = x, an element a thread."""

from __future__ import annotations

from exogpu import proc


@proc
def copy(n: size, x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=256):
        for b in cuda_tasks(0, (n + 255) / 256):
            for t in cuda_threads(0, 256, unit=cuda_thread):
                i = 256 * b + t
                if i < n:
                    y[i] = x[i]
