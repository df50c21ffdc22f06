"""Loops over fragments in C++: registers by constants, pairs of halves, no local memory."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.codegen.toolchain.compilers import usage
from exogpu.frontend.instructions import instr
from exogpu.hw.language import bf16
from exogpu.hw.operands import WGMMA_D
from exogpu.hw.units import cuda_warpgroup
from exogpu.isa import sm90
from exogpu.kernels.attention_sm90 import make_attention
from exogpu.kernels.gemm_fused_sm90 import make_gemm_fused
from tests.codegen import fragment_kernels
from tests.texts import made

needs_nvcc = pytest.mark.skipif(find_toolchain() is None, reason="no nvcc on this machine")
needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


def source(procedure):
    emitted, _ = procedure.emit(unchecked=True)
    return emitted.source


def body(procedure):
    text = source(procedure)
    return text[text.index('extern "C" __global__') :]


def test_registers_are_indexed_without_the_thread():
    text = body(make_attention(64))
    for name in ("scores", "result", "weights", "largest", "total", "factor", "shift"):
        found = [
            re.findall(r"\[(.*?)\]", at) for at in re.findall(rf"\b{name}((?:\[.*?\])+)", text)
        ]
        indices = [index for one in found for index in one]
        assert indices
        assert not any("thread" in index for index in indices)


def test_two_elements_become_one_register():
    text = body(make_attention(64))
    assert "unsigned weights[8][4];" in text
    assert "pair_bf16(weights[n8 / 2][m8 + 2 * (n8 % 2)], n1, " in text
    assert "put_half(" not in text


def test_under_a_guard_each_half_is_put_where_it_belongs():
    """A pair needs both."""
    text = body(fragment_kernels.make_multiplied(bf16))
    guarded = text[text.index("if k == 1") :]
    assert re.search(r"put_half\(a\[.*\], n1|put_half\(a\[.*\], k1", guarded)
    assert "pair_bf16(" not in guarded


ONE_OF_TWO = """
@proc
def halves(x: f32[64, 16] @ CudaGmemLinear, y: f32[{tiles}, 64, 16] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                a: f16[{tiles}, 64, 16] @ Sm90_RmemMatrixA(64)
                for i in seq(0, {tiles}):
                    for m, n in fragment(a[i, :, :]):
                        a[i, m, n] = 0.0
                for m, n in fragment(a[0, :, :]):
                    a[{target}] = x[m, n]
                for i in seq(0, {tiles}):
                    for m, n in fragment(a[i, :, :]):
                        y[i, m, n] = a[i, m, n]
"""


@needs_gxx
@pytest.mark.parametrize(
    ("tiles", "target", "pair"),
    [
        (1, "0, m, n", True),
        (1, "0, 16 * (m / 16) + m % 8 + 8 * (n % 2), n", False),  # n tells the register, too
        (2, "n % 2, m, n", False),  # and here the tile
        (2, "n / 8, m, n", True),
    ],
)
def test_a_pair_is_of_one_register(tiles, target, pair, builds):
    procedure = made(ONE_OF_TWO.format(tiles=tiles, target=target))
    emitted, manifest = procedure.emit(unchecked=True)
    writes = emitted.source.partition('extern "C" __global__')[2]
    assert ("pair_f16(" in writes.partition("// 13:")[2]) == pair
    x = np.random.default_rng(1).standard_normal((64, 16), np.float32)
    meant, found = ({"x": x, "y": np.zeros((tiles, 64, 16), np.float32)} for _ in range(2))
    procedure.run(**meant)
    Emulated(emitted.source, manifest, builds)(found, {}, ORDERS[0])
    assert np.array_equal(found["y"], meant["y"])


BY_HALVES = """
@proc
def by_halves(x: f32[64, 8, 2] @ CudaGmemLinear, y: f32[64, 8, 2] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            D: {dtype}[64, 8] @ Sm90_RmemMatrixD(64, 8)
            raw: {dtype}[128, 16]
            for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    for i in seq(0, 16):
                        raw[t, i] = {dtype}(0)
                for m, n in fragment(D):
                    D[m, n] = {dtype}(x[m, n, 0])
                    raw[32 * (m / 16) + 4 * (m % 8) + n / 2, 2 * ((m / 8) % 2) + n % 2] = (
                        {dtype}(x[m, n, 1])
                    )
                for m, n in fragment(D):
                    y[m, n, 1] = f32(raw[32 * (m / 16) + 4 * (m % 8) + n / 2, {index}])
                    if n % 2 == 0:
                        y[m, n, 0] = f32(D[m, n + 1])
                    if not n % 2 == 0:
                        y[m, n, 0] = f32(D[m, n - 1])
"""


@needs_gxx
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_indices_of_the_thread_fall_away_under_their_conditions(dtype, builds):
    """Of a thread's own registers, half of a row; and the neighbour in a pair."""
    procedure = made(BY_HALVES.format(dtype=dtype, index="2 * ((m / 8) % 2) + n % 2"))
    assert procedure.check().word == "proved"
    emitted, manifest = procedure.emit()
    assert "raw[2 * m8 + n1]" in emitted.source and "D[2 * m8 + 1]" in emitted.source
    assert emitted.addressed == ()
    x = np.arange(1024, dtype=np.float32).reshape(64, 8, 2)
    meant, found = ({"x": x, "y": np.zeros_like(x)} for _ in range(2))
    procedure.run(**meant)
    assert np.array_equal(meant["y"][:, ::2, 0], x[:, 1::2, 0])
    Emulated(emitted.source, manifest, builds)(found, {}, ORDERS[0])
    assert np.array_equal(found["y"], meant["y"])


@needs_nvcc
def test_registers_by_halves_are_not_in_local_memory():
    emitted, _ = made(BY_HALVES.format(dtype="f32", index="2 * ((m / 8) % 2) + n % 2")).emit()
    (used,) = usage(compile_cubin(emitted.source, "sm_90a").log).values()
    assert used.stack == 0


PRODUCTS = """
@instr(unit=cuda_warpgroup, arch="sm_90a", D=WGMMA_D, template="multiply({D});")
def multiply(D: i32[64, 8] @ Sm90_RmemMatrixD(64, 8)):
    for m in seq(0, 64):
        for n in seq(0, 8):
            D[m, n] += 1


@proc
def product(y: i32[64, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            D: i32[64, 8] @ Sm90_RmemMatrixD(64, 8)
            for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                for m, n in fragment(D):
                    D[m, n] = 0
                Fence(wgmma_fence_1, wgmma_fence_2)
                multiply(D[:, :])
                Fence(wgmma_async, cuda_in_order)
                for m, n in fragment(D):
                    y[m, n] = D[m, n]
"""


@needs_nvcc
def test_accumulators_of_integers_are_pinned(monkeypatch):
    for name, value in {
        "instr": instr,
        "WGMMA_D": WGMMA_D,
        "cuda_warpgroup": cuda_warpgroup,
    }.items():
        monkeypatch.setattr(sm90, name, value, raising=False)
    text = source(made(PRODUCTS))
    assert text.count("pinned(D);") == 4
    multiply = "__device__ void multiply(int (&D)[4]) { D[0] += 1; }\n"
    compile_cubin(
        text.replace('extern "C" __global__', multiply + 'extern "C" __global__'), "sm_90a"
    )


def test_what_wgmma_uses_is_pinned_around_the_loop():
    text = body(make_gemm_fused(1, 1, 128, 64))
    assert text.count("pinned(D);") == 2
    assert "pinned(" not in body(fragment_kernels.make_stored())


@needs_nvcc
@pytest.mark.parametrize(
    "make",
    [
        lambda: make_gemm_fused(1, 1, 128, 256),
        lambda: make_gemm_fused(2, 1, 128, 256),
        lambda: make_attention(128),
        lambda: make_attention(64, causal=True, G=4),
    ],
    ids=["gemm", "gemm in clusters", "attention", "attention with a mask"],
)
def test_nothing_is_in_local_memory(make):
    (used,) = usage(compile_cubin(source(make()), "sm_90a").log).values()
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
