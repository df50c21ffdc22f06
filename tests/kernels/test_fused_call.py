"""Products with what follows them in one call: which kernel gets which arrays, what is refused.

The kernel itself is replaced by its meaning.
"""

from __future__ import annotations

import re
from math import erf

import numpy as np
import pytest

from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.hw.language import bf16
from exogpu.kernels import array_arguments, gemm_calls, gemm_fused, gemm_fused_sm90

FOLLOWED = {
    "": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (0.5 + 0.5 * np.vectorize(erf)(x / np.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x.astype(np.float64))),
}


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)


@pytest.fixture
def called(monkeypatch):
    asked: list[tuple[int, str, bool, str, bool]] = []

    def meaning(columns, dtype, bias, activation, residual):
        asked.append((columns, dtype, bias, activation, residual))

        def run(stream=None, *, A, B, C, **more):
            assert more.keys() == {
                name for name, given in (("bias", bias), ("residual", residual)) if given
            }
            x = np.einsum("lmk,lnk->lmn", A, B) + more.get("bias", 0)
            C[...] = FOLLOWED[activation](x) + more.get("residual", 0)

        return run

    monkeypatch.setattr(gemm_calls, "fused_kernel", meaning)
    return asked


@pytest.mark.parametrize("batches", [None, 2])
@pytest.mark.parametrize(("m", "n", "columns"), [(40, 30, 128), (2000, 3000, 256)])
def test_what_follows_the_product(called, m, n, columns, batches):
    lead = () if batches is None else (batches,)
    a, b = integers(*lead, m, 32), integers(*lead, n, 32)
    product, bias, residual = a @ b.swapaxes(-1, -2), integers(n), integers(*lead, m, n)
    assert np.array_equal(gemm_fused(a, b, bias, "relu"), np.maximum(product + bias, 0))
    assert np.array_equal(gemm_fused(a, b, residual=residual), product + residual)
    assert called == [(columns, "f32", True, "relu", False), (columns, "f32", False, "", True)]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"bias": integers(39)}, "bias is (39,) (give an array of (30,))"),
        ({"residual": integers(30, 40)}, "residual is (30, 40) (give an array of (40, 30))"),
        ({"out": integers(40, 31)}, "out is (40, 31) (give an array of (40, 30))"),
        ({"bias": integers(30).astype(np.float16)}, "A is float32 and bias is float16"),
        ({"activation": "swish"}, "the activation is 'swish' (give one of relu, gelu, silu"),
        ({"activation": integers(64)}, "the activation is a ndarray (give one of relu"),
        ({"B": integers(30, 28)}, "A is (40, 32) and B is (30, 28)"),
        (
            {"A": integers(40, 30), "B": integers(30, 30)},
            "K is 30: rows of 120 bytes, read by 16",
        ),
    ],
)
def test_what_does_not_fit_is_refused(called, more, said):
    arrays = {"A": integers(40, 32), "B": integers(30, 32)} | more
    with pytest.raises(LaunchError, match=re.escape(said)):
        gemm_fused(**arrays)
    assert not called


@pytest.mark.parametrize("activation", array_arguments.ACTIVATIONS)
@pytest.mark.parametrize(("bias", "residual"), [(False, False), (True, True)])
def test_what_the_kernels_compute(activation, bias, residual):
    L, M, N, K = 2, 130, 36, 40
    arrays = {"A": integers(L, M, K), "B": integers(L, N, K), "C": np.zeros((L, M, N), np.float32)}
    arrays |= {"bias": integers(N)} if bias else {}
    arrays |= {"residual": integers(L, M, N)} if residual else {}
    made = gemm_fused_sm90.make_gemm_fused(
        1, 1, 128, 64, bias=bias, activation=activation, residual=residual
    )
    made.run(**arrays)
    x = np.einsum("lmk,lnk->lmn", arrays["A"], arrays["B"]) + arrays.get("bias", 0)
    wanted = FOLLOWED[activation](x) + arrays.get("residual", 0)
    assert np.allclose(arrays["C"], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_a_kernel_that_does_not_ship_is_proved():
    made = gemm_fused_sm90.make_gemm_fused(1, 1, 128, 64, activation="silu", residual=True)
    assert made.check().word == "proved"


def test_the_chosen_ones_ship():
    for what in ((True, "gelu", False), (False, "", True)):
        assert gemm_fused_sm90.name_of(1, 1, 128, 256, bf16, *what) in gemm_fused_sm90.KERNELS
