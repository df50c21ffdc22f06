"""What one thread does others have to know of; a sort; tiles; an update in place; a Fence of each
warp, and an Arrive too many.

# proved all_wait
# refuted one_waits: RAW PHASE
#     | move the Await of line {wait} out of the `with CudaWarps(0, 4)` of line | proved
# proved sorted_16
# refuted racy_16: RAW WAW | add `Fence(cuda_in_order, cuda_in_order)` before line {step} | proved
# refuted overlapping: WAW | | | M <= 56
# refuted in_place: RAW WAR | the sequential reading itself is at fault: i = 64 |
# refuted by_warps: RAW
#     | in the loop of line {tasks}, and delete line {warps}, which then holds nothing | proved
# refuted doubled: BARRIER PHASE WAR
#     | remove the Arrive of line {twice}: the same threads execute that of line {once} |
# refuted unrolled: PHASE | add `Fence(cuda_in_order, cuda_in_order)` after line | proved
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_tma_load


def waiting(name: str, everyone: bool) -> Procedure:
    """All warpgroups wait for a tile, or one of three does."""

    @proc(name=name)
    def rows(
        M: size, K: size, x: f32[M, K, 32, 32] @ CudaGmemLinear, y: f32[M, K, 384] @ CudaGmemLinear
    ):
        x_map = x[:, :, :, :] @ Sm90_tensorMap(0, 1, 1, 32, 32)
        with CudaDeviceFunction(blockDim=384):
            for m in cuda_tasks(0, M):
                ring: f32[4, 32, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                for k in seq(0, K):
                    with CudaWarps(0, 1):
                        Await(empty, cuda_generic_and_async, ~4)
                        (
                            Sm90_tma_load(
                                ring[k % 4, :, :],
                                x_map[m, k, :, :],
                                rows=32,
                                cols=32,
                                box=(1, 1, 32, 32),
                                swizzle=0,
                            )
                            >> full
                        )
                        Arrive(cuda_temporal) >> full
                    if everyone:
                        Await(full, cuda_in_order, ~0)
                    else:
                        with CudaWarps(0, 4):
                            Await(full, cuda_in_order, ~0)  # [wait]
                    for t in cuda_threads(0, 384, unit=cuda_thread):
                        for i in seq(0, 32):
                            y[m, k, t] = ring[k % 4, i, t % 32]
                    Arrive(cuda_in_order) >> empty
                Fence(cuda_in_order, cuda_in_order)

    return rows


all_wait = waiting("all_wait", True)
one_waits = waiting("one_waits", False)

STEPS = [(k, 1 << j) for k in range(4) for j in range(k, -1, -1)]


def bitonic(name: str, fences: bool) -> Procedure:
    """Sixteen numbers, by eight threads in ten steps."""

    @proc(name=name)
    def sort(M: size, x: f32[M, 16] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                s: f32[16] @ CudaSmemLinear
                for t in cuda_threads(0, 16, unit=cuda_thread):
                    s[t] = x[m, t]
                Fence(cuda_in_order, cuda_in_order)
                for n in range(len(STEPS)):
                    for t in cuda_threads(0, 8, unit=cuda_thread):  # [step]
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
                    if fences or n != 6:
                        Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 16, unit=cuda_thread):
                    x[m, t] = s[t]
                Fence(cuda_in_order, cuda_in_order)

    return sort


sorted_16 = bitonic("sorted_16", True)
racy_16 = bitonic("racy_16", False)


@proc
def overlapping(M: size, N: size, x: f32[M, N] @ CudaGmemLinear, y: f32[M, N] @ CudaGmemLinear):
    """Tiles of 56 rows for clusters of two CTAs with 32 rows each."""
    with CudaDeviceFunction(clusterDim=2, blockDim=128):
        for m in cuda_tasks(0, (M + 55) / 56):
            for n in seq(0, (N + 127) / 128):
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        for r in seq(0, 32):
                            if 56 * m + 32 * cta + r < M and 128 * n + t < N:
                                y[56 * m + 32 * cta + r, 128 * n + t] = x[
                                    56 * m + 32 * cta + r, 128 * n + t
                                ]


@proc
def in_place(T: size, x: f32[T, 128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for t in cuda_tasks(0, T):
            for i in cuda_threads(0, 128, unit=cuda_thread):
                x[t, i] = x[t, i] + x[t, (i + 64) % 128]


@proc
def unrolled(x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            turn: barrier @ CudaNamedBarrier
            for g in range(2):
                with CudaWarps(g, g + 1):
                    Arrive(cuda_in_order) >> turn
                with CudaWarps(2 + g, 3 + g):
                    Await(turn, cuda_in_order)
            Fence(cuda_in_order, cuda_in_order)


@proc
def by_warps(M: size, N: size, x: f32[M, N] @ CudaGmemLinear, y: f32[M, N] @ CudaGmemLinear):
    assert N <= 128
    with CudaDeviceFunction(blockDim=128):
        for m in cuda_tasks(0, M):  # [tasks]
            tile: f32[1, 128] @ CudaSmemLinear
            for t in cuda_threads(0, 128, unit=cuda_thread):
                if t < N:
                    tile[0, t] = x[m, t]
            for w in cuda_threads(0, 4, unit=cuda_warp):  # [warps]
                Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 128, unit=cuda_thread):
                if t < N:
                    y[m, t] = tile[0, N - 1 - t]
            Fence(cuda_in_order, cuda_in_order)


@proc
def doubled(K: size, x: f32[K, 32] @ CudaGmemLinear, y: f32[K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    Await(empty, cuda_in_order, ~2)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[k % 2, t] = x[k, t]
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[k, t] = tile[k % 2, 31 - t]
                    Arrive(cuda_in_order) >> empty  # [once]
                    Arrive(cuda_in_order) >> empty  # [twice]
            Fence(cuda_in_order, cuda_in_order)
