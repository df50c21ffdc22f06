"""An Await of phase 1 does not say that the copy of phase 0 has landed (`await-own-arrival`).

The producer loads slot 0 (phase 0) and slot 1 (phase 1); one consumer awaits phase 0, the other
phase 1, and reads slot 0.  These are two mbarriers, and copies land in any order.
"""

# expect bug: refuted RAW tile
# expect bug_ring: refuted RAW tile
# expect fix: proved

from __future__ import annotations

from exogpu import *
from exogpu.platforms.sm90 import Sm90_tma_load


@macro
def load(slot, tile, full):
    Sm90_tma_load(slot, tile, rows=8, cols=32, box=(1, 8, 32), swizzle=0) >> full
    Arrive(cuda_temporal) >> full


def make(name: str, read: int):
    @proc(name=name)
    def two(M: size, x: f32[2 * M, 8, 32] @ CudaGmemLinear, y: f32[M, 8, 32] @ CudaGmemLinear):
        x_map = x[:, :, :] @ Sm90_tensorMap(0, 1, 8, 32)
        with CudaDeviceFunction(blockDim=96):
            for m in cuda_tasks(0, M):
                tile: f32[2, 8, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                for k in range(2):
                    with CudaWarps(0, 1):
                        load(tile[k, :, :], x_map[2 * m + k, :, :], full)
                    with CudaWarps(1 + k, 2 + k):
                        Await(full, cuda_in_order, ~0)
                        if k == 1:
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                for i in seq(0, 8):
                                    y[m, i, t] = tile[read, i, 31 - t]
                Fence(cuda_in_order, cuda_in_order)

    return two


bug = make("bug", 0)
fix = make("fix", 1)


@proc
def bug_ring(K: size, x: f32[2 * K, 8, 32] @ CudaGmemLinear, y: f32[K, 8, 32] @ CudaGmemLinear):
    """Two consumers in turns on a ring of 4; the second also reads the slot of the first."""
    x_map = x[:, :, :] @ Sm90_tensorMap(0, 1, 8, 32)
    with CudaDeviceFunction(blockDim=96):
        for m in cuda_tasks(0, 1):
            tile: f32[4, 8, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for k in seq(0, K):
                for c in range(2):
                    with CudaWarps(0, 1):
                        Await(empty, cuda_generic_and_async, ~2)
                        load(tile[(2 * k + c) % 4, :, :], x_map[2 * k + c, :, :], full)
                    with CudaWarps(1 + c, 2 + c):
                        Await(full, cuda_in_order, ~0)
                        if c == 1:
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                for i in seq(0, 8):
                                    y[k, i, t] = tile[(2 * k) % 4, i, 31 - t]
                        Arrive(cuda_in_order) >> empty
            Fence(cuda_in_order, cuda_in_order)
