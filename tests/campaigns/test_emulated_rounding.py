"""Loads that round to tf32, on the emulator, beside loads from another map of the same array."""

from __future__ import annotations

import shutil
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu.api import proc
from exogpu.isa.sm90 import Sm90_tma_load, Sm90_tma_load_tf32, Sm90_tma_multicast_tf32

BOX = (16, 32)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine"),
]


@proc
def cut_off(M: size, N: size, x: f32[M, N] @ CudaGmemLinear, y: f32[2, M, N] @ CudaGmemLinear):
    """Each of two CTAs finds what rounding has changed."""
    assert N % 4 == 0
    whole = x[:, :] @ Sm90_tensorMap(128, 16, 32)
    near = x[:, :] @ Sm90_tensorMap_tf32(128, 8, 32)
    alone = x[:, :] @ Sm90_tensorMap_tf32(128, 16, 32)
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for bm in cuda_tasks(0, (M + 15) / 16):
            for bn in cuda_tasks(0, (N + 31) / 32):
                r = 16 * bm
                c = 32 * bn
                A: f32[2, 16, 32] @ Sm90_SmemSwizzled(128)
                B: f32[2, 16, 32] @ Sm90_SmemSwizzled(128)
                C: f32[2, 16, 32] @ Sm90_SmemSwizzled(128)
                full: barrier[2] @ CudaMbarrier
                (
                    Sm90_tma_multicast_tf32(
                        A[:, :, :], near[r : r + 16, c : c + 32], n=2, rows=16, cols=32, box=(8, 32)
                    )
                    >> full[:]
                )
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    (
                        Sm90_tma_load(
                            B[cta, :, :],
                            whole[r : r + 16, c : c + 32],
                            rows=16,
                            cols=32,
                            box=BOX,
                        )
                        >> full[cta]
                    )
                    (
                        Sm90_tma_load_tf32(
                            C[cta, :, :],
                            alone[r : r + 16, c : c + 32],
                            rows=16,
                            cols=32,
                            box=BOX,
                        )
                        >> full[cta]
                    )
                    Arrive(cuda_temporal) >> full[cta]
                    Await(full[cta], cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        for i in seq(0, 16):
                            if r + i < M and c + t < N:
                                y[cta, r + i, c + t] = (
                                    2.0 * B[cta, i, t] - A[cta, i, t] - C[cta, i, t]
                                )
                Fence(cuda_in_order, cuda_in_order)


def ran(manifest: dict[str, object], source: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """What the sequential meaning and the emitted code leave."""
    random = np.random.default_rng(5)
    x = random.standard_normal((37, 68), np.float32)
    x[0, :4] = [2.0**-140, -0.0, np.inf, 1 + 2**-11]
    wanted, found = (np.zeros((2, *x.shape), np.float32) for _ in range(2))
    with np.errstate(invalid="ignore"):
        cut_off.run(x=x, y=wanted)
    arrays = {"x": x, "y": found}
    Emulated(source, manifest, folder)(arrays, {"M": 37, "N": 68}, ORDERS[0])
    return wanted, arrays["y"]


def test_both_maps_of_an_array(builds) -> None:
    """Each of its own kind: what was cut off is there, and it is not there without the rounding."""
    assert cut_off.check().word == "proved"
    emitted, manifest = cut_off.emit()
    wanted, found = ran(manifest, emitted.source, builds)
    np.testing.assert_array_equal(found, wanted)
    assert np.count_nonzero(wanted) > 4000
    careless = deepcopy(manifest)
    for argument in careless["steps"][0]["arguments"]:
        if isinstance(argument, dict):
            argument.pop("tf32", None)
    _, cut = ran(careless, emitted.source, builds)
    assert np.count_nonzero(cut[np.isfinite(cut)]) == 0
