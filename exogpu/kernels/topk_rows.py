"""The K greatest elements of each row, in falling order, and their columns."""

from __future__ import annotations

from typing import Final

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import i32, i64
from exogpu.isa.cuda import cuda_load, cuda_number, cuda_pick, cuda_reduce_max, cuda_reduce_min
from exogpu.kernels.topk_selection import (
    COLUMNS,
    LOWEST,
    NOWHERE,
    SHIPPED,
    TopkShape,
    make_greatest,
)

# How a warp finds the K greatest of a row that stays in its registers.


def make_in_registers(shape: TopkShape) -> Macro:
    """`greatest(x, row, left, live, place, w)`: warp w finds the columns of the K greatest of row
    `row` of x, which has `left` elements, at least K.

    Nothing is read unless `live` is positive.  Lane t gets numbers t, t + 32, ... in `place`.
    What is behind the row's end counts as less than all numbers.
    """
    part, HALVES, dtype = shape.part, shape.halves, shape.part.type
    V, LOADS, ACROSS = part.vector, part.loads, 32 * part.vector
    rounds = (_packed_rounds if dtype.bytes == 2 else _pairs)(shape)

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
        """Takes the key away if both are one column."""
        key = select(own, column, key, select(column, own, key, LOWEST))

    @macro
    def rounds(key, base, place, w):
        best: i32[32]
        most: i32[32]
        first: i32[32]
        found: i32[32]
        for h in range(HALVES):
            for r in seq(0, min(32, K - 32 * h), unroll=True if K <= 16 else None):
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


def _packed_rounds(shape: TopkShape) -> Macro:
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
            for r in seq(0, min(32, K - 32 * h), unroll=True if K <= 16 else None):
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


PLACES: Final = {"i32": i32, "i64": i64}
"""The types of columns, in memory."""


def make_result(shape: TopkShape) -> Macro:
    """`result(y, indices, x, N, row, live, s, value, place, w, t)`: a lane writes the columns of
    its `place`, and what x has there."""
    K, HALVES, dtype = shape.K, shape.halves, shape.part.type

    @macro
    def result(y, indices, x, N, row, live, _, __, place, w, t):
        for h in range(HALVES):
            one: dtype
            at: i32
            at = place[w, t, h]
            one = 0.0
            if live > 0 and 32 * h + t < K:
                cuda_pick(N, one, at, x[row, :], dtype=dtype)
                y[row, 32 * h + t] = one
                indices[row, 32 * h + t] = place[w, t, h]

    return result


def make_rows(shape: TopkShape) -> Macro:
    """`level(x, _, N, _, y, indices, M, _)`: the launch, of rows that stay in registers."""
    greatest, result, warps = make_in_registers(shape), make_result(shape), shape.warps
    HALVES = shape.halves

    @macro
    def level(x, _, N, __, y, indices, M, ___):
        with CudaDeviceFunction(blockDim=32 * warps):
            for task in cuda_tasks(0, (M + warps - 1) / warps):
                place: i32[warps, 32, HALVES]
                for w in cuda_threads(0, warps, unit=cuda_warp):
                    row = warps * task + w
                    greatest(x, row, N, M - row, place, w)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        result(y, indices, x, N, row, M - row, 0, None, place, w, t)

    return level


def make_level(shape: TopkShape, first_level: bool, further: Macro | None) -> Macro:
    """`level(source, theirs, length, x, y, indices, M, N)`: a launch, in which warps find the K
    greatest of each part of each row of `source`, which has `length` elements.

    The first level has x for its source; else element n is that of column `theirs[n]`.  What is
    found becomes the rows of `further`: ordinals with their columns, equal ones in the order of
    these.  Without `further` a row has one part, and the result is written.
    """
    part = shape.part if first_level else shape.further
    greatest, result = make_greatest(part, shape.K), make_result(shape)
    SPAN, WORDS, PADDED, HALVES = part.span, part.words, shape.padded, shape.halves
    warps = shape.warps

    @macro
    def of_row(theirs, row, first, live, length, value, place, s, w, t):
        """Columns of x, in place of those of the part."""
        number: i32
        cuda_number(s, number)
        for h in range(HALVES):
            at: i32
            at = place[w, t, h]
            if first_level:
                place[w, t, h] = at + number * SPAN
            elif live > 0:
                here = theirs[row, first:length]
                cuda_pick(length - first, place[w, t, h], at, here, dtype=i32)

    @macro
    def handed_on(ordinals, columns, _, __, row, live, s, value, place, w, t):
        for h in range(HALVES):
            if live > 0 and 32 * h + t < PADDED:
                ordinals[row, PADDED * s + 32 * h + t] = value[w, t, h]
                columns[row, PADDED * s + 32 * h + t] = place[w, t, h]

    @macro
    def launched(written, source, theirs, length, parts, a, b, x, M, N):
        with CudaDeviceFunction(blockDim=32 * warps):
            kept: i32[warps, WORDS] @ CudaSmemLinear
            for c in cuda_tasks(0, (M + warps - 1) / warps):
                for s in cuda_tasks(0, parts):
                    value: i32[warps, 32, HALVES]
                    place: i32[warps, 32, HALVES]
                    for w in cuda_threads(0, warps, unit=cuda_warp):
                        row = warps * c + w
                        first = SPAN * s
                        live = M - row
                        left = length - first
                        greatest(source, row, first, live, left, kept, value, place, w)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            of_row(theirs, row, first, live, length, value, place, s, w, t)
                            written(a, b, x, N, row, live, s, value, place, w, t)

    @macro
    def level(source, theirs, length, x, y, indices, M, N):
        if further is None:
            launched(result, source, theirs, length, 1, y, indices, x, M, N)
        else:
            parts = (length + SPAN - 1) / SPAN
            ordinals: i32[M, PADDED * parts] @ CudaGmemLinear
            columns: i32[M, PADDED * parts] @ CudaGmemLinear
            launched(handed_on, source, theirs, length, parts, ordinals, columns, x, M, N)
            further(ordinals, columns, PADDED * parts, x, y, indices, M, N)

    return level


def _levels(shape: TopkShape) -> Macro:
    """All launches, from the first on."""
    level = make_level(shape, shape.levels == 1, None)
    for number in reversed(range(shape.levels - 1)):
        level = make_level(shape, number == 0, level)
    return level


def make_topk(shape: TopkShape, index: str = "i64") -> Procedure:
    """The kernel of a shape, for columns of type "i32" or "i64": a launch a level."""
    dtype, V, K, LONGEST = shape.part.type, shape.part.vector, shape.K, shape.longest
    place = PLACES[index]
    level = make_rows(shape) if shape.in_registers else _levels(shape)

    @proc(name=f"topk_{index}_{shape}")
    def topk(
        M: size,
        N: size,
        x: dtype[M, N] @ CudaGmemLinear,
        y: dtype[M, K] @ CudaGmemLinear,
        indices: place[M, K] @ CudaGmemLinear,
    ):
        assert N % V == 0
        assert N >= K
        assert N <= LONGEST
        level(x, None, N, x, y, indices, M, N)

    return topk


KERNELS: dict[str, Procedure] = {made.name: made for made in map(make_topk, SHIPPED)}
"""Some, by name."""
