"""The transpose of a matrix, by tiles of 64 x 64 in shared memory."""

from __future__ import annotations

from exogpu import proc


@proc
def transpose(M: size, N: size, x: f32[M, N] @ CudaGmemLinear, y: f32[N, M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=256):
        for bm in cuda_tasks(0, (M + 63) / 64):
            for bn in cuda_tasks(0, (N + 63) / 64):
                tile: f32[64, 65] @ CudaSmemLinear
                for r in cuda_threads(0, 4, unit=2 * cuda_warp):
                    for c in cuda_threads(0, 64, unit=cuda_thread):
                        for i in seq(0, 16):
                            if 64 * bm + 4 * i + r < M and 64 * bn + c < N:  # [loaded]
                                tile[4 * i + r, c] = x[64 * bm + 4 * i + r, 64 * bn + c]  # [load]
                Fence(cuda_in_order, cuda_in_order)  # [filled]
                for r in cuda_threads(0, 4, unit=2 * cuda_warp):
                    for c in cuda_threads(0, 64, unit=cuda_thread):
                        for i in seq(0, 16):
                            if 64 * bn + 4 * i + r < N and 64 * bm + c < M:  # [stored]
                                y[64 * bn + 4 * i + r, 64 * bm + c] = tile[c, 4 * i + r]  # [store]
                Fence(cuda_in_order, cuda_in_order)  # [end]


# planted no_fence: drop filled | RAW | add `Fence(cuda_in_order, cuda_in_order)` before line |
#     proved
# planted no_fence_at_end: drop end | FREE | add `Fence(cuda_in_order, cuda_in_order)` after line
#     | proved
# planted fence_by_warps: put filled under for w in cuda_threads(0, 8, unit=cuda_warp): | RAW |
#     move the Fence of line | proved
# planted fence_by_one_thread: put filled under for w in cuda_threads(0, 1, unit=cuda_thread): |
#     RAW | add `Fence(cuda_in_order, cuda_in_order)` before line | proved
# planted guard_of_the_other: stored: 64 * bn + 4 * i + r < N and 64 * bm + c < M -> 64 * bm + 4 *
#     i + r < M and 64 * bn + c < N | BOUNDS | guard the access with `if`, or add a precondition
#     that excludes indice
# planted load_unguarded: loaded: 64 * bm + 4 * i + r < M -> True | BOUNDS | guard it: put `if 64
#     * bm + 4 * i + r < M:` before line | proved
# planted wrong_tile: store: tile[c, 4 * i + r] -> tile[4 * i + r, c] | UNINIT | fill what the
#     `if` of line | proved
