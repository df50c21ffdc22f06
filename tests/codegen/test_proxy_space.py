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
