"""The tiles of grouped products, computed one group after the other."""

from __future__ import annotations

import numpy as np


def tiles_of(counts: list[int], rows: int = 128) -> tuple[np.ndarray, np.ndarray, int]:
    """The first rows of tiles, their groups, and the number that have rows, tile by tile."""
    cuts, groups, at = [], [], 0
    for g, count in enumerate(counts):
        for first in range(at, at + count, rows):
            cuts.append(first)
            groups.append(g)
        at += count
    used, most = len(cuts), at // rows + len(counts)
    cuts += [at] * (most + 1 - used)
    return np.array(cuts, np.int32), np.array(groups, np.int32), used


def offsets_of(counts: list[int]) -> np.ndarray:
    return np.array([0, *np.cumsum(counts)], np.int32)
