"""How a warp finds the K greatest of a row that stays in its registers."""

from __future__ import annotations

from exogpu.frontend.macros import Macro, macro
from exogpu.hw.datatypes import i32
from exogpu.isa.cuda import cuda_load, cuda_number, cuda_reduce_max, cuda_reduce_min
from exogpu.kernels.topk_parts import LOWEST, NOWHERE
from exogpu.kernels.topk_shapes import COLUMNS, TopkShape


def make_in_registers(shape: TopkShape) -> Macro:
    """`greatest(x, row, left, live, place, w)`: warp w finds the columns of the K greatest of row
    `row` of x, which has `left` elements, at least K.

    Nothing is read unless `live` is positive.  Lane t gets numbers t, t + 32, ... in `place`.
    What is behind the row's end counts as less than all numbers.
    """
    part, HALVES, dtype = shape.part, shape.halves, shape.part.type
    V, LOADS, ACROSS = part.vector, part.loads, 32 * part.vector
    rounds = (_packed if dtype.bytes == 2 else _pairs)(shape)

    @macro
    def brought(x, row, left, live, key, t):
        raw: dtype[LOADS, V]
        for i in seq(0, LOADS):
            n = ACROSS * i + V * t
            if live > 0 and n < left:
                cuda_load(raw[i, :], x[row, n : n + V], n=V, dtype=dtype)
        for i in seq(0, LOADS):
            for j in seq(0, V):
                key[i, j] = LOWEST + COLUMNS - 1
            if live > 0 and ACROSS * i + V * t < left:
                for j in seq(0, V):
                    key[i, j] = ordinal(raw[i, j])

    @macro
    def greatest(x, row, left, live, place, w):
        base: i32[32]
        key: i32[32, LOADS, V]
        for t in cuda_threads(0, 32, unit=cuda_thread):
            cuda_number(t, base[t])
            base[t] = V * base[t]
            brought(x, row, left, live, key[t, :, :], t)
            for h in range(HALVES):
                place[w, t, h] = 0
        rounds(key, base, place, w)

    return greatest


def _pairs(shape: TopkShape) -> Macro:
    """`rounds(key, base, place, w)`: the columns of a lane begin at `base`.

    A round finds the greatest, then the first column that has it, which is taken away.
    """
    V, LOADS, HALVES, K = shape.part.vector, shape.part.loads, shape.halves, shape.K
    ACROSS = 32 * V

    @macro
    def first_with(most, key, base, first):
        first = NOWHERE
        for i in reversed(range(LOADS)):
            for j in reversed(range(V)):
                first = select(key[i, j], most, first, base + (ACROSS * i + j))

    @macro
    def taken_away(key, own, column):
        """If they are one column."""
        key = select(own, column, key, select(column, own, key, LOWEST))

    @macro
    def rounds(key, base, place, w):
        best: i32[32]
        most: i32[32]
        first: i32[32]
        found: i32[32]
        for h in range(HALVES):
            for r in seq(0, min(32, K - 32 * h)):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    best[t] = LOWEST
                    for i in seq(0, LOADS):
                        for j in seq(0, V):
                            best[t] = select(best[t], key[t, i, j], key[t, i, j], best[t])
                cuda_reduce_max(most[:], best[:])
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    first_with(most[t], key[t, :, :], base[t], first[t])
                cuda_reduce_min(found[:], first[:])
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    if t == r:
                        place[w, t, h] = found[t]
                    first[t] = found[t] - base[t]
                    for i in range(LOADS):
                        for j in range(V):
                            taken_away(key[t, i, j], first[t], ACROSS * i + j)

    return rounds


def _packed(shape: TopkShape) -> Macro:
    """`rounds(key, base, place, w)` of floats of 16 bits, each with its column in one register.

    The ordinal of one has 13 bits to spare, zeros or, where it is negative, ones: they tell how
    many columns are behind its own, so that no two are equal.  The next is the greatest below the
    last one: relative to that, those above wrap around, and are less than any below.
    """
    V, LOADS, HALVES, K = shape.part.vector, shape.part.loads, shape.halves, shape.K
    ACROSS = 32 * V

    @macro
    def placed(key, base):
        before: i32
        behind: i32
        before = -base
        behind = COLUMNS - 1 - base
        for i in range(LOADS):
            for j in range(V):
                key[i, j] = key[i, j] - (ACROSS * i + j) + select(key[i, j], 0, before, behind)

    @macro
    def greatest_below(limit, key, best):
        """Relative to the limit."""
        best = LOWEST
        for i in seq(0, LOADS):
            for j in seq(0, V):
                best = select(best, key[i, j] - limit, key[i, j] - limit, best)

    @macro
    def rounds(key, base, place, w):
        best: i32[32]
        most: i32[32]
        limit: i32[32]
        for t in cuda_threads(0, 32, unit=cuda_thread):
            placed(key[t, :, :], base[t])
            limit[t] = 0
        for h in range(HALVES):
            for r in seq(0, min(32, K - 32 * h)):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    greatest_below(limit[t], key[t, :, :], best[t])
                cuda_reduce_max(most[:], best[:])
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    most[t] = most[t] + limit[t]
                    limit[t] = most[t] - LOWEST
                    if t == r:
                        place[w, t, h] = most[t]
        for t in cuda_threads(0, 32, unit=cuda_thread):
            for h in range(HALVES):
                told: ui16
                told = place[w, t, h]
                place[w, t, h] = COLUMNS - 1 - (told - told / COLUMNS * COLUMNS)

    return rounds
