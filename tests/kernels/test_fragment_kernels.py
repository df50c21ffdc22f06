"""Kernels made of loops over fragments: proved, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest

from exogpu.interpreter.values import round_bf16
from exogpu.kernels.attention_sm90 import make_attention
from exogpu.kernels.gemm_fused_sm90 import make_gemm_fused


@pytest.mark.parametrize("sizes", [(1, 1, 1, 4), (2, 130, 260, 36)])
def test_a_product_with_bias_and_relu(sizes):
    L, M, N, K = sizes
    rng = np.random.default_rng(0)

    def array(*shape):
        return rng.integers(-3, 4, shape).astype(np.float32)

    A, B, bias, C = array(L, M, K), array(L, N, K), array(N), np.zeros((L, M, N), np.float32)
    make_gemm_fused(2, 1, 128, 64).run(A=A, B=B, bias=bias, C=C)
    want = np.maximum(np.einsum("lmk,lnk->lmn", A, B) + bias, 0)
    assert np.array_equal(C, want)


@pytest.mark.parametrize(
    ("D", "causal", "G", "H", "S"),
    [
        (64, False, 1, 2, 200),
        (128, False, 1, 1, 128),
        (64, True, 2, 1, 264),
        (128, True, 1, 1, 8),
        (64, True, 1, 1, 397),
        (128, False, 1, 1, 520),
    ],
)
def test_attention_is_the_weighted_sum(D, causal, G, H, S):
    rng = np.random.default_rng(0)

    def array(*shape):
        return round_bf16(rng.standard_normal(shape))

    Q, K, V = array(G * H, S, D), array(H, S, D), array(H, S, D)
    Y, L = np.zeros((G * H, S, D), np.float32), np.zeros((G * H, S), np.float32)
    make_attention(D, causal=causal, G=G).run(Q=Q, K=K, V=V, Y=Y, L=L)
    keys, values = (np.repeat(x.astype(np.float64), G, 0) for x in (K, V))
    scores = np.einsum("hid,hjd->hij", Q, keys) / np.sqrt(D)
    if causal:
        scores = np.where(np.tril(np.ones((S, S))) > 0, scores, -np.inf)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    want = np.einsum("hij,hjd->hid", weights / total, values)
    most = np.einsum("hij,hjd->hid", weights / total, np.abs(values))
    assert (np.abs(Y - want) <= 2.0**-7 * most).all()
    np.testing.assert_allclose(L, (largest + np.log(total))[..., 0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "kernel",
    [make_gemm_fused(1, 1, 128, 256), make_attention(128), make_attention(64, causal=True, G=4)],
    ids=lambda k: k.name,
)
@pytest.mark.ci
def test_proved_for_all_sizes(kernel):
    assert kernel.check().word == "proved"
