"""Attention of sequences in one call: what its kernels are given, and what is said of other arrays.

The attention itself is replaced by its meaning; the tiles are those that ship.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.kernels import attention_calls, attention_varlen
from exogpu.kernels.grouped_tiles import KERNELS


@pytest.fixture
def called(monkeypatch):
    """The kernels that were asked for."""
    names: list[tuple[object, ...]] = []

    def where(rows):
        def run(stream=None, **arguments):
            KERNELS[f"grouped_tiles_{rows}"].run(**arguments)

        return run

    def meaning(D, causal, G, dtype, *, packed):
        assert packed
        names.append((D, causal, G, dtype))

        def run(stream=None, *, B, Q, K, V, cuts, group, cu_seqlens_q, cu_seqlens_k, Y, L):
            assert len(cu_seqlens_q) == len(cu_seqlens_k) == B + 1
            assert L.shape == Q.shape[1::-1] and len(cuts) == len(group) + 1
            for first, end, b in zip(cuts, cuts[1:], group, strict=False):
                assert 0 <= end - first <= 128
                k, v = (
                    np.repeat(x[cu_seqlens_k[b] : cu_seqlens_k[b + 1]].astype(float), G, 1)
                    for x in (K, V)
                )
                scores = np.einsum("ihd,jhd->hij", Q[first:end].astype(float), k) / np.sqrt(D)
                if causal:
                    row = np.arange(first, end) - cu_seqlens_q[b + 1] + len(k)
                    scores[:, np.arange(len(k)) > row[:, None]] = -np.inf
                weights = np.exp(scores)
                total = weights.sum(-1)
                Y[first:end] = np.einsum("hij,jhd->ihd", weights / total[..., None], v)
                L[:, first:end] = np.log(total)

        return run

    monkeypatch.setattr(attention_calls, "tile_divider", where)
    monkeypatch.setattr(attention_calls, "kernel", meaning)
    return names


def halves(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float16)


def starts(*lengths: int) -> np.ndarray:
    return np.array([0, *np.cumsum(lengths)], np.int32)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "shared"), [(2, 2), (4, 2)])
def test_it_is_attention_of_each_sequence(called, heads, shared, causal):
    rows, keys = (3, 0, 140), (3, 9, 141)
    q, k, v = halves(143, heads, 64), halves(153, shared, 64), halves(153, shared, 64)
    out, lse = np.zeros_like(q), np.zeros((heads, 143), np.float32)
    given = (q, k, v, starts(*rows), starts(*keys), causal)
    assert attention_varlen(*given, out=out, lse=lse) is out
    assert called == [(64, causal, heads // shared, "f16")]
    assert np.array_equal(attention_varlen(*given), out)
    for b in (0, 2):
        first, end = starts(*rows)[b : b + 2]
        of = slice(*starts(*keys)[b : b + 2])
        for h in range(heads):
            scores = q[first:end, h].astype(float) @ k[of, h // (heads // shared)].T / 8
            if causal:
                scores[
                    ~np.tri(*scores.shape, scores.shape[1] - scores.shape[0], dtype=bool)
                ] = -np.inf
            weights = np.exp(scores)
            wanted = weights @ v[of, h // (heads // shared)] / weights.sum(-1, keepdims=True)
            np.testing.assert_allclose(out[first:end, h], wanted, atol=4e-3)
            np.testing.assert_allclose(lse[h, first:end], np.log(weights.sum(-1)), atol=1e-4)


ONE = starts(8)


@pytest.mark.parametrize(
    ("q", "k", "v", "of_q", "of_k", "said"),
    [
        ((1, 8, 2, 64), (8, 2, 64), (8, 2, 64), ONE, ONE, "q has 4 dimensions"),
        ((8, 2, 64), (8, 2, 64), (9, 2, 64), ONE, ONE, "k and v as many rows and heads"),
        ((8, 2, 64), (8, 2, 128), (8, 2, 128), ONE, ONE, "all have as many columns"),
        ((8, 3, 64), (8, 2, 64), (8, 2, 64), ONE, ONE, "q has 3 heads, and k 2"),
        ((8, 2, 64), (8, 0, 64), (8, 0, 64), ONE, ONE, "q has 2 heads, and k 0"),
        ((8, 2, 96), (8, 2, 96), (8, 2, 96), ONE, ONE, "heads have 96 columns"),
        ((8, 2, 64), (8, 2, 64), (8, 2, 64), ONE, starts(4, 4), "2 elements, and cu_seqlens_k 3"),
        ((8, 2, 64), (8, 2, 64), (8, 2, 64), starts(), starts(), "has 1 elements"),
        ((8, 2, 64), (8, 2, 64), (8, 2, 64), ONE[None], ONE, "cu_seqlens_q has 2 dimensions"),
        ((8, 2, 64), (8, 2, 64), (8, 2, 64), ONE, ONE.astype(np.int64), "cu_seqlens_k is int64"),
        ((0, 2, 64), (8, 2, 64), (8, 2, 64), ONE, ONE, "q has no elements"),
        ((8, 2, 64), (0, 2, 64), (0, 2, 64), ONE, ONE, "k has no elements"),
    ],
)
def test_arrays_that_do_not_fit(called, q, k, v, of_q, of_k, said):
    with pytest.raises(LaunchError, match=re.escape(said)):
        attention_varlen(halves(*q), halves(*k), halves(*v), of_q, of_k)
    assert not called


def test_types_and_results(called):
    q = halves(8, 2, 64)
    with pytest.raises(LaunchError, match=r"q is float32 .give arrays of bfloat16, float16"):
        attention_varlen(q.astype(np.float32), q, q, ONE, ONE)
    with pytest.raises(LaunchError, match="v is float64"):
        attention_varlen(q, q, q.astype(float), ONE, ONE)
    with pytest.raises(LaunchError, match="out is"):
        attention_varlen(q, q, q, ONE, ONE, out=halves(2, 8, 64))
    with pytest.raises(LaunchError, match="lse is"):
        attention_varlen(q, q, q, ONE, ONE, lse=np.zeros((8, 2), np.float32))
    assert not called


def test_what_the_tiles_refuse_is_named_as_the_caller_does(called, monkeypatch):
    def where(rows):
        def run(**arguments):
            raise LaunchError("offsets does not start at a multiple of 16 bytes", "pass a copy")

        return run

    monkeypatch.setattr(attention_calls, "tile_divider", where)
    q = halves(3, 2, 64)
    with pytest.raises(LaunchError, match="cu_seqlens_q does not start"):
        attention_varlen(q, q, q, starts(3), starts(3))
