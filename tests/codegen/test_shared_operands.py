"""Operands in shared memory, swizzled or not, and the types that tensor maps have."""

from __future__ import annotations

import pytest

from exogpu import proc
from exogpu.hw import memories
from exogpu.hw.language import bf16, f16, f32, f64, i8, i32, i64, ui8, ui16, ui64
from exogpu.isa.sm80 import Sm80_cp_async_copy
from exogpu.isa.sm90 import Sm90_tma_load, Sm90_tma_multicast

TYPES = {ui8: 0, i8: 0, ui16: 1, i32: 3, ui64: 4, i64: 5, f16: 6, f32: 7, f64: 8, bf16: 9}
"""CUtensorMapDataType: signed bytes are copied as unsigned ones."""


def loaded(dtype, swizzle):
    cols = (swizzle or 128) // dtype.bytes
    memory = memories.Sm90_SmemSwizzled(swizzle) if swizzle else memories.CudaSmemLinear

    @proc
    def load(x: dtype[64, cols] @ CudaGmemLinear):
        xm = x[:, :] @ Sm90_tensorMap(swizzle, 64, cols)
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                s: dtype[64, cols] @ memory
                full: barrier @ CudaMbarrier
                (
                    Sm90_tma_load(
                        s[:, :],
                        xm[:, :],
                        rows=64,
                        cols=cols,
                        box=(64, cols),
                        swizzle=swizzle,
                        dtype=dtype,
                    )
                    >> full
                )
                Arrive(cuda_temporal) >> full
                Await(full, cuda_generic_and_async, ~0)
                Fence(cuda_in_order, cuda_in_order)

    return load


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.value)
def test_tensor_maps_of_every_type(dtype):
    emitted = loaded(dtype, 128).emit(unchecked=True)[0]
    expected = f"{TYPES[dtype]}, {dtype.bytes}, 3)"
    assert expected in emitted.host.source
    assert "full_bytes += 8192;" in emitted.source


@pytest.mark.parametrize(("swizzle", "mode"), [(0, 0), (32, 1), (64, 2), (128, 3)])
def test_loads_of_every_swizzle(swizzle, mode):
    load = loaded(f32, swizzle)
    verdict = load.check()
    assert verdict.word == "proved" and not verdict.warnings
    assert f"7, 4, {mode})" in load.emit()[0].host.source


@proc
def multicast_rows(x: f32[64, 32] @ CudaGmemLinear):
    xm = x[:, :] @ Sm90_tensorMap(0, 32, 32)
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 1):
            s: f32[2, 64, 32] @ CudaSmemLinear
            full: barrier[2] @ CudaMbarrier
            (
                Sm90_tma_multicast(
                    s[:, :, :], xm[:, :], n=2, rows=64, cols=32, box=(32, 32), swizzle=0
                )
                >> full[:]
            )
            for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Arrive(cuda_temporal) >> full[m]
            for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Await(full[m], cuda_generic_and_async, ~0)
            Fence(cuda_in_order, cuda_in_order)


def test_a_multicast_without_swizzle():
    """Each of the two CTAs sends 32 rows of 32 elements to both."""
    verdict = multicast_rows.check()
    assert verdict.word == "proved" and not verdict.warnings
    assert "Sm90_tma_load<2, false>(&s[0] + 1024 * cta," in multicast_rows.emit()[0].source


def copied(n):
    @proc
    def copy(x: f32[8, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                s: f32[8, 32] @ Sm90_SmemSwizzled(128)
                for t in cuda_threads(0, 8, unit=cuda_thread):
                    for j in seq(0, 32 // n):
                        Sm80_cp_async_copy(s[t, n * j : n * j + n], x[t, n * j : n * j + n], n=n)
                Fence(Sm80_cp_async, cuda_in_order)

    return copy


@pytest.mark.parametrize(("n", "at"), [(4, "32 * t + 4 * j"), (2, "32 * t + 2 * j")])
def test_cp_async_into_swizzled_memory_goes_where_its_unit_is(n, at):
    """A swizzle exchanges units of 16 bytes: a copy of 8 or 16 aligned ones stays together."""
    copy = copied(n)
    verdict = copy.check()
    assert verdict.word == "proved" and not verdict.warnings
    text = copy.emit()[0].source
    assert f"Sm80_cp_async_copy<{n}>(&s[swizzled<128, 4>({at})], &x[" in text
