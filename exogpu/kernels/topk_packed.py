"""How a warp finds the K greatest of a row of floats of 16 bits, each with its column in one
register: no two are equal."""

from __future__ import annotations

from typing import Final

from exogpu.frontend.macros import Macro, macro
from exogpu.hw.datatypes import i32
from exogpu.isa.cuda import cuda_load, cuda_number, cuda_reduce_max
from exogpu.kernels.topk_parts import LOWEST
from exogpu.kernels.topk_shapes import Part

COLUMNS: Final = 4096
"""The ordinal of a float of 16 bits has 13 bits to spare, zeros or, where it is negative, ones."""


def make_packed(part: Part, K: int) -> Macro:
    """`greatest(x, row, left, live, place, w)`: warp w finds the columns of the K greatest of row
    `row` of x, which has `left` elements, at least K.

    Nothing is read unless `live` is positive.  Lane t gets numbers t, t + 32, ... in `place`.
    """
    V, LOADS, dtype = part.vector, part.loads, part.type
    ACROSS, HALVES = 32 * V, (K + 31) // 32
    assert part.type.bytes == 2 and part.span <= COLUMNS

    @macro
    def brought(x, row, left, live, key, t):
        """Bits to spare hold how many columns are behind the element's."""
        before: i32
        behind: i32
        cuda_number(t, before)
        before = -V * before
        behind = before + (COLUMNS - 1)
        raw: dtype[LOADS, V]
        for i in seq(0, LOADS):
            n = ACROSS * i + V * t
            if live > 0 and n < left:
                cuda_load(raw[i, :], x[row, n : n + V], n=V, dtype=dtype)
        for i in range(LOADS):
            for j in range(V):
                key[i, j] = LOWEST
            if live > 0 and ACROSS * i + V * t < left:
                for j in range(V):
                    key[i, j] = ordinal(raw[i, j])
                    key[i, j] = key[i, j] - (ACROSS * i + j) + select(key[i, j], 0, before, behind)

    @macro
    def nearest(key, limit, best):
        """The greatest of all keys below a limit, relative to it: those above wrap around, and are
        less than any below."""
        best = LOWEST
        for i in range(LOADS):
            for j in range(V):
                best = select(best, key[i, j] - limit, key[i, j] - limit, best)

    @macro
    def greatest(x, row, left, live, place, w):
        key: i32[32, LOADS, V]
        best: i32[32]
        most: i32[32]
        limit: i32[32]
        for t in cuda_threads(0, 32, unit=cuda_thread):
            brought(x, row, left, live, key[t, :, :], t)
            for h in range(HALVES):
                place[w, t, h] = 0
            limit[t] = 0
            nearest(key[t, :, :], limit[t], best[t])
        cuda_reduce_max(most[:], best[:])
        for h in range(HALVES):
            for r in seq(0, min(32, K - 32 * h)):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    if t == r:
                        place[w, t, h] = most[t]
                if 32 * h + r < K - 1:
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        limit[t] = most[t] - LOWEST
                        nearest(key[t, :, :], limit[t], best[t])
                    cuda_reduce_max(most[:], best[:])
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        most[t] = most[t] + limit[t]
        for t in cuda_threads(0, 32, unit=cuda_thread):
            for h in range(HALVES):
                told: ui16
                told = place[w, t, h]
                place[w, t, h] = COLUMNS - 1 - (told - told / COLUMNS * COLUMNS)

    return greatest
