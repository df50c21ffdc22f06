"""The state space of proxy fences in clusters: the CTA's shared memory where no other CTA accesses
what both proxies do, else the cluster's."""

from __future__ import annotations

import re

import pytest

from tests.texts import made

COPIED = """
@proc
def copied(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[2, M, 64] @ CudaGmemLinear):
    x_map = x[:, :] @ Sm90_tensorMap(0, ROWS, 64)
    y_map = y[:, :, :] @ Sm90_tensorMap(0, 1, 16, 64)
    with CudaDeviceFunction(clusterDim=2, blockDim=64):
        for bm in cuda_tasks(0, (M + 15) / 16):
            r = 16 * bm
            tile: f32[2, 16, 64] @ CudaSmemLinear
            other: f32[2, 16, 64] @ CudaSmemLinear
            full: barrier[2] @ CudaMbarrier
            with CudaWarps(0, 1):
                LOAD
                for cta in cuda_threads(0, 2, unit=cuda_warp_in_cluster):
                    Arrive(cuda_temporal) >> full[cta]
            for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Await(full[cta], cuda_in_order, ~0)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    for i in seq(0, 16):
                        WRITTEN[cta, i, t] = tile[cta, i, t] + 1.0
                Fence(cuda_in_order, cuda_generic_and_async)
            for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                stored: barrier @ CudaCommitGroup
                with CudaWarps(0, 1):
                    Sm90_tma_store(
                        y_map[cta, r : r + 16, 0:64], WRITTEN[cta, :, :],
                        rows=16, cols=64, box=(1, 16, 64),
                    )
                    Arrive(tma_to_gmem_async) >> stored
                    Await(stored, cuda_in_order, 0)
            Fence(cuda_in_order, cuda_in_order)
"""

MULTICAST = """(
                    Sm90_tma_multicast(
                        tile[:, :, :], x_map[r : r + 16, 0:64],
                        n=2, rows=16, cols=64, box=(8, 64), swizzle=0,
                    )
                    >> full[:]
                )"""

ALONE = """for cta in cuda_threads(0, 2, unit=cuda_warp_in_cluster):
                    (
                        Sm90_tma_load(
                            tile[cta, :, :], x_map[r : r + 16, 0:64],
                            rows=16, cols=64, box=(16, 64), swizzle=0,
                        )
                        >> full[cta]
                    )"""


@pytest.mark.parametrize(
    ("load", "rows", "written", "space"),
    [
        (ALONE, 16, "tile", "cta"),
        (ALONE, 16, "other", "cta"),
        (MULTICAST, 8, "tile", "cluster"),  # what the other CTA copies to, too
        (MULTICAST, 8, "other", "cluster"),  # it is read by ordinary statements
    ],
)
def test_it_is_the_ctas_where_no_other_accesses_what_both_do(load, rows, written, space) -> None:
    source = COPIED.replace("LOAD", load).replace("ROWS", str(rows)).replace("WRITTEN", written)
    copied = made(source)
    assert copied.check().word == "proved"
    device = copied.emit(unchecked=True)[0].source
    at_fence = re.findall(
        r"generic_and_async\)\n\s*asm volatile\(\"fence.proxy.async(\S*);\"", device
    )
    assert set(at_fence) == {f".shared::{space}"}
    at_free = re.findall(
        r"fence.proxy.async(\S*);", device.rpartition("Fence(cuda_in_order, cuda_in_order)")[2]
    )
    assert set(at_free) <= {".shared::cluster"} and at_free


# --- between the async proxies of two CTAs --------------------------------------------------------

BY_FLAG = """
@proc
def handed_on(M: size, x: f32[M, 32, 32] @ CudaGmemLinear, y: f32[M, 32, 32] @ CudaGmemLinear):
    ready: barrier[M] @ CudaFlag
    x_map = x[:, :, :] @ Sm90_tensorMap(0, 1, 32, 32)
    y_map = y[:, :, :] @ Sm90_tensorMap(0, 1, 32, 32)
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            tile: f32[32, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            done: barrier @ CudaCommitGroup
            if m > 0:
                Await(ready[m - 1], cuda_in_order, 0)
            Fence(cuda_in_order, cuda_generic_and_async)
            (
                Sm90_tma_load(
                    tile[:, :], SOURCE, rows=32, cols=32, box=(1, 32, 32), swizzle=0
                )
                >> full
            )
            Arrive(cuda_temporal) >> full
            Await(full, cuda_generic_and_async, ~0)
            Sm90_tma_store(
                y_map[m, :, :], tile[:, :], rows=32, cols=32, box=(1, 32, 32), swizzle=0
            )
            Arrive(tma_to_gmem_async) >> done
            Await(done, cuda_in_order, 0)
            Arrive(cuda_in_order) >> ready[m]
            Fence(cuda_in_order, cuda_in_order)
"""

IN_CLUSTER = """
@proc
def given(M: size, x: f32[M, 2, 32, 32] @ CudaGmemLinear, y: f32[M, 32, 32] @ CudaGmemLinear):
    y_map = y[:, :, :] @ Sm90_tensorMap(0, 1, 32, 32)
    x_map = x[:, :, :, :] @ Sm90_tensorMap(0, 1, 1, 32, 32)
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for m in cuda_tasks(0, M):
            tile: f32[2, 32, 32] @ CudaSmemLinear
            full: barrier[2] @ CudaMbarrier
            for cta in cuda_threads(0, 1, unit=cuda_cta_in_cluster):
                done: barrier @ CudaCommitGroup
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, 32):
                        tile[cta, i, t] = 1.0
                Fence(cuda_in_order, cuda_generic_and_async)
                Sm90_tma_store(
                    STORED, tile[cta, :, :], rows=32, cols=32, box=BOX, swizzle=0
                )
                Arrive(tma_to_gmem_async) >> done
                Await(done, cuda_in_order, 0)
            Fence(cuda_in_order, cuda_generic_and_async)
            for cta in cuda_threads(1, 2, unit=cuda_cta_in_cluster):
                (
                    Sm90_tma_load(
                        tile[cta, :, :], y_map[m, :, :],
                        rows=32, cols=32, box=(1, 32, 32), swizzle=0,
                    )
                    >> full[cta]
                )
                Arrive(cuda_temporal) >> full[cta]
                Await(full[cta], cuda_generic_and_async, ~0)
            Fence(cuda_in_order, cuda_in_order)
"""


def fences(source: str) -> list[str]:
    """The spaces of the proxy fences that Fences to both proxies are."""
    device = made(source).emit()[0].source  # proved, or it is not emitted
    return re.findall(
        r"generic_and_async\)\n(?:\s*//.*\n)*\s*asm volatile\(\"fence.proxy.async(\S*);\"", device
    )


@pytest.mark.parametrize(
    ("loaded", "space"),
    [
        ("y_map[m, :, :]", ""),  # what this launch stores
        ("x_map[m, :, :]", ""),  # and orders by flags, whatever is loaded
    ],
)
def test_what_another_cta_stored_by_tma_is_fenced_before_it_is_loaded_by_tma(loaded, space) -> None:
    assert set(fences(BY_FLAG.replace("SOURCE", loaded))) == {space}


@pytest.mark.parametrize(
    ("stored", "box", "space"),
    [
        ("y_map[m, :, :]", "(1, 32, 32)", ""),
        ("x_map[m, 0, :, :]", "(1, 1, 32, 32)", ".shared::cta"),  # which nothing loads
    ],
)
def test_so_it_is_within_a_cluster(stored, box, space) -> None:
    assert set(fences(IN_CLUSTER.replace("STORED", stored).replace("BOX", box))) == {space}


WRITTEN_BY_FLAG = """
@proc
def written(M: size, y: f32[M, 32, 32] @ CudaGmemLinear, z: f32[M, 32, 32] @ CudaGmemLinear):
    ready: barrier[M] @ CudaFlag
    y_map = y[:, :, :] @ Sm90_tensorMap(0, 1, 32, 32)
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for i in seq(0, 32):
                    y[m, i, t] = 1.0
            Fence(cuda_in_order, cuda_generic_and_async)
            Arrive(cuda_in_order) >> ready[m]
            if m > 0:
                tile: f32[32, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                Await(ready[m - 1], cuda_in_order, 0)
                (
                    Sm90_tma_load(
                        tile[:, :], y_map[m - 1, :, :], rows=32, cols=32, box=(1, 32, 32), swizzle=0
                    )
                    >> full
                )
                Arrive(cuda_temporal) >> full
                Await(full, cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, 32):
                        z[m, i, t] = tile[i, t]
                Fence(cuda_in_order, cuda_in_order)
"""

WRITTEN_IN_CLUSTER = """
@proc
def written(M: size, y: f32[M, 32, 32] @ CudaGmemLinear, z: f32[M, 32, 32] @ CudaGmemLinear):
    y_map = y[:, :, :] @ Sm90_tensorMap(0, 1, 32, 32)
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for m in cuda_tasks(0, M):
            tile: f32[2, 32, 32] @ CudaSmemLinear
            full: barrier[2] @ CudaMbarrier
            told: barrier[EXTENT] @ MECHANISM
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, 16):
                        y[m, 16 * c + i, t] = 1.0
                Fence(cuda_in_order, cuda_generic_and_async)
            SYNC
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                (
                    Sm90_tma_load(
                        tile[c, :, :], y_map[m, :, :], rows=32, cols=32, box=(1, 32, 32), swizzle=0
                    )
                    >> full[c]
                )
                Arrive(cuda_temporal) >> full[c]
                Await(full[c], cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, 16):
                        z[m, 16 * c + i, t] = tile[c, 16 * c + i, t]
            Fence(cuda_in_order, cuda_in_order)
"""

BY_FENCE = "Fence(cuda_in_order, cuda_in_order)"

BY_CLUSTER_SYNC = """Arrive(cuda_in_order) >> told
            Await(told, cuda_in_order, 0)"""

BY_MBARRIERS = """for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Arrive(cuda_in_order) >> told[c] >> told[:]
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Await(told[c], cuda_in_order, ~0)"""


def by(sync: str, mechanism: str = "CudaMbarrier", extent: str = "[2]") -> str:
    return (
        WRITTEN_IN_CLUSTER.replace("SYNC", sync)
        .replace("MECHANISM", mechanism)
        .replace("[EXTENT]", extent)
    )


@pytest.mark.parametrize(
    "source",
    [
        WRITTEN_BY_FLAG,
        by(BY_MBARRIERS),
        by(BY_CLUSTER_SYNC, "CudaClusterSync", ""),
        by(BY_FENCE).replace("            told: barrier[2] @ CudaMbarrier\n", ""),
    ],
    ids=["flag", "mbarriers", "cluster sync", "fence"],
)
def test_a_cta_fences_for_its_own_copies_after_it_has_waited_for_others(source: str) -> None:
    """The fence before the arrival is of another CTA."""
    _, _, kernel = made(source).emit()[0].source.partition("__global__")
    before, _, _ = kernel.partition("Sm90_tma_load<")
    waits = ("flag_await(", "mbarrier_wait_cluster<", "barrier.cluster.wait")
    *_, waited = re.split("|".join(re.escape(wait) for wait in waits), before)
    assert 'asm volatile("fence.proxy.async.global;"' in waited


def test_it_has_nothing_to_fence_where_no_copy_is_of_what_others_accessed() -> None:
    source = IN_CLUSTER.replace("STORED", "x_map[m, 0, :, :]").replace("BOX", "(1, 1, 32, 32)")
    assert "fence.proxy.async.global" not in made(source).emit()[0].source
