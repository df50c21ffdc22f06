"""C[m, n] = sum over k of A[m, k] * B[k, n] on CUDA cores: one thread an output element."""

from __future__ import annotations

from exogpu import *


@proc
def matmul_cuda_cores(
    M: size,
    N: size,
    K: size,
    A: f32[M, K] @ CudaGmemLinear,
    B: f32[K, N] @ CudaGmemLinear,
    C: f32[M, N] @ CudaGmemLinear,
):
    with CudaDeviceFunction(blockDim=256):
        for tm in cuda_tasks(0, (M + 15) / 16):
            for tn in cuda_tasks(0, (N + 15) / 16):
                for t in cuda_threads(0, 256, unit=cuda_thread):
                    if 16 * tm + t / 16 < M and 16 * tn + t % 16 < N:
                        accum: f32
                        accum = 0
                        for k in seq(0, K):
                            accum += A[16 * tm + t / 16, k] * B[k, 16 * tn + t % 16]
                        C[16 * tm + t / 16, 16 * tn + t % 16] = accum
