"""Floats of 8 bits: what their bits stand for, how numbers become them, and products of them.

Decision `data-types`.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import sys
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from on_the_host import compiled

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure, proc
from exogpu.codegen.instruction_text import helper_text, note_helpers
from exogpu.codegen.runtime.arrays import TYPESTR, array_of
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.gpu_trial.run_data import at_sizes, difference
from exogpu.hw.language import f8e4m3, f8e5m2
from exogpu.interpreter import round_f8
from exogpu.interpreter.values import from_bits, to_bits
from exogpu.ir import float8
from exogpu.ir.types import DataType
from exogpu.isa.f8 import Sm90_wgmma_f8
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_load, Sm90_zero_scale_d

TOOLCHAIN = find_toolchain()
BOTH = pytest.mark.parametrize("dtype", [f8e4m3, f8e5m2], ids=lambda d: d.value)
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")

KNOWN = {
    f8e4m3: {0x01: 2**-9, 0x08: 2**-6, 0x38: 1.0, 0x39: 1.125, 0xC0: -2.0, 0x7E: 448.0, 0x80: -0.0},
    f8e5m2: {0x01: 2**-16, 0x04: 2**-14, 0x3C: 1.0, 0x3D: 1.25, 0xC0: -2.0, 0x7B: 57344.0},
}
"""From the tables of the types' paper."""


@BOTH
def test_some_bits_are_known(dtype: DataType) -> None:
    for bits, value in KNOWN[dtype].items():
        assert float8.number(bits, dtype) == value
        assert float8.nearest(value, dtype) == bits
    special = [b for b in range(128) if not math.isfinite(float8.number(b, dtype))]
    assert special == ([0x7F] if dtype is f8e4m3 else [0x7C, 0x7D, 0x7E, 0x7F])


def slowly(value: float, dtype: DataType) -> int:
    """The bits of the nearest finite number; of two the one whose bits are even."""
    finite = [b for b in range(128) if math.isfinite(float8.number(b, dtype))]
    size = Fraction(abs(value))
    best = min(finite, key=lambda b: (abs(Fraction(float8.number(b, dtype)) - size), b % 2))
    return best | (0x80 if math.copysign(1, value) < 0 else 0)


values = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.floats(-600, 600, width=32)


@given(values)
def test_the_nearest_is_found(value: float) -> None:
    for dtype in (f8e4m3, f8e5m2):
        wanted = slowly(value, dtype)
        assert float8.nearest(value, dtype) == wanted
        rounded = round_f8([value], dtype)
        assert rounded[0] == float8.number(wanted, dtype)
        assert to_bits(rounded, dtype)[0] == wanted


@BOTH
def test_bits_and_arrays(dtype: DataType) -> None:
    bits = np.arange(256, dtype=np.uint8)
    numbers = from_bits(bits, dtype)
    told = ~np.isnan(numbers)
    assert np.array_equal(to_bits(numbers, dtype)[told], bits[told])
    assert np.isnan(from_bits(to_bits(np.array([np.nan], np.float32), dtype), dtype)).all()
    ends = round_f8([np.inf, -np.inf, 1e30, np.nan], dtype)
    greatest = float8.FORMATS[dtype].greatest
    assert ends[:3].tolist() == [greatest, -greatest, greatest] and np.isnan(ends[3])


@needs_compiler
@BOTH
def test_the_helpers_agree(dtype: DataType, tmp_path) -> None:
    """As g++ compiles them: of all bits, and of numbers around each of them."""
    names: list[str] = []
    note_helpers(f"to_{dtype.value}(from_{dtype.value}(x));", names)
    text = "".join(map(helper_text, names))
    text += f"""
    extern "C" float back(unsigned char b) {{ return from_{dtype.value}(b); }}
    extern "C" unsigned char to(float x) {{ return to_{dtype.value}(x); }}
    """
    library = compiled(text, tmp_path)
    library.back.restype = ctypes.c_float
    library.to.restype, library.to.argtypes = ctypes.c_ubyte, [ctypes.c_float]
    every = np.array([library.back(b) for b in range(256)], np.float32)
    assert np.array_equal(every, from_bits(np.arange(256, dtype=np.uint8), dtype), equal_nan=True)
    some = np.sort(every[np.isfinite(every)])
    middles = (some[1:] + some[:-1]) / 2
    near = [some, middles, np.nextafter(middles, np.float32(9e9)), np.nextafter(middles, -9e9)]
    tried = np.concatenate([*near, [0.0, -0.0, 1e9, -1e9, np.inf, 1e-30, -1e-42]]).astype(
        np.float32
    )
    made = np.array([library.to(float(x)) for x in tried], np.uint8)
    assert np.array_equal(made, to_bits(round_f8(tried, dtype), dtype))
    assert np.isnan(from_bits(np.array([library.to(math.nan)], np.uint8), dtype)).all()


def make_scaled(dtype: DataType) -> Procedure:
    """Statements compute with them in f32, and round once."""

    @proc(name=f"scaled_{dtype.value}")
    def scaled(x: dtype[64] @ CudaGmemLinear, y: dtype[64] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[t] = x[t] * 100.0 + 0.3

    return scaled


@BOTH
def test_statements_round_once(dtype: DataType) -> None:
    x = round_f8(np.random.default_rng(0).standard_normal(64), dtype)
    y = np.zeros(64, np.float32)
    make_scaled(dtype).run(x=x, y=y)
    assert np.array_equal(y, round_f8(x * np.float32(100) + np.float32(0.3), dtype))
    with pytest.raises(ExoGpuError, match=f'round_f8.array, "{dtype.value}"'):
        make_scaled(dtype).run(x=x + np.float32(1e-3), y=y)


def make_tile(dtype: DataType, swizzle: int = 128, K: int = 64) -> Procedure:
    """C = A * B^T, 64 x 24 elements."""

    @proc(name=f"tile_{dtype.value}_{swizzle}")
    def tile(
        A: dtype[64, K] @ CudaGmemLinear,
        B: dtype[24, K] @ CudaGmemLinear,
        C: f32[64, 24] @ CudaGmemLinear,
    ):
        A_map = A[:, :] @ Sm90_tensorMap(swizzle, 64, swizzle)
        B_map = B[:, :] @ Sm90_tensorMap(swizzle, 24, swizzle)
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                a: dtype[K / swizzle, 64, swizzle] @ Sm90_SmemSwizzled(swizzle)
                b: dtype[K / swizzle, 24, swizzle] @ Sm90_SmemSwizzled(swizzle)
                D: f32[64, 24] @ Sm90_RmemMatrixD(64, 24)
                full: barrier @ CudaMbarrier
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    for k in seq(0, K / swizzle):
                        (
                            Sm90_tma_load(
                                a[k, :, :],
                                A_map[:, swizzle * k : swizzle * k + swizzle],
                                rows=64,
                                cols=swizzle,
                                box=(64, swizzle),
                                swizzle=swizzle,
                                dtype=dtype,
                            )
                            >> full
                        )
                        (
                            Sm90_tma_load(
                                b[k, :, :],
                                B_map[:, swizzle * k : swizzle * k + swizzle],
                                rows=24,
                                cols=swizzle,
                                box=(24, swizzle),
                                swizzle=swizzle,
                                dtype=dtype,
                            )
                            >> full
                        )
                    Arrive(cuda_temporal) >> full
                Await(full, cuda_generic_and_async, ~0)
                Sm90_zero_scale_d(D[:, :], M=64, N=24)
                Fence(wgmma_fence_1, wgmma_fence_2)
                for k in seq(0, K / 32):
                    Sm90_wgmma_f8(
                        D[:, :],
                        a[32 * k / swizzle, :, 32 * k % swizzle : 32 * k % swizzle + 32],
                        b[32 * k / swizzle, :, 32 * k % swizzle : 32 * k % swizzle + 32],
                        N=24,
                        swizzle=swizzle,
                        dtype=dtype,
                    )
                Fence(wgmma_async, cuda_in_order)
                Sm90_store_D(64, 24, C[:, :], D[:, :], N=24)
                Fence(cuda_in_order, cuda_in_order)

    return tile


TILES = [make_tile(f8e4m3, 32), make_tile(f8e5m2, 64), make_tile(f8e4m3, 128, 256)]


@needs_compiler
@pytest.mark.parametrize("kernel", TILES, ids=lambda k: k.name)
@pytest.mark.ci
def test_a_tile(kernel: Procedure, builds) -> None:
    assert kernel.check().word == "proved"
    made, manifest = kernel.emit()
    there = at_sizes(kernel, {}, 1)
    arrays = {name: array.copy() for name, array in there.given.items()}
    Emulated(made.source, manifest, builds)(arrays, {}, ORDERS[0])
    assert not difference(arrays["C"], there.wanted["C"], "f32", 0.0)


@pytest.mark.skipif(TOOLCHAIN is None, reason="no nvcc on this machine")
@pytest.mark.parametrize("kernel", [TILES[1], TILES[2], make_scaled(f8e5m2)], ids=lambda k: k.name)
def test_they_compile(kernel: Procedure) -> None:
    assert "serialized" not in compile_cubin(kernel.emit()[0].source, "sm_90a", TOOLCHAIN).log


def test_an_array_of_torch_says_which(monkeypatch) -> None:
    """It comes as its bytes, which have no such type."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(uint8=np.uint8))

    class Tensor:
        def __init__(self, name: str) -> None:
            self.dtype = name

        def view(self, dtype: object) -> np.ndarray:
            return np.zeros(4, dtype)

    found = [array_of("x", Tensor(f"torch.float8_{n}"), 0) for n in ("e4m3fn", "e5m2")]
    assert [one.typestr for one in found] == [TYPESTR["f8e4m3"][0], TYPESTR["f8e5m2"][0]]
    assert {one.bytes for one in found} == {4}


@pytest.mark.parametrize("text", ["1000.0", "1e-9"])
def test_constants_must_fit(text: str, tmp_path) -> None:
    from on_the_host import procedures

    source = f"""
@proc
def constant(x: f8e4m3[1] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[t] = {text}
"""
    refused = procedures(source, tmp_path).constant
    assert any("f8e4m3" in found.message for found in refused.diagnostics)
