"""What kernels of rows share: who has which elements of a row, loads, stores, and reductions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exogpu.frontend.macros import Macro, macro
from exogpu.hw.datatypes import bf16, f32
from exogpu.ir.types import DataType
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor, cuda_store

TYPES: Final = {"f32": f32, "bf16": bf16}
LOWEST: Final = -3.4028234663852886e38
"""The least finite f32: what the greatest of a row begins with."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Who has a row of `dtype`: `warps` warps, a thread of which takes `loads` vectors at a time.

    A vector is 16 bytes, or one element where rows have any length.  One warp has a row for itself,
    and shares its CTA with others; several warps are a CTA.  A row that is not `looped` over has at
    most `span` elements, and stays in registers from its only load to its store.

    >>> Shape("bf16", 8, 4).span
    8192
    """

    dtype: str
    warps: int
    loads: int
    vectors: bool = True
    looped: bool = False

    @property
    def type(self) -> DataType:
        """Of the elements in memory; what is computed is f32."""
        return TYPES[self.dtype]

    @property
    def vector(self) -> int:
        """Elements that a thread reads or writes at once."""
        return 16 // self.type.bytes if self.vectors else 1

    @property
    def rows(self) -> int:
        """Of a CTA."""
        return 8 if self.warps == 1 else 1

    @property
    def across(self) -> int:
        """Elements between two loads of a thread."""
        return 32 * self.warps * self.vector

    @property
    def span(self) -> int:
        """Elements of a row that its threads take at a time."""
        return self.across * self.loads

    @property
    def most(self) -> int:
        """Elements of the longest row."""
        return 2**31 - 1 - self.span if self.looped else self.span

    def __str__(self) -> str:
        kind = self.dtype if self.vectors else f"{self.dtype}_any"
        return f"{kind}_looped" if self.looped else f"{kind}_{self.span}"


def _ladder(kind: str, own: tuple[int, ...], loads: int, vectors: bool = True) -> tuple[Shape, ...]:
    """Warps that have a row each, with so many loads, then CTAs of more and more warps."""
    warps = tuple(Shape(kind, 1, n, vectors) for n in own)
    ctas = tuple(Shape(kind, n, loads, vectors) for n in (2, 4, 8, 16, 32))
    return (*warps, *ctas, Shape(kind, 16, loads, vectors, looped=True))


SHAPES: Final = (
    *_ladder("f32", (1, 2, 4), 4),
    *_ladder("bf16", (1, 2), 2),
    *_ladder("f32", (4,), 8, vectors=False),
    *_ladder("bf16", (4,), 8, vectors=False),
)
"""Of each type those of short rows first; the last takes any row."""

SHIPPED: Final = (
    Shape("f32", 1, 4),
    Shape("f32", 8, 4),
    Shape("bf16", 16, 2, looped=True),
    Shape("f32", 8, 8, vectors=False),
)
"""Of each kernel these are made when its module is imported, the others when they are needed."""


def shape_of(kind: str, columns: int) -> Shape:
    """The first shape that takes rows of so many columns.

    >>> str(shape_of("f32", 4096)), str(shape_of("f32", 1023)), str(shape_of("bf16", 10**6))
    ('f32_4096', 'f32_any_1024', 'bf16_looped')
    """
    fits = (s for s in SHAPES if s.dtype == kind and columns % s.vector == 0 and columns <= s.most)
    return min(fits, key=lambda s: (not s.vectors, s.looped, s.span))


@dataclass(frozen=True, slots=True)
class Macros:
    """What kernels of one shape are made of."""

    of_row: Macro
    """`of_row(body, a, b, c, task, k, M, N)`: each thread that has a part of a row executes
    `body(a, b, c, row, at, N, w, t)`: w and t are its warp and lane, `at` its first column in step
    k."""
    load: Macro
    """`load(raw, v, x, row, at, N, w, t)`: a body for `of_row`: x as it is, and as f32."""
    store: Macro
    """`store(raw, v, y, row, at, N, w, t)`: v, rounded, to where `load` has it from."""
    reduce: Macro
    """`reduce(combine, a, other, shared, slot)`: the threads of a row combine their a, and all have
    it then; warps do it in a row of `shared`, which a warp with a row for itself does without."""


def macros(shape: Shape) -> Macros:
    """The macros of kernels of that shape."""
    V, LOADS, ROWS = shape.vector, shape.loads, shape.rows
    WARPS, ACROSS, dtype = ROWS * shape.warps, shape.across, shape.type

    @macro
    def of_row(body, a, b, c, task, k, M, N):
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                if ROWS == 1:
                    body(a, b, c, task, LOADS * ACROSS * k + V * (32 * w + t), N, w, t)
                else:
                    if ROWS * task + w < M:
                        body(a, b, c, ROWS * task + w, LOADS * ACROSS * k + V * t, N, w, t)

    @macro
    def load(raw, v, x, row, at, N, w, t):
        for i in seq(0, LOADS):  # all are on their way before the first is used
            if ACROSS * i + at < N:
                cuda_load(
                    raw[w, t, i, :],
                    x[row, ACROSS * i + at : ACROSS * i + at + V],
                    n=V,
                    dtype=dtype,
                )
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(0, V):
                    v[w, t, i, j] = raw[w, t, i, j]

    @macro
    def store(raw, v, y, row, at, N, w, t):
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(0, V):
                    raw[w, t, i, j] = v[w, t, i, j]
                cuda_store(
                    y[row, ACROSS * i + at : ACROSS * i + at + V],
                    raw[w, t, i, :],
                    n=V,
                    dtype=dtype,
                )

    @macro
    def exchange(combine, a, other, w, most):
        for mask in (16, 8, 4, 2, 1):
            if mask < most:
                cuda_shfl_xor(other[w, :], a[w, :], mask=mask)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    combine(a[w, t], other[w, t])

    @macro
    def reduce(combine, a, other, shared, slot):
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            exchange(combine, a, other, w, 32)
            if ROWS == 1:
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    shared[slot, w] = a[w, t]
        if ROWS == 1:
            Fence(cuda_in_order, cuda_in_order)
            for w in cuda_threads(0, WARPS, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    a[w, t] = shared[slot, t % WARPS]
                exchange(combine, a, other, w, WARPS)

    return Macros(of_row, load, store, reduce)


@macro
def larger(a, b):
    """For `reduce`."""
    a = max(a, b)


@macro
def added(a, b):
    """For `reduce`."""
    a = a + b
