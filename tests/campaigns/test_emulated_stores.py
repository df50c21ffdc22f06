"""Accumulators that leave through shared memory, on the emulator: every type, every swizzle, and
without a wait, or with another layout, not what they should be."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from campaigns.emulator.launch import Emulated, EmulatedError
from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure
from exogpu.gpu_trial.run_data import at_sizes, difference
from exogpu.hw.language import bf16, f16, f32
from exogpu.ir.types import DataType
from exogpu.kernels.gemm_staged_sm90 import make_staged
from tests.texts import made

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine"),
]


def tiles(swizzle: int, dtype: DataType, store: str = "store", buffers: int = 2) -> Procedure:
    """An accumulator of 128 x 64 that is staged slice by slice, and stored, or added, by a warp."""
    cols = (swizzle or 64) // dtype.bytes
    name = dtype.value
    memory = f"Sm90_SmemSwizzled({swizzle})" if swizzle else "CudaSmemLinear"
    options = f"swizzle={swizzle}, dtype={name}"
    return made(f"""
@proc
def tiles(M: size, N: size, x: f32[M, N] @ CudaGmemLinear, y: {name}[M, N] @ CudaGmemLinear):
    assert N % 8 == 0
    y_map = y[:, :] @ Sm90_tensorMap({swizzle}, 128, {cols})
    with CudaDeviceFunction(blockDim=128):
        for tm in cuda_tasks(0, (M + 127) / 128):
            for tn in cuda_tasks(0, (N + 63) / 64):
                D: f32[128, 64] @ Sm90_RmemMatrixD(128, 64)
                S: {name}[{buffers}, 128, {cols}] @ {memory}
                read: barrier @ CudaCommitGroup
                for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                    for m, n in fragment(D):
                        D[m, n] = 0.0
                        if 128 * tm + m < M and 64 * tn + n < N:
                            D[m, n] = x[128 * tm + m, 64 * tn + n]
                for j in seq(0, {64 // cols}):
                    for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                        Sm90_stage_tile(
                            {cols} * j, S[j % {buffers}, :, :], D[:, :],
                            M=128, N=64, cols={cols}, {options},
                        )
                    Fence(cuda_in_order, cuda_generic_and_async)
                    for w in cuda_threads(0, 1, unit=cuda_warp):
                        n = 64 * tn + {cols} * j
                        Sm90_tma_{store}(
                            y_map[128 * tm : 128 * tm + 128, n : n + {cols}],
                            S[j % {buffers}, :, :],
                            rows=128, cols={cols}, box=(128, {cols}), {options},
                        )
                        Arrive(tma_to_gmem_source) >> read
                        Await(read, cuda_in_order, {buffers - 1})
                    Fence(cuda_in_order, cuda_in_order)
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    Await(read, cuda_in_order, 0)
                Fence(cuda_in_order, cuda_in_order)
""")


def wrong(
    procedure: Procedure,
    sizes: dict[str, int],
    folder: Path,
    change: Callable[[str], str] = str,
    orders: int = 2,
) -> list[str]:
    """What is wrong of a changed text, in some orders."""
    emitted, manifest = procedure.emit(unchecked=True)
    source = change(emitted.source)
    assert change is str or source != emitted.source
    kernel = Emulated(source, manifest, folder)
    types = {p["name"]: p["dtype"] for p in manifest["parameters"] if p["kind"] == "data"}
    there = at_sizes(procedure, sizes, 1)
    found = []
    for order in ORDERS[:orders]:
        arrays = {name: array.copy() for name, array in there.given.items()}
        try:
            kernel(arrays, sizes, order)
        except EmulatedError as error:
            found.append(str(error))
            continue
        each = (difference(arrays[n], wanted, types[n], 0.0) for n, wanted in there.wanted.items())
        found.append("; ".join(filter(None, each)))
    return [one for one in found if one]


SIZES = {"M": 150, "N": 72}
TILES = [
    (0, f32, "store"),
    (64, f32, "store"),
    (128, f32, "reduce"),
    (0, bf16, "store"),
    (32, bf16, "reduce"),
    (64, f16, "store"),
    (128, bf16, "store"),
]


@pytest.mark.parametrize(("swizzle", "dtype", "store"), TILES)
def test_tiles_are_stored_as_they_are(swizzle, dtype, store, builds) -> None:
    procedure = tiles(swizzle, dtype, store)
    assert wrong(procedure, SIZES, builds) == []


@pytest.mark.parametrize(("swizzle", "dtype"), [(128, f32), (64, bf16), (0, f16)])
def test_tiles_are_proved(swizzle, dtype) -> None:
    assert tiles(swizzle, dtype).check().word == "proved"


READ_1 = re.compile(r"cp\.async\.bulk\.wait_group\.read 1;")
WAITED = re.compile(r'(asm volatile\("cp\.async\.bulk\.wait_group[^;]*;" ::: "memory"\);\s*)__sync')


@pytest.mark.parametrize(
    ("dtype", "change"),
    [
        (f32, lambda text: READ_1.sub("cp.async.bulk.wait_group.read 2;", text)),
        (f32, lambda text: text.replace("(swizzle - 16)", "(swizzle - 32)")),
        (bf16, lambda text: text.replace("(swizzle - 16)", "(swizzle - 32)")),
        (f32, lambda text: text.replace("turned ? turn[0]", "turned ? own[0]")),
        (
            bf16,
            lambda text: text.replace("row = t / 32 * 16 + t % 16", "row = t / 32 * 16 + t % 8"),
        ),
        (bf16, lambda text: text.replace("at / 8 + group", "group")),
    ],
    ids=["reads", "swizzle of f32", "swizzle of bf16", "turned", "rows", "columns"],
)
def test_what_is_changed_is_wrong(dtype, change, builds) -> None:
    assert wrong(tiles(16 * dtype.bytes, dtype), SIZES, builds, change, orders=len(ORDERS))


def restaged() -> Procedure:
    """A warp stages by itself what one of its lanes stores."""
    return made("""
@proc
def restaged(K: size, y: f32[K, 32, 32] @ CudaGmemLinear):
    w = y[:, :, :] @ Sm90_tensorMap(0, 1, 32, 32)
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            S: f32[32, 32] @ CudaSmemLinear
            cg: barrier @ CudaCommitGroup
            for k in seq(0, K):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    v: f32
                    v = 1.0
                    for i in seq(0, k):
                        v += 1.0
                    for i in seq(0, 32):
                        S[t, i] = v
                Fence(cuda_in_order, cuda_generic_and_async)
                Sm90_tma_store(w[k, :, :], S[:, :], rows=32, cols=32, box=(1, 32, 32))
                Arrive(tma_to_gmem_source) >> cg
                Await(cg, cuda_in_order, 0)
""")


def test_the_lanes_that_store_nothing_wait_too(builds) -> None:
    procedure = restaged()
    assert procedure.check().word == "proved"
    assert wrong(procedure, {"K": 4}, builds, orders=len(ORDERS)) == []
    alone = wrong(
        procedure,
        {"K": 4},
        builds,
        lambda text: WAITED.sub(r"\1//__sync", text),
        orders=len(ORDERS),
    )
    assert alone


def test_tensor_maps_of_four_dimensions(builds) -> None:
    procedure = made("""
@proc
def rank4(B: size, H: size, S: size, y: f32[B, H, S, 32] @ CudaGmemLinear):
    w = y[:, :, :, :] @ Sm90_tensorMap(128, 1, 1, 64, 32)
    with CudaDeviceFunction(blockDim=32):
        for b in cuda_tasks(0, B):
            for h in cuda_tasks(0, H):
                T: f32[64, 32] @ Sm90_SmemSwizzled(128)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    v: f32
                    v = 1.0
                    for i in seq(0, 3 * b + h):
                        v += 1.0
                    for k in seq(0, 64):
                        T[k, t] = v
                Fence(cuda_in_order, cuda_generic_and_async)
                for s in seq(0, (S + 63) / 64):
                    Sm90_tma_store(
                        w[b, h, 64 * s : 64 * s + 64, :], T[:, :],
                        rows=64, cols=32, box=(1, 1, 64, 32), swizzle=128,
                    )
                Fence(tma_to_gmem_source, cuda_in_order)
""")
    assert procedure.check().word == "proved"
    assert wrong(procedure, {"B": 2, "H": 3, "S": 100}, builds) == []


STAGED = [
    (make_staged(1, 1, 128, 64, 4, 2, 1), {"L": 3, "M": 130, "N": 40, "cluster_K": 160}),
    (
        make_staged(1, 1, 64, 128, 4, 2, 0, groups=1, dtype=f16),
        {"L": 2, "M": 70, "N": 136, "cluster_K": 168},
    ),
]


@pytest.mark.parametrize(("procedure", "sizes"), STAGED, ids=[p.name for p, _ in STAGED])
def test_products_leave_through_buffers_that_reside(procedure, sizes, builds) -> None:
    assert wrong(procedure, sizes, builds) == []
