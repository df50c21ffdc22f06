"""The K greatest elements of each row, in falling order, and their columns."""

from __future__ import annotations

from typing import Final

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import Macro, macro
from exogpu.hw.datatypes import i32, i64
from exogpu.isa.cuda import cuda_number, cuda_pick
from exogpu.kernels.topk_parts import make_greatest
from exogpu.kernels.topk_registers import make_in_registers
from exogpu.kernels.topk_shapes import SHIPPED, TopkShape

PLACES: Final = {"i32": i32, "i64": i64}
"""Of columns, in memory."""


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
