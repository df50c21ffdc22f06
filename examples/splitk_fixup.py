"""A product whose K is divided among tasks, and no second kernel: the last slice of a tile adds up.

Each of S slices of K computes a part of a tile of C. All but the last store theirs and signal the
tile's flag; the last one, in program order, awaits them and adds them to its own, in order.
"""

from __future__ import annotations

from exogpu import *

TILE = 32
"""Rows and columns of a tile of C, and columns of A and B that are in shared memory at a time."""


@proc
def splitk_fixup(
    M: size,
    N: size,
    K: size,
    S: size,
    A: f32[M, S, K] @ CudaGmemLinear,
    B: f32[N, S, K] @ CudaGmemLinear,
    C: f32[M, N] @ CudaGmemLinear,
):
    """C = A B^T, of rows of S slices of K elements each."""
    parts: f32[S, M, N] @ CudaGmemLinear
    done: barrier[(M + TILE - 1) / TILE, (N + TILE - 1) / TILE] @ CudaFlag
    with CudaDeviceFunction(blockDim=32 * 8):
        for tm in cuda_tasks(0, (M + TILE - 1) / TILE):
            for tn in cuda_tasks(0, (N + TILE - 1) / TILE):
                for s in cuda_tasks(0, S):
                    a: f32[TILE, TILE] @ CudaSmemLinear
                    b: f32[TILE, TILE + 1] @ CudaSmemLinear
                    sums: f32[8, 32, 4]
                    for w in cuda_threads(0, 8, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            for i in seq(0, 4):
                                sums[w, t, i] = 0.0
                    for k in seq(0, (K + TILE - 1) / TILE):
                        for w in cuda_threads(0, 8, unit=cuda_warp):
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                for i in seq(0, 4):
                                    a[8 * i + w, t] = 0.0
                                    b[8 * i + w, t] = 0.0
                                    if TILE * k + t < K:
                                        if TILE * tm + 8 * i + w < M:
                                            a[8 * i + w, t] = A[
                                                TILE * tm + 8 * i + w, s, TILE * k + t
                                            ]
                                        if TILE * tn + 8 * i + w < N:
                                            b[8 * i + w, t] = B[
                                                TILE * tn + 8 * i + w, s, TILE * k + t
                                            ]
                        Fence(cuda_in_order, cuda_in_order)
                        for w in cuda_threads(0, 8, unit=cuda_warp):
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                for c in seq(0, TILE):
                                    for i in seq(0, 4):
                                        sums[w, t, i] += a[8 * i + w, c] * b[t, c]
                        Fence(cuda_in_order, cuda_temporal)
                    if s < S - 1:
                        for w in cuda_threads(0, 8, unit=cuda_warp):
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                for i in seq(0, 4):
                                    if TILE * tm + 8 * i + w < M and TILE * tn + t < N:
                                        parts[s, TILE * tm + 8 * i + w, TILE * tn + t] = sums[
                                            w, t, i
                                        ]
                        Arrive(cuda_in_order) >> done[tm, tn]
                    if s == S - 1:
                        Await(done[tm, tn], cuda_in_order, 0)
                        for w in cuda_threads(0, 8, unit=cuda_warp):
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                for i in seq(0, 4):
                                    if TILE * tm + 8 * i + w < M and TILE * tn + t < N:
                                        for e in seq(0, S - 1):
                                            sums[w, t, i] += parts[
                                                e, TILE * tm + 8 * i + w, TILE * tn + t
                                            ]
                                        C[TILE * tm + 8 * i + w, TILE * tn + t] = sums[w, t, i]
