"""The way in which a warp finds the K greatest elements of its part of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import bf16, f16, f32, i32
from exogpu.ir.types import DataType
from exogpu.isa.cuda import (
    cuda_load,
    cuda_number,
    cuda_pick,
    cuda_reduce_max,
    cuda_reduce_min,
    cuda_store,
)

# Shapes of rows whose greatest elements are asked for, and which one is taken.

TYPES: Final = {"f32": f32, "bf16": bf16, "f16": f16}
MOST: Final = 128
"""Elements of a result."""
COLUMNS: Final = 4096
"""The columns of a warp, at most."""
LONGEST: Final = 2**31 - 2**13
"""Columns that i32 tells, whatever the last part of a row begins with."""


@dataclass(frozen=True, slots=True)
class Part:
    """A warp's part of a row: `loads` vectors of 16 bytes for each lane, or so many elements.

    What a lane brings is its group: vectors that are 32 vectors apart.
    """

    dtype: str
    loads: int
    vectors: bool = True

    @property
    def type(self) -> DataType:
        """The type of the elements in memory: one of TYPES, or i32, which are ordinals already."""
        return TYPES.get(self.dtype, i32)

    @property
    def vector(self) -> int:
        """Elements of a vector."""
        return 16 // self.type.bytes if self.vectors else 1

    @property
    def group(self) -> int:
        """Elements of a lane."""
        return self.loads * self.vector

    @property
    def span(self) -> int:
        """Elements of a warp."""
        return 32 * self.group

    @property
    def words(self) -> int:
        """The words of shared memory: after 32 vectors the place of one is left out, so that 32
        elements of one group, one after the other, are in 32 banks."""
        return self.loads * 33 * self.vector

    def __str__(self) -> str:
        return f"{self.dtype}{'' if self.vectors else '_any'}_{self.span}"


FURTHER: Final = Part("i32", 32)
"""A warp's part of the greatest elements of other parts."""


@dataclass(frozen=True, slots=True)
class TopkShape:
    """The K greatest of rows that a warp has at once, or in parts, on so many levels."""

    part: Part
    K: int
    levels: int = 1
    warps: int = 1
    """The warps of a CTA; each has another row."""
    further: Part = FURTHER
    """A warp's part on other levels than the first."""

    @property
    def in_registers(self) -> bool:
        """Tests whether rows are in registers, and not in shared memory."""
        most = COLUMNS // 4 if self.part.type.bytes == 2 else 128
        return self.levels == 1 and self.part.span <= most

    @property
    def halves(self) -> int:
        """Results that a lane has, at most."""
        return -(-self.K // 32)

    @property
    def padded(self) -> int:
        """Places that the K greatest of a part have in memory: whole vectors."""
        return -(-self.K // 4) * 4

    @property
    def longest(self) -> int:
        """Elements of the longest row.

        >>> [TopkShape(Part("f32", 32), 64, levels).longest for levels in (1, 2, 3)]
        [4096, 262144, 16777216]
        """
        columns = 1
        for level in range(self.levels):
            span = (self.part if level == self.levels - 1 else self.further).span
            columns = (columns if level == 0 else columns // self.padded) * span
        return min(columns, LONGEST)

    def __str__(self) -> str:
        return f"{self.part}_{self.K}" + f"_{self.levels}" * (self.levels > 1)


def topk_shape(kind: str, columns: int, K: int) -> TopkShape:
    """The first shape that takes rows of so many columns.

    >>> str(topk_shape("f32", 256, 8)), str(topk_shape("bf16", 151936, 50))
    ('f32_256_8', 'bf16_4096_50_2')
    """
    vectors = columns * TYPES[kind].bytes % 16 == 0
    elements = 16 // TYPES[kind].bytes if vectors else 1
    parts = [Part(kind, 2**n, vectors) for n in range(8) if 2 <= 2**n * elements <= 128]
    part = next((part for part in parts if columns <= part.span), parts[-1])
    warps = max(1, min(8, 4096 // part.span))
    shapes = (TopkShape(part, K, levels, warps) for levels in range(1, 7))
    return next(shape for shape in shapes if columns <= shape.longest)


SHIPPED: Final = (
    TopkShape(Part("f32", 2), 8, warps=8),
    TopkShape(Part("bf16", 1), 8, warps=8),
    TopkShape(Part("f32", 4, vectors=False), 5, warps=8),
    TopkShape(Part("f32", 32), 64, 2),
    TopkShape(Part("bf16", 16), 50, 2),
)
"""These are made when the kernels' module is imported, the others when they are needed."""


LOWEST: Final = -(2**31)
"""Less than what `ordinal` has for any number."""
NOWHERE: Final = 2**31 - 1
"""More than any column."""
AT_ONCE: Final = {True: 16, False: 32}
"""Vectors, or elements, that a thread has under way."""


def make_greatest(part: Part, K: int) -> Macro:
    """`greatest(x, row, first, live, left, kept, value, place, w)`: warp w finds the K greatest of
    its part of row `row` of x, which begins at column `first`.

    Nothing is read unless `live` is positive, nor from column `first + left` on.  Lane t gets the
    ordinals of number t, t + 32, ... in `value`, and in `place` their columns from `first` on.
    Where the part has fewer than K elements, LOWEST follows.
    """
    V, LOADS, WORDS, dtype = part.vector, part.loads, part.words, part.type
    ACROSS, HALVES, BATCH = 32 * V, (K + 31) // 32, min(AT_ONCE[part.vectors], LOADS)
    ordinals = part.dtype == "i32"
    LOOKS, STORED = (part.group + 31) // 32, min(V, 4)
    assert LOADS % BATCH == 0

    @macro
    def brought(x, row, first, live, left, held, lane, head, spot, t):
        at: i32
        at = V * lane[t]
        head[t] = LOWEST
        spot[t] = at
        for b in seq(0, LOADS / BATCH):
            raw: dtype[BATCH, V]
            for i in seq(0, BATCH):
                n = ACROSS * (BATCH * b + i) + V * t
                if live > 0 and n < left:
                    cuda_load(raw[i, :], x[row, first + n : first + n + V], n=V, dtype=dtype)
            for i in seq(0, BATCH):
                v: i32[V]
                for j in seq(0, V):
                    v[j] = LOWEST
                if live > 0 and ACROSS * (BATCH * b + i) + V * t < left:
                    for j in seq(0, V):
                        if ordinals:
                            v[j] = raw[i, j]
                        else:
                            v[j] = ordinal(raw[i, j])
                for j in seq(0, V):
                    spot[t] = select(head[t], v[j], at, spot[t])
                    head[t] = select(head[t], v[j], v[j], head[t])
                    at = at + 1
                for j in range(0, V, STORED):
                    word = V * (33 * (BATCH * b + i) + t) + j
                    cuda_store(held[word : word + STORED], v[j : j + STORED], n=STORED, dtype=i32)
                at = at + (ACROSS - V)

    @macro
    def first_of(most, found, a, at, tried):
        """The greatest a of the warp and, of those, the least `at`."""
        cuda_reduce_max(most[:], a[:])
        for t in cuda_threads(0, 32, unit=cuda_thread):
            tried[t] = select(a[t], most[t], NOWHERE, at[t])
        cuda_reduce_min(found[:], tried[:])

    @macro
    def looked_through(held, lane, most, found, group, rest, where):
        """The group of what was found, and the first after it that a lane sees there: it looks at
        every 32nd element, where there is one."""
        told: ui16
        vector: i32
        column: i32
        ahead: i32[LOOKS]
        told = found
        group = told / V - told / ACROSS * 32
        vector = lane / V
        column = vector * ACROSS + (lane - vector * V) + group * V
        for i in range(LOOKS):
            at: i32
            at = column + vector * V + 33 * 32 * i
            ahead[i] = LOWEST
            cuda_pick(WORDS, ahead[i], at, held, dtype=i32)
        where = column
        for i in range(LOOKS):
            limit: i32
            limit = select(found, column + 32 * 32 * i, most + 1, most)
            ahead[i] = select(ahead[i], limit, ahead[i], LOWEST)
            if i == 0:
                rest = ahead[i]
            else:
                where = select(rest, ahead[i], column + 32 * 32 * i, where)
                rest = select(rest, ahead[i], ahead[i], rest)

    @macro
    def of_group(lane, group, a, b):
        """b for the lane whose group it is."""
        a = select(lane, group, a, select(group, lane, a, b))

    @macro
    def earlier(most, found, other, at):
        """The greater, and of equal ones that of the smaller column."""
        found = select(most, other, at, select(other, most, found, select(at, found, at, found)))
        most = select(most, other, other, most)

    @macro
    def greatest(x, row, first, live, left, kept, value, place, w):
        lane: i32[32]
        head: i32[32]
        spot: i32[32]
        most: i32[32]
        found: i32[32]
        tried: i32[32]
        group: i32[32]
        rest: i32[32]
        where: i32[32]
        other: i32[32]
        there: i32[32]
        Fence(cuda_in_order, cuda_in_order)  # the row before has been looked through
        for i in seq(0, LOADS):  # no lane looks at the words between two rows
            uninit(kept[w, V * (33 * i + 32) : V * (33 * i + 33)])
        for t in cuda_threads(0, 32, unit=cuda_thread):
            cuda_number(t, lane[t])
            for h in range(HALVES):
                value[w, t, h] = LOWEST
                place[w, t, h] = 0
            brought(x, row, first, live, left, kept[w, :], lane, head, spot, t)
        Fence(cuda_in_order, cuda_in_order)
        first_of(most, found, head, spot, tried)
        for h in range(HALVES):
            for r in seq(0, min(32, K - 32 * h), unroll=True if K <= 16 else None):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    if t == r:
                        value[w, t, h] = most[t]
                        place[w, t, h] = found[t]
                if 32 * h + r < K - 1:
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        looked_through(
                            kept[w, :], lane[t], most[t], found[t], group[t], rest[t], where[t]
                        )
                        of_group(lane[t], group[t], head[t], LOWEST)
                    first_of(other, there, head, spot, tried)  # of the other groups
                    first_of(most, found, rest, where, tried)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        of_group(lane[t], group[t], head[t], most[t])
                        of_group(lane[t], group[t], spot[t], found[t])
                        earlier(most[t], found[t], other[t], there[t])

    return greatest
