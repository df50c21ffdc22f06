"""Attention of keys in pages in one call: what its kernels are given, and what is said of other
arrays.

The attention itself is replaced by its meaning; the tiles are those that ship.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.kernels import attention_calls, attention_paged
from exogpu.kernels.grouped_tiles import KERNELS


@pytest.fixture
def called(monkeypatch):
    """The kernels that were asked for."""
    asked: list[tuple[object, ...]] = []

    def where(rows):
        def run(stream=None, **arguments):
            KERNELS[f"grouped_tiles_{rows}"].run(**arguments)

        return run

    def meaning(D, causal, G, dtype, *, page):
        asked.append((D, causal, G, dtype, page))

        def run(
            stream=None,
            *,
            Q,
            K,
            V,
            cuts,
            group,
            cu_seqlens_q,
            seqlens_k,
            block_table,
            Y,
            L,
        ):
            assert L.shape == Q.shape[1::-1] and len(cuts) == len(group) + 1
            for first, end, b in zip(cuts, cuts[1:], group, strict=False):
                assert 0 <= end - first <= 128
                n = seqlens_k[b]
                pages = block_table[b, : -(-n // page)]
                k, v = (
                    np.repeat(x[pages].reshape(-1, *x.shape[2:])[:n].astype(float), G, 1)
                    for x in (K, V)
                )
                scores = np.einsum("ihd,jhd->hij", Q[first:end].astype(float), k) / np.sqrt(D)
                if causal:
                    row = np.arange(first, end) - cu_seqlens_q[b + 1] + n
                    scores[:, np.arange(n) > row[:, None]] = -np.inf
                weights = np.exp(scores)
                total = weights.sum(-1)
                Y[first:end] = np.einsum("hij,jhd->ihd", weights / total[..., None], v)
                L[:, first:end] = np.log(total)

        return run

    monkeypatch.setattr(attention_calls, "tile_divider", where)
    monkeypatch.setattr(attention_calls, "kernel", meaning)
    return asked


def halves(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "shared"), [(2, 2), (4, 2)])
def test_it_is_attention_of_pages(called, heads, shared, causal):
    q, k, v = halves(143, heads, 64), halves(5, 32, shared, 64), halves(5, 32, shared, 64)
    table = np.array([[3, -1, -1], [-1, -1, -1], [1, 4, 0]], np.int32)
    starts = np.array([0, 3, 3, 73 if causal else 143], np.int32)  # no row without a key
    keys = np.array([9, 0, 70], np.int32)
    out, lse = np.zeros_like(q), np.zeros((heads, 143), np.float32)
    given = (q, k, v, table, starts, keys, causal)
    assert attention_paged(*given, out=out, lse=lse) is out
    assert called == [(64, causal, heads // shared, "f16", 32)]
    for b in (0, 2):
        its = slice(starts[b], starts[b + 1])
        n = int(keys[b])
        for h in range(heads):
            its_k, its_v = (
                np.concatenate([x[p, :, h // (heads // shared)] for p in table[b] if p >= 0])[:n]
                for x in (k, v)
            )
            scores = q[its, h].astype(float) @ its_k.T / 8
            if causal:
                scores[~np.tri(*scores.shape, n - len(scores), dtype=bool)] = -np.inf
            weights = np.exp(scores)
            wanted = weights @ its_v / weights.sum(-1, keepdims=True)
            np.testing.assert_allclose(out[its, h], wanted, atol=4e-3)
            np.testing.assert_allclose(lse[h, its], np.log(weights.sum(-1)), atol=1e-4)


Q, CACHE = (8, 2, 64), (3, 16, 2, 64)
TABLE, STARTS, KEYS = (1, 3), (2,), (1,)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"q": (1, 8, 2, 64)}, "q has 4 dimensions"),
        ({"k_cache": (16, 2, 64)}, "k_cache has 3 dimensions"),
        ({"v_cache": (4, 16, 2, 64)}, "the caches as many pages, rows and heads"),
        ({"q": (8, 2, 128)}, "all have as many columns"),
        ({"q": (8, 3, 64)}, "q has 3 heads, and k_cache 2"),
        ({"q": (8, 2, 96), "k_cache": (3, 16, 2, 96), "v_cache": (3, 16, 2, 96)}, "have 96 col"),
        (
            {"k_cache": (3, 48, 2, 64), "v_cache": (3, 48, 2, 64)},
            "k_cache has pages of 48 rows (give pages of 16, 32, 64, 128, 256",
        ),
        ({"block_table": (3,)}, "block_table has 1 dimension"),
        ({"block_table": (1, 0)}, "block_table has no elements"),
        ({"block_table": (2, 3)}, "block_table has 2 rows, seqlens_k 1"),
        ({"seqlens_k": (2,)}, "block_table has 1 rows, seqlens_k 2"),
        ({"cu_seqlens_q": (1,)}, "cu_seqlens_q has 1 elements"),
        ({"q": (0, 2, 64)}, "q has no elements"),
        ({"k_cache": (0, 16, 2, 64), "v_cache": (0, 16, 2, 64)}, "k_cache has no elements"),
    ],
)
def test_arrays_that_do_not_fit(called, changes, said):
    shapes = {"q": Q, "k_cache": CACHE, "v_cache": CACHE}
    indices = {"block_table": TABLE, "cu_seqlens_q": STARTS, "seqlens_k": KEYS}
    given = {name: halves(*changes.get(name, shape)) for name, shape in shapes.items()}
    given |= {name: np.zeros(changes.get(name, of), np.int32) for name, of in indices.items()}
    with pytest.raises(LaunchError, match=re.escape(said)):
        attention_paged(**given)
    assert not called


def test_types_and_results(called):
    q, cache = halves(*Q), halves(*CACHE)
    indices = [np.zeros(shape, np.int32) for shape in (TABLE, STARTS, KEYS)]
    with pytest.raises(LaunchError, match="v_cache is float64"):
        attention_paged(q, cache, cache.astype(float), *indices)
    for at, name in enumerate(("block_table", "cu_seqlens_q", "seqlens_k")):
        wide = [x.astype(np.int64) if i == at else x for i, x in enumerate(indices)]
        with pytest.raises(LaunchError, match=rf"{name} is int64 .give arrays of int32"):
            attention_paged(q, cache, cache, *wide)
    with pytest.raises(LaunchError, match="out is"):
        attention_paged(q, cache, cache, *indices, out=halves(2, 8, 64))
    with pytest.raises(LaunchError, match="lse is"):
        attention_paged(q, cache, cache, *indices, lse=np.zeros((8, 2), np.float32))
    assert not called
