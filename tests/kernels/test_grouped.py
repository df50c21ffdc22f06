"""Grouped products, gather, scatter and histogram: proved, refuted with one mistake, and right."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated, EmulatedError
from campaigns.emulator.orders import ORDERS
from exogpu.hw.language import f16
from exogpu.kernels import gemm_grouped_sm90, grouped_tiles, histogram_bins, rows_by_index
from exogpu.kernels.gemm_grouped_sm90 import make_grouped
from exogpu.kernels.grouped_tiles import make_tiles
from exogpu.kernels.histogram_bins import make_histogram
from exogpu.kernels.rows_by_index import make_gather, make_scatter
from exogpu.pipeline.limited_check import SMALLER
from tests.kernels.altered_modules import changed
from tests.kernels.group_tiles import offsets_of, tiles_of

COUNTS = ([5, 0, 130], [128, 64], [0, 0, 1], [129], [3, 1, 0, 2, 256])
"""Rows of each group."""
SMALL = make_grouped(TN=64, RING=3, dtype=f16)
ROWS = {
    "gather any": make_gather("f32", vectors=False),
    "scatter": make_scatter("f32"),
}


# --- the tiles ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_tiles_are_those_of_one_group_after_the_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for rows in (32, 128):
        counts = [
            int(n) for n in rng.integers(0, 3 * rows, seed + 1) * rng.integers(0, 2, seed + 1)
        ]
        wanted, groups, used = tiles_of(counts, rows)
        cuts, group = np.full(len(wanted), -7, np.int32), np.full(len(wanted) - 1, -7, np.int32)
        if len(group) == 0:
            continue
        offsets = offsets_of(counts)
        make_tiles(rows).run(G=len(counts), offsets=offsets, cuts=cuts, group=group)
        assert np.array_equal(cuts, wanted)
        assert np.array_equal(group[:used], groups)
        assert ((group >= 0) & (group < len(counts))).all()


def test_cuts_never_decrease_whatever_the_offsets_are() -> None:
    """So the contract of the product holds, and a wrong table of offsets is no race."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        offsets = rng.integers(-300, 900, 5).astype(np.int32)
        cuts, group = np.zeros(9, np.int32), np.zeros(8, np.int32)
        make_tiles().run(G=4, offsets=offsets, cuts=cuts, group=group)
        assert (np.diff(cuts) >= 0).all() and ((group >= 0) & (group < 4)).all()


# --- proved, and refuted with one mistake ---------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "assumed"),
    [
        (SMALL, "assuming monotone(cuts)"),
        (ROWS["scatter"], "assuming injective(index)"),
        (ROWS["gather any"], ""),
        (make_histogram(256), ""),
        (make_tiles(), ""),
    ],
    ids=lambda of: getattr(of, "name", ""),
)
def test_proved_for_all_sizes(kernel, assumed: str) -> None:
    verdict = kernel.check()
    assert verdict.word == "proved" and not verdict.warnings
    assert assumed in str(verdict) and ("assuming" in str(verdict)) == bool(assumed)


MISTAKES = {
    "cuts may decrease": (gemm_grouped_sm90, "assert monotone(cuts)", "pass"),
    "a stage too early": (gemm_grouped_sm90, "temporal, ~RING)", "temporal, ~(RING + 1))"),
    "rows of the next tile": (gemm_grouped_sm90, "if row + MM <= hi:", "if row < hi:"),
    "rows may be the same": (rows_by_index, "assert injective(index)", "pass"),
    "counted before the bins are 0": (
        histogram_bins,
        "part[THREADS * i + t] = 0\n                Fence(cuda_in_order, cuda_in_order)",
        "part[THREADS * i + t] = 0",
    ),
    "a tile of two threads": (grouped_tiles, "cuts[THREADS * b + c] =", "cuts[THREADS * b] ="),
}
MAKE = {
    gemm_grouped_sm90: lambda m: m.make_grouped(TN=64, RING=3, dtype=f16),
    rows_by_index: lambda m: m.make_scatter("f32"),
    histogram_bins: lambda m: m.make_histogram(256),
    grouped_tiles: lambda m: m.make_tiles(),
}


LONG = "a stage too early"
"""Minutes: ISL looks for the smallest sizes of each finding again and again."""


@pytest.mark.parametrize(
    "mistake", [pytest.param(m, marks=pytest.mark.long) if m == LONG else m for m in MISTAKES]
)
def test_a_mistake_is_refuted(mistake: str, tmp_path: Path) -> None:
    module, old, new = MISTAKES[mistake]
    kernel = MAKE[module](changed(module, old, new, tmp_path))
    verdict = kernel.check()
    assert verdict.word == "refuted"
    if module is gemm_grouped_sm90 and mistake != "rows of the next tile":
        assert "cuts = [" in str(verdict)
        # Of two tiles the rows of one end where those of the other begin.
        assert verdict.note == ("" if mistake == "cuts may decrease" else SMALLER)


# --- right ----------------------------------------------------------------------------------


def product(counts: list[int], N: int, K: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Arguments of the kernel, and its result: of small whole numbers, exact."""
    rng = np.random.default_rng(sum(counts))
    M = sum(counts)
    cuts, groups, _ = tiles_of(counts)
    group = np.zeros(len(cuts) - 1, np.int32)
    group[: len(groups)] = groups
    A = rng.integers(-3, 4, (M, K)).astype(np.float16)
    B = rng.integers(-3, 4, (len(counts), N, K)).astype(np.float16)
    of = np.repeat(np.arange(len(counts)), counts)
    wanted = np.einsum("mk,mnk->mn", A.astype(float), B[of].astype(float))
    C = np.full((M, N), np.nan, np.float16)
    return {"A": A, "B": B, "cuts": cuts, "group": group, "C": C}, wanted


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_a_grouped_product_is_that_of_numpy(counts: list[int]) -> None:
    arrays, wanted = product(counts, 70, 72)
    SMALL.run(**arrays)
    assert np.array_equal(arrays["C"], wanted)


emulating = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("emulated")

    def run(kernel, arrays, sizes, order):
        made, manifest = kernel.emit(unchecked=True)
        Emulated(made.source, manifest, folder)(arrays, sizes, order)

    return run


@pytest.mark.slow
@emulating
@pytest.mark.parametrize("order", ORDERS[:3], ids=str)
def test_an_emitted_grouped_product_in_every_order(order, emulated) -> None:
    for counts in COUNTS[:2]:
        for N, K in ((40, 72), (130, 24)):
            arrays, wanted = product(counts, N, K)
            sizes = {"G": len(counts), "T": len(arrays["group"]), "M": sum(counts)}
            emulated(SMALL, arrays, {**sizes, "N": N, "cluster_K": K}, order)
            assert np.array_equal(arrays["C"], wanted)


@pytest.mark.slow
@emulating
def test_emitted_rows_by_index(emulated) -> None:
    rng = np.random.default_rng(0)
    x, index = rng.standard_normal((19, 131)).astype(np.float32), rng.integers(0, 19, 21)
    y = np.full((21, 131), np.nan, np.float32)
    arrays = {"x": x, "index": index.astype(np.int32), "y": y}
    emulated(ROWS["gather any"], arrays, {"M": 21, "L": 19, "N": 131}, ORDERS[1])
    assert np.array_equal(y, x[index])
    x = rng.standard_normal((19, 700)).astype(np.float32)
    index, y = rng.permutation(30)[:19].astype(np.int32), np.full((30, 700), 7, np.float32)
    wanted = y.copy()
    wanted[index] = x
    arrays, sizes = {"x": x, "index": index, "y": y}, {"M": 19, "L": 30, "N": 700}
    emulated(ROWS["scatter"], arrays, sizes, ORDERS[1])
    assert np.array_equal(y, wanted)
    index[3] = 30
    with pytest.raises(EmulatedError, match=r"30, no index of 0 \.\. 29"):
        emulated(ROWS["scatter"], arrays, sizes, ORDERS[1])


@pytest.mark.slow
@emulating
def test_an_emitted_histogram(emulated) -> None:
    x = np.random.default_rng(0).integers(0, 200, 20000).astype(np.int32)
    counts = np.full(200, 9, np.int32)
    emulated(make_histogram(256), {"x": x, "counts": counts}, {"M": 20000, "bins": 200}, ORDERS[1])
    assert np.array_equal(counts, np.bincount(x, minlength=200))
