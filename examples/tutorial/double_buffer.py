"""y[n] = the sum of column n of x; cp.async brings the next rows while these are added."""

from __future__ import annotations

from exogpu import proc
from exogpu.isa.sm80 import Sm80_cp_async_copy


@proc
def column_sums(K: size, N: size, x: f32[K, N] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear):
    assert K % 4 == 0 and N % 128 == 0
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, N / 128):
            rows: f32[2, 4, 128] @ CudaSmemLinear
            total: f32[128] @ CudaRmem
            copied: barrier[128] @ CudaCommitGroup
            for t in cuda_threads(0, 128, unit=cuda_thread):
                total[t] = 0.0
            for k in seq(0, K / 4 + 1):
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    if k < K / 4:
                        r = t / 32
                        c = 4 * (t % 32)
                        Sm80_cp_async_copy(
                            rows[k % 2, r, c : c + 4], x[4 * k + r, 128 * b + c : 128 * b + c + 4]
                        )
                        Arrive(Sm80_cp_async) >> copied[t]
                if k >= 1:
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        if k < K / 4:
                            Await(copied[t], cuda_in_order, 1)
                        else:
                            Await(copied[t], cuda_in_order, 0)
                    Fence(cuda_in_order, cuda_in_order)
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        for r in seq(0, 4):
                            total[t] += rows[(k - 1) % 2, r, t]
                    Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 128, unit=cuda_thread):
                y[128 * b + t] = total[t]
