"""Attention in one call: which kernel gets which arrays, and what is said of others.

The kernel itself is replaced by its meaning: what is tested here is what it is given.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.hw.language import bf16, f16
from exogpu.kernels import attention, attention_calls, attention_sm90
from exogpu.kernels.array_arguments import scratch


class Called(list):
    """The kernels that were asked for."""


@pytest.fixture
def called(monkeypatch):
    names = Called()

    def meaning(D, causal, G, dtype):
        names.append((D, causal, G, dtype))

        def run(stream=None, *, Q, K, V, Y, L):
            (heads, S, _), shared = Q.shape, K.shape[0]
            assert heads == G * shared and L.shape == (heads, S)
            keys, values = (np.repeat(x, G, 0) for x in (K, V))
            scores = np.einsum("hid,hjd->hij", Q, keys) / np.sqrt(D)
            if causal:
                scores = np.where(np.tril(np.ones((S, S))) > 0, scores, -np.inf)
            weights = np.exp(scores)
            Y[...] = np.einsum("hij,hjd->hid", weights, values) / weights.sum(-1, keepdims=True)
            L[...] = np.log(weights.sum(-1))

        return run

    monkeypatch.setattr(attention_calls, "kernel", meaning)
    return names


def halves(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float16)


def wanted(q, k, v, causal):
    """A head at a time."""
    share, out = q.shape[1] // k.shape[1], np.zeros(q.shape)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores = q[b, h].astype(float) @ k[b, h // share].T.astype(float) / np.sqrt(q.shape[-1])
            if causal:
                scores[np.triu_indices(len(scores), 1)] = -np.inf
            weights = np.exp(scores)
            out[b, h] = weights @ v[b, h // share] / weights.sum(-1, keepdims=True)
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "shared"), [(3, 3), (4, 2), (6, 1)])
def test_it_is_attention_of_each_head(called, heads, shared, causal):
    q, k, v = halves(2, heads, 9, 64), halves(2, shared, 9, 64), halves(2, shared, 9, 64)
    lse = np.zeros((2, heads, 9), np.float32)
    out = np.zeros_like(q)
    assert attention(q, k, v, causal, out=out, lse=lse) is out
    np.testing.assert_allclose(out, wanted(q, k, v, causal), atol=4e-3)
    assert np.isfinite(lse).all() and lse.any()
    assert called == [(64, causal, heads // shared, "f16")]
    assert np.array_equal(attention(q, k, v, causal), out)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", [64, 128])
def test_what_is_taken_ships(D, causal):
    assert attention_sm90.name_of(D, causal, 1, bf16) in attention_sm90.KERNELS
    names = {attention_sm90.name_of(D, causal, G, dtype) for G in (1, 2) for dtype in (bf16, f16)}
    assert len(names) == 4


@pytest.mark.parametrize(
    ("q", "k", "v", "said"),
    [
        ((2, 8, 64), (2, 8, 64), (2, 8, 64), "q has 3 dimensions"),
        ((1, 2, 8, 64), (1, 2, 9, 64), (1, 2, 9, 64), "all have as many rows"),
        ((1, 2, 8, 64), (1, 2, 8, 64), (1, 1, 8, 64), "all have as many rows"),
        ((2, 2, 8, 64), (1, 2, 8, 64), (1, 2, 8, 64), "all have as many rows"),
        ((1, 3, 8, 64), (1, 2, 8, 64), (1, 2, 8, 64), "q has 3 heads, and k 2"),
        ((1, 2, 8, 64), (1, 0, 8, 64), (1, 0, 8, 64), "q has 2 heads, and k 0"),
        ((1, 2, 8, 96), (1, 2, 8, 96), (1, 2, 8, 96), "heads have 96 columns"),
    ],
)
def test_arrays_that_do_not_fit(called, q, k, v, said):
    with pytest.raises(LaunchError, match=re.escape(said)):
        attention(halves(*q), halves(*k), halves(*v))
    assert not called


def test_types_and_gaps(called):
    q = halves(1, 2, 8, 64)
    with pytest.raises(LaunchError, match=r"q is float32 .give arrays of bfloat16, float16"):
        attention(q.astype(np.float32), q, q)
    with pytest.raises(LaunchError, match="v is float64"):
        attention(q, q, q.astype(float))
    for wrong in (np.zeros((1, 2, 8, 32), np.float16), np.zeros((2, 8, 64), np.float16)):
        with pytest.raises(LaunchError, match="out is"):
            attention(q, q, q, out=wrong)
    with pytest.raises(LaunchError, match="lse is"):
        attention(q, q, q, lse=np.zeros((1, 2, 7), np.float32))
    turned = np.zeros((1, 8, 2, 64), np.float16).transpose(0, 2, 1, 3)
    for out, given in ((turned, q), (None, turned)):
        with pytest.raises(LaunchError, match="has strides"):
            attention(given, q, q, out=out)


def test_what_nobody_keeps_is_made_on_the_stream(monkeypatch):
    """Else its memory may be another stream's while the kernel still writes it."""
    entered: list[int] = []

    class ExternalStream:
        def __init__(self, number, device):
            assert device == "this one"
            self.number = number

    @contextmanager
    def stream(of):
        entered.append(of.number)
        yield
        entered.append(-of.number)

    class Tensor:
        device = "this one"

        def new_empty(self, shape, dtype):
            return entered[-1:], shape, dtype

    Tensor.__module__ = "fake_torch"
    cuda = SimpleNamespace(ExternalStream=ExternalStream, stream=stream)
    monkeypatch.setitem(sys.modules, "fake_torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(float32="single"))
    assert scratch(Tensor(), (2, 3), "float32", 7) == ([7], (2, 3), "single")
    assert entered == [7, -7]
    assert scratch(Tensor(), (2,), "float32", None) == ([-7], (2,), "single")
    assert scratch(halves(2, 2), (4,), "float32", 7).shape == (4,)
