"""y = the transpose of x, by tiles of 32 x 32 in shared memory."""

from __future__ import annotations

from exogpu import proc


@proc
def transpose(M: size, N: size, x: f32[M, N] @ CudaGmemLinear, y: f32[N, M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=256):
        for bm in cuda_tasks(0, (M + 31) / 32):
            for bn in cuda_tasks(0, (N + 31) / 32):
                tile: f32[32, 33] @ CudaSmemLinear
                for r in cuda_threads(0, 8, unit=cuda_warp):
                    for c in cuda_threads(0, 32, unit=cuda_thread):
                        for i in seq(0, 4):
                            if 32 * bm + 8 * i + r < M and 32 * bn + c < N:
                                tile[8 * i + r, c] = x[32 * bm + 8 * i + r, 32 * bn + c]
                Fence(cuda_in_order, cuda_in_order)
                for r in cuda_threads(0, 8, unit=cuda_warp):
                    for c in cuda_threads(0, 32, unit=cuda_thread):
                        for i in seq(0, 4):
                            if 32 * bn + 8 * i + r < N and 32 * bm + c < M:
                                y[32 * bn + 8 * i + r, 32 * bm + c] = tile[c, 8 * i + r]
                Fence(cuda_in_order, cuda_in_order)
