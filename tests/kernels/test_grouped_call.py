"""Grouped products and rows by index in one call: which kernel gets which arrays, and what is said.

The kernels are replaced by their meaning: what is tested here is what they are given.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.kernels import (
    gather_rows,
    gemm_grouped_sm90,
    grouped_calls,
    grouped_gemm,
    grouped_rounds,
    grouped_tiles,
    histogram,
    histogram_bins,
    rows_by_index,
    scatter_rows,
)


@pytest.fixture
def called(monkeypatch):
    names: list[str] = []

    def meaning(name, kernels):
        names.append(name)

        def run(stream=None, **arguments):
            kernels[name].run(**arguments)

        return run

    def product(dtype, columns):
        names.append(grouped_calls.name_of(dtype, columns))
        assert names[-1] in gemm_grouped_sm90.KERNELS

        def run(stream=None, *, A, B, cuts, group, C):
            for first, end, g in zip(cuts, cuts[1:], group, strict=False):
                assert end - first <= grouped_calls.TILE
                C[first:end] = A[first:end].astype(float) @ B[g].astype(float).T

        return run

    monkeypatch.setattr(
        grouped_calls,
        "tile_divider",
        lambda n: meaning(f"grouped_tiles_{n}", grouped_tiles.KERNELS),
    )
    monkeypatch.setattr(
        grouped_calls, "rounds", lambda n: meaning(f"grouped_rounds_{n}", grouped_rounds.KERNELS)
    )
    monkeypatch.setattr(grouped_calls, "kernel", product)
    monkeypatch.setattr(
        grouped_calls,
        "rows",
        lambda name, kind, columns: meaning(
            grouped_calls.name_of_rows(name, kind, columns), rows_by_index.KERNELS
        ),
    )
    monkeypatch.setattr(
        grouped_calls,
        "counting_kernel",
        lambda n: meaning(f"histogram_{n}", histogram_bins.KERNELS),
    )
    return names


def arrays(counts, N, K):
    rng = np.random.default_rng(0)
    A = rng.integers(-3, 4, (sum(counts), K)).astype(np.float16)
    B = rng.integers(-3, 4, (len(counts), N, K)).astype(np.float16)
    return A, B, np.array([0, *np.cumsum(counts)], np.int32)


@pytest.mark.parametrize("counts", [[3], [0, 130, 0, 256, 1], [128, 128], [0] * 9 + [5]], ids=str)
def test_a_product_a_group(called, counts):
    A, B, offsets = arrays(counts, 24, 16)
    out = np.full((sum(counts), 24), np.nan, np.float16)
    assert grouped_gemm(A, B, offsets, out=out) is out
    of = np.repeat(np.arange(len(counts)), counts)
    assert np.array_equal(out, np.einsum("mk,mnk->mn", A.astype(float), B[of].astype(float)))
    assert called == ["grouped_tiles_128", "gemm_grouped_f16_sm90_128x128"]
    assert np.array_equal(grouped_gemm(A, B, offsets), out)


@pytest.mark.parametrize("counts", [[128 * 66], [129 * 64, 1, 130]], ids=str)
def test_many_tiles_are_wide_and_those_of_a_short_last_round_narrow(called, counts):
    A, B, offsets = arrays(counts, 512, 8)
    out = grouped_gemm(A, B, offsets)
    of = np.repeat(np.arange(len(counts)), counts)
    assert np.array_equal(out, np.einsum("mk,mnk->mn", A.astype(float), B[of].astype(float)))
    products = ["gemm_grouped_f16_sm90_128x256", "gemm_grouped_f16_sm90_128x128"]
    assert called == ["grouped_rounds_128", *products]


def test_rows_of_many_tiles_have_one_launch(called):
    A, B, offsets = arrays([128 * 2], 256 * 67, 8)
    grouped_gemm(A, B, offsets)
    assert called == ["grouped_tiles_128", "gemm_grouped_f16_sm90_128x256"]


def halves(*shape):
    return np.zeros(shape, np.float16)


OFFSETS = np.array([0, 2, 4], np.int32)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((halves(4, 8), halves(2, 3, 16), OFFSETS), "both have K columns"),
        ((halves(4, 8), halves(3, 3, 8), OFFSETS), "B has 3 groups, and offsets 3 elements"),
        ((halves(4, 9), halves(2, 3, 9), OFFSETS), "K is 9: rows of 18 bytes"),
        ((halves(4, 8), halves(2, 3, 8), OFFSETS.astype(np.int64)), "offsets is int64"),
        ((halves(4, 8), halves(2, 3, 8).astype(np.float32), OFFSETS), "convert one of them"),
        ((halves(4, 8), halves(3, 8), OFFSETS), "B has 2 dimensions"),
        ((halves(4, 8), halves(2, 3, 8), OFFSETS, halves(4, 4)), "out is (4, 4)"),
    ],
)
def test_arrays_that_do_not_fit(called, given, said):
    with pytest.raises(LaunchError, match=re.escape(said)):
        grouped_gemm(*given)
    assert not called


def test_rows_by_index(called):
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    index = np.array([2, 0, 2, 1], np.int32)
    assert np.array_equal(gather_rows(x, index), x[index])
    out = np.zeros((5, 8), np.float32)
    assert scatter_rows(x, index[1:], out) is out
    assert np.array_equal(out[index[1:]], x) and not out[3:].any()
    assert np.array_equal(gather_rows(x[:, :7].copy(), index), x[index][:, :7])
    assert called == ["gather_rows_f32", "scatter_rows_f32", "gather_rows_f32_any"]
    with pytest.raises(LaunchError, match=r"out is \(4, 7\)"):
        gather_rows(x, index, halves(4, 7))
    with pytest.raises(LaunchError, match="give an index for each row of x"):
        scatter_rows(x, index, out)
    with pytest.raises(LaunchError, match="index is int64"):
        gather_rows(x, index.astype(np.int64))


def test_histogram(called):
    x = np.array([4, 0, 4, 255, 1], np.int32)
    assert np.array_equal(histogram(x, 256), np.bincount(x, minlength=256))
    assert np.array_equal(histogram(x, 257), np.bincount(x, minlength=257))
    assert called == ["histogram_256", "histogram_4096"]
    for bins in (0, -1, 4097):
        with pytest.raises(LaunchError, match="a number from 1 to 4096"):
            histogram(x, bins)
