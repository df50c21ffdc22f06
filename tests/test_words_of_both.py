"""What is said of accesses that both read and write, and of timelines that are the host's."""

from __future__ import annotations

from tests.texts import made

ADDED = """
@proc
def added(y: i32[32] @ CudaGmemLinear, z: i32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, 1):
            for t in cuda_threads(0, 64, unit=cuda_thread):
                r: i32
                r = 1
                cuda_atomic_add(y[t % 32], r, dtype=i32)
                if t < 32:
                    z[t] = y[t]
"""

TEMPORAL = """
@proc
def temporal(K: size, x: f32[K, 32, 32] @ CudaGmemLinear, y: f32[K, 32, 32] @ CudaGmemLinear):
    x_map = x[:, :, :] @ Sm90_tensorMap(0, 1, 32, 32)
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 32, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    Await(empty, cuda_generic_and_async, ~2)
                    (
                        Sm90_tma_load(
                            tile[k % 2, :, :], x_map[k, :, :],
                            rows=32, cols=32, box=(1, 32, 32), swizzle=0,
                        )
                        >> full
                    )
                    Arrive(cuda_temporal) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        for i in seq(0, 32):
                            y[k, i, t] = tile[k % 2, i, t]
                    Arrive(cuda_temporal) >> empty
            Fence(cuda_in_order, cuda_in_order)
"""


def test_it_is_the_write_that_reads_before_it_meet() -> None:
    said = str(made(ADDED).check())
    assert "the read of y[0] is not ordered before the write" in said
    assert "and the write at line" in said


def test_no_timeline_of_the_host_repairs_a_kernel() -> None:
    said = str(made(TEMPORAL).check())
    assert "be cuda_in_order" in said
    assert "be cuda_stream_sync" not in said
