"""A copy that TMA rounds to tf32, for `gpu_rounding.py`."""

from __future__ import annotations

from exogpu.api import proc
from exogpu.isa.sm90 import Sm90_tma_load_tf32


@proc
def rounding(  # noqa: ANN201
    n: size, x: f32[n, 32] @ CudaGmemLinear, y: f32[n, 32] @ CudaGmemLinear
):
    x_map = x[:, :] @ Sm90_tensorMap_tf32(0, 8, 32)
    with CudaDeviceFunction(blockDim=32):
        for block in cuda_tasks(0, (n + 7) / 8):
            tile: f32[8, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            (
                Sm90_tma_load_tf32(
                    tile[:, :],
                    x_map[8 * block : 8 * block + 8, :],
                    rows=8,
                    cols=32,
                    box=(8, 32),
                    swizzle=0,
                )
                >> full
            )
            Arrive(cuda_temporal) >> full
            Await(full, cuda_in_order, ~0)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for i in seq(0, 8):
                    if 8 * block + i < n:
                        y[8 * block + i, t] = tile[i, t]
            Fence(cuda_in_order, cuda_in_order)
