"""The same sums: one warp fills a ring of four slots with TMA, four warps add up what is there."""

from __future__ import annotations

from exogpu import CudaWarpConfig, macro, proc
from exogpu.isa.sm90 import Sm90_tma_load

WARPS = [CudaWarpConfig("producer", 1, 0, 0), CudaWarpConfig("consumer", 4, 0, 0)]
BOX = (8, 128)


@macro
def load(slot, tile, full):
    Sm90_tma_load(slot, tile, rows=8, cols=128, box=BOX, swizzle=0) >> full


@proc
def column_sums(K: size, N: size, x: f32[K, N] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear):
    assert N % 4 == 0
    x_map = x[:, :] @ Sm90_tensorMap(0, *BOX)
    with CudaDeviceFunction(warp_config=WARPS):
        for b in cuda_tasks(0, (N + 127) / 128):
            slots: f32[4, 8, 128] @ CudaSmemLinear
            total: f32[128] @ CudaRmem
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            with CudaWarps(name="consumer"):
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    total[t] = 0.0
            for k in seq(0, (K + 7) / 8):
                with CudaWarps(name="producer"):
                    Await(empty, cuda_generic_and_async, ~4)
                    load(
                        slots[k % 4, :, :], x_map[8 * k : 8 * k + 8, 128 * b : 128 * b + 128], full
                    )
                    Arrive(cuda_temporal) >> full
                with CudaWarps(name="consumer"):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        for r in seq(0, 8):
                            total[t] += slots[k % 4, r, t]
                    Arrive(cuda_in_order) >> empty
            with CudaWarps(name="consumer"):
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    if 128 * b + t < N:
                        y[128 * b + t] = total[t]
            Fence(cuda_in_order, cuda_in_order)
