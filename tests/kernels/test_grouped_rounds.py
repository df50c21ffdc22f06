"""The tiles of a grouped product in whole rounds, and a last one that is short."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from exogpu.kernels import grouped_rounds
from exogpu.kernels.array_arguments import AT_ONCE
from exogpu.kernels.grouped_rounds import BAND, make_rounds
from tests.kernels.altered_modules import changed
from tests.kernels.group_tiles import offsets_of, tiles_of

ROUNDS = make_rounds(128)


def tables(counts: list[int], columns: int, offsets: np.ndarray | None = None) -> list[np.ndarray]:
    """cuts, group, last_cuts and last_group."""
    given = offsets_of(counts) if offsets is None else offsets
    T, W = sum(counts) // 128 + len(counts), max(1, AT_ONCE // 2 // columns)
    sizes = {"cuts": T + 1, "group": T, "last_cuts": W + 1, "last_group": W}
    found = {name: np.full(size, -7, np.int32) for name, size in sizes.items()}
    ROUNDS.run(G=len(counts), columns=columns, offsets=given, **found)
    return list(found.values())


def last_rows(rows: int, columns: int) -> int:
    """How many rows of tiles the last launch should have."""
    most = AT_ONCE // 2 // columns
    needed = -(-(rows * columns % AT_ONCE) // columns)
    found = rows - (rows - needed) // BAND * BAND
    return found if needed and found <= most else 0


@pytest.mark.parametrize("columns", [1, 2, 16, 20, 33, 66])
def test_tiles_are_divided_so_that_a_round_is_saved(columns: int) -> None:
    rng = np.random.default_rng(columns)
    divided = 0
    for groups in (1, 2, 5, 9, 14):
        counts = [int(n) for n in rng.integers(1, 1500, groups) * rng.integers(0, 3, groups)]
        if not sum(counts):
            continue
        wanted, of, used = tiles_of(counts)
        cuts, group, last_cuts, last_group = tables(counts, columns)
        first = used - last_rows(used, columns)
        assert np.array_equal(cuts[: first + 1], wanted[: first + 1])
        assert (cuts[first:] == wanted[first]).all()
        assert np.array_equal(group[:first], of[:first])
        assert np.array_equal(last_cuts[: used - first + 1], wanted[first : used + 1])
        assert (last_cuts[used - first :] == sum(counts)).all()
        assert np.array_equal(last_group[: used - first], of[first:])
        for g in (group, last_group):
            assert ((g >= 0) & (g < groups)).all()
        if first < used:
            divided += 1
            rounds = -(-first * columns // AT_ONCE)
            assert rounds < -(-used * columns // AT_ONCE)
            assert (used - first) * columns * 2 <= AT_ONCE
    assert divided or columns > 33


def test_cuts_never_decrease_whatever_the_offsets_are() -> None:
    """So the contract of the product holds, and a wrong table of offsets is no race."""
    rng = np.random.default_rng(0)
    for columns in (3, 16):
        for _ in range(6):
            offsets = rng.integers(-3000, 9000, 5).astype(np.int32)
            cuts, group, last_cuts, last_group = tables([300] * 4, columns, offsets)
            for begins, of in ((cuts, group), (last_cuts, last_group)):
                assert (np.diff(begins) >= 0).all() and ((of >= 0) & (of < 4)).all()


def test_proved_for_all_sizes() -> None:
    verdict = ROUNDS.check()
    assert verdict.word == "proved" and not verdict.warnings


def test_a_table_that_is_too_short_is_refuted(tmp_path: Path) -> None:
    module = changed(grouped_rounds, "THREADS * b + c <= W:", "THREADS * b + c <= W + 1:", tmp_path)
    assert module.make_rounds().check().word == "refuted"
