"""Arrivals that tell others of what was accessed: as wide as what they tell, and none too late."""

from __future__ import annotations

import pytest

from tests.texts import made

WRITTEN = """
@proc
def written(x: f32[2, 128] @ CudaGmemLinear, y: f32[2, 128] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=128):
        for task in cuda_tasks(0, 1):
            part: f32[2, 128] @ CudaSmemCluster
            ready: barrier[2] @ CudaMbarrier
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    part[c, t] = x[c, t]
            FENCE
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Arrive(cuda_in_order) >> ready[c] >> ready[:]
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Await(ready[c], cuda_in_order, ~0)
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    y[c, t] = part[1 - c, t]
            Fence(cuda_in_order, cuda_in_order)
"""

WAITED = """
@proc
def waited(n: size, x: f32[n, 64] @ CudaGmemLinear, y: f32[n, 64] @ CudaGmemLinear):
    s: f32[n, 64] @ CudaGmemLinear
    with CudaDeviceFunction(blockDim=64):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 64, unit=cuda_thread):
                s[i, t] = x[i, t]
    with CudaDeviceFunction(clusterDim=2, blockDim=32, dependent=True):
        for i in cuda_tasks(0, n):
            z: barrier[2] @ CudaMbarrier
            for c in cuda_threads(0, 1, unit=cuda_cta_in_cluster):
                Fence(cuda_stream_sync, cuda_in_order)
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Arrive(cuda_in_order) >> z[c] >> z[:]
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Await(z[c], cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[i, 32 * c + t] = s[i, 32 * c + t]
            Fence(cuda_in_order, cuda_in_order)
"""

STORED = """
@proc
def stored(
    x: f32[2, 32, 32] @ CudaGmemLinear,
    y: f32[2, 32, 32] @ CudaGmemLinear,
    z: f32[2, 32, 32] @ CudaGmemLinear,
):
    y_map = y[:, :, :] @ Sm90_tensorMap(0, 1, 32, 32)
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 32, 32] @ CudaSmemLinear
            told: barrier[2] @ CudaMbarrier
            done: barrier[2] @ CudaCommitGroup
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, 32):
                        tile[c, t, i] = x[c, i, t]
                Fence(cuda_in_order, cuda_generic_and_async)
                Sm90_tma_store(y_map[c, :, :], tile[c, :, :], rows=32, cols=32, box=(1, 32, 32))
                Arrive(tma_to_gmem_async) >> done[c]
            Fence(FIRST, cuda_in_order)
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Await(done[c], cuda_in_order, 0)
                Arrive(cuda_in_order) >> told[c] >> told[:]
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Await(told[c], cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, 32):
                        z[c, i, t] = y[1 - c, i, t]
            Fence(cuda_in_order, cuda_in_order)
"""

COPIED = """
@proc
def copied(T: size, x: f32[T, 32] @ CudaGmemLinear, y: f32[T, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, T):
            tile: f32[32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            other: barrier(full) @ CudaMbarrier
            with CudaWarps(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    Sm80_cp_async_copy(tile[t : t + 1], x[m, t : t + 1], n=1)
                Arrive(Sm80_cp_async) >> full
                Arrive(cuda_in_order) >> other
            with CudaWarps(1, 2):
                Await(full, cuda_in_order, ~SKIP)
                Await(other, cuda_in_order, ~0)
            Fence(Sm80_generic, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = tile[31 - t]
            Fence(cuda_in_order, cuda_in_order)
"""


@pytest.mark.parametrize(
    ("source", "own"),
    [
        (WRITTEN.replace("FENCE", "pass"), False),
        # It joins no threads, so that it has told nobody.
        (WRITTEN.replace("FENCE", "Fence(wgmma_fence_1, wgmma_fence_2)"), False),
        (WRITTEN.replace("FENCE", "Fence(cuda_in_order, cuda_in_order)"), True),
        # By the waiting threads, of what launches before have written.
        (WAITED, False),
        # The stores are over after the Fence, unless that waits for them.
        (STORED.replace("FIRST", "cuda_in_order"), False),
        (STORED.replace("FIRST", "tma_to_gmem_async"), True),
    ],
)
def test_what_another_cta_has_to_know_is_released_to_it(source: str, own: bool) -> None:
    text = made(source).emit()[0].source  # proved, or it is not emitted
    arrival = "mbarrier_arrive_reads" if own else "mbarrier_arrive_cluster"
    assert text.count(f" {arrival}<") == 1
    assert f"void {arrival}(" in text


@pytest.mark.parametrize("skip", [0, 1])
def test_no_arrival_of_copies_is_left_to_come(skip: int) -> None:
    """Of one that nobody awaits the mbarrier would hear in another task, or after the kernel."""
    text = made(COPIED.replace("SKIP", str(skip))).emit()[0].source
    assert ("cp.async.mbarrier.arrive" in text) == (skip == 0)
