"""A hazard names the iteration of the first access, at sizes that people use."""

from __future__ import annotations

from exogpu import proc
from exogpu.isa.sm90 import Sm90_tma_load


@proc
def column_sums(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[32] @ CudaGmemLinear):
    x_map = x[:, :] @ Sm90_tensorMap(128, 64, 32)
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 64, 32] @ Sm90_SmemSwizzled(128)
            acc: f32[32] @ CudaRmem
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            with CudaWarps(1, 2):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    acc[t] = 0.0
            for k in seq(0, (M + 63) / 64):
                with CudaWarps(0, 1):
                    Await(empty, cuda_temporal, ~2)
                    (
                        Sm90_tma_load(
                            tile[k % 2, :, :],
                            x_map[64 * k : 64 * k + 64, :],
                            rows=64,
                            cols=32,
                            box=(64, 32),
                        )
                        >> full
                    )
                    Arrive(cuda_temporal) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_generic_and_async, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        for r in seq(0, 64):
                            acc[t] += tile[k % 2, r, t]
                    Arrive(cuda_in_order) >> empty
            with CudaWarps(1, 2):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[t] = acc[t]
            Fence(cuda_in_order, cuda_in_order)


def test_a_tile_of_ordinary_size() -> None:
    # Slot 0 is read in trip 0 and overwritten in trip 2; a read is by one thread of one row.
    (hazard,) = column_sums.check().hazards
    assert hazard.first is not None
    first, second = dict(hazard.first.iteration), dict(hazard.second.iteration)
    assert (hazard.sizes, first["k"], second["k"]) == ({"M": 129}, 0, 2)
    assert (first["r"], first["t"]) == hazard.index[1:]
    assert hazard.first.threads == "thread 32" and hazard.link
