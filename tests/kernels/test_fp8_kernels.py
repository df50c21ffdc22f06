"""Products of 8-bit floats: what the kernels compute, and on the emulator."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu.gpu_trial.run_data import at_sizes, difference
from exogpu.hw.language import f32
from exogpu.interpreter import round_f8
from exogpu.interpreter.values import round_bf16
from exogpu.kernels.gemm_fp8_blocks_sm90 import KERNELS as BLOCKS
from exogpu.kernels.gemm_fp8_sm90 import make_gemm_fp8

ONE = make_gemm_fp8(2, 1, 128, 64, result=f32)
"""A cluster: its ring is no slot, so that it runs in sequence."""
TALL = BLOCKS["gemm_fp8_blocks_sm90_f32"]


def eights(*shape: int) -> np.ndarray:
    return round_f8(np.random.default_rng(sum(shape)).standard_normal(shape), "f8e4m3")


@pytest.mark.parametrize("sizes", [(1, 1, 1, 16), (2, 130, 70, 272)])
def test_one_scale(sizes) -> None:
    L, M, N, K = sizes
    A, B, scale = eights(L, M, K), eights(L, N, K), np.array([0.37], np.float32)
    C = np.zeros((L, M, N), np.float32)
    ONE.run(A=A, B=B, scale=scale, C=C)
    want = 0.37 * np.einsum("lmk,lnk->lmn", A.astype(float), B.astype(float))
    np.testing.assert_allclose(C, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 16), (2, 130, 140, 272)])
@pytest.mark.parametrize("name", BLOCKS)
def test_scales_of_blocks(name, sizes) -> None:
    L, M, N, K = sizes
    rng = np.random.default_rng(0)
    A, B = eights(L, M, K), eights(L, N, K)
    A_scale = rng.random((L, -(-K // 128), M + -M % 4), np.float32)
    B_scale = rng.random((L, -(-N // 128), -(-K // 128)), np.float32)
    C = np.zeros((L, M, N), np.float32)
    BLOCKS[name].run(A=A, B=B, A_scale=A_scale, B_scale=B_scale, C=C)
    k, n = np.arange(K) // 128, np.arange(N) // 128
    wide = A.astype(float) * A_scale[:, k, :M].swapaxes(1, 2)
    want = np.einsum("lmk,lnk->lmn", wide, B.astype(float) * B_scale[:, n][:, :, k])
    if name.endswith("f32"):
        np.testing.assert_allclose(C, want, rtol=1e-4, atol=1e-4)
    else:
        assert np.array_equal(C, round_bf16(C))
        np.testing.assert_allclose(C, want, rtol=2.0**-7, atol=1e-3)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        (ONE, {"L": 1, "M": 130, "N": 72, "cluster_K": 144}),
        (TALL, {"L": 1, "M": 130, "N": 140, "cluster_K": 272, "scales": 132}),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_on_the_emulator(kernel, sizes, builds) -> None:
    assert kernel.check().word == "proved"
    made, manifest = kernel.emit()
    there = at_sizes(kernel, sizes, 1)
    for order in ORDERS[:2]:
        arrays = {name: array.copy() for name, array in there.given.items()}
        Emulated(made.source, manifest, builds)(arrays, sizes, order)
        assert not difference(arrays["C"], there.wanted["C"], "f32", 0.0)
