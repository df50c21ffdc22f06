"""The common parts of kernels of rows: a thread's elements, loads, stores, and reductions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import bf16, f32, i32
from exogpu.ir.types import DataType
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor
from exogpu.isa.sm80 import Sm80_cp_async_copy

TYPES: Final = {"f32": f32, "bf16": bf16}
SCANNED: Final = ("f32", "i32")
"""Types of rows that are scanned."""
SCAN_LONGEST: Final = 16384
"""Elements of a row that `cumsum` gives to one CTA; of longer ones there may be too few."""
LOWEST: Final = -3.4028234663852886e38
"""The least finite f32: what the greatest of a row begins with."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The owners of a row of `dtype`: `warps` warps; a thread takes `loads` vectors at a time.

    A vector is 16 bytes, or one element where rows have any length.  One warp has a row for itself,
    and shares its CTA with others; several warps are a CTA.  A row that is not `looped` over has at
    most `span` elements, and stays where it is from its only load to its store: in registers, or if
    `staged` in shared memory, each vector of which is one thread's.

    >>> Shape("bf16", 8, 4).span
    8192
    """

    dtype: str
    warps: int
    loads: int
    vectors: bool = True
    looped: bool = False
    staged: bool = False

    @property
    def type(self) -> DataType:
        """The type of the elements in memory: one of TYPES, of which f32 is computed, or i32."""
        return TYPES.get(self.dtype, i32)

    @property
    def vector(self) -> int:
        """Elements that a thread reads or writes at once."""
        return 16 // self.type.bytes if self.vectors else 1

    @property
    def rows(self) -> int:
        """The rows of a CTA."""
        return 8 if self.warps == 1 else 1

    @property
    def all(self) -> int:
        """Warps of a CTA."""
        return self.rows * self.warps

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
        if self.looped:
            return f"{kind}_looped"
        return f"{kind}_{self.warps}x{self.span // self.warps}" + "_staged" * self.staged


def _ladder(
    kind: str,
    own: tuple[int, ...],
    ctas: tuple[tuple[int, int], ...],
    staged: tuple[tuple[int, int], ...] = (),
    vectors: bool = True,
) -> tuple[Shape, ...]:
    """Warps that have a row each, with so many loads; CTAs of so many warps and loads, with rows in
    registers and then in shared memory; the last takes any row."""
    return (
        *(Shape(kind, 1, loads, vectors) for loads in own),
        *(Shape(kind, warps, loads, vectors) for warps, loads in ctas),
        *(Shape(kind, warps, loads, vectors, staged=True) for warps, loads in staged),
        Shape(kind, 16, ctas[-1][1], vectors, looped=True),
    )


_ANY: Final = tuple((warps, 8) for warps in (2, 4, 8, 16, 32))

SHAPES: Final = (
    *_ladder("f32", (1, 2, 4), ((2, 4), (4, 4), (8, 4), (16, 4)), ((16, 8),)),
    *_ladder("bf16", (1, 2), ((2, 2), (4, 2)), ((4, 4), (4, 8), (16, 4))),
    *_ladder("f32", (4,), _ANY, vectors=False),
    *_ladder("bf16", (4,), _ANY, vectors=False),
)
"""The shapes of each type, those of short rows first; the last takes any row.
Elements of 16 bits take a register each where they wait in one, so that longer
rows of bf16 leave a multiprocessor room for one CTA; in shared memory there are
seven.
"""

SHIPPED: Final = (
    Shape("f32", 1, 4),
    Shape("f32", 8, 4),
    Shape("bf16", 4, 8, staged=True),
    Shape("bf16", 16, 2, looped=True),
    Shape("f32", 8, 8, vectors=False),
)
"""The shapes made when a kernel's module is imported; the others are made when needed."""


def scan_shape(kind: str, columns: int) -> Shape:
    """The shape for rows of so many columns.  A row in a loop has 4096 elements, or 1024, a step.

    >>> str(scan_shape("f32", 500)), str(scan_shape("i32", 4096)), str(scan_shape("f32", 4097))
    ('f32_1x512', 'i32_8x512', 'f32_any_looped')
    """
    vectors = columns % 4 == 0
    shapes = [Shape(kind, warps, 4, vectors) for warps in (1, 2, 4, 8)]
    fits = [shape for shape in shapes if columns <= shape.span]
    return fits[0] if fits else Shape(kind, 8, 4, vectors, looped=True)


def shape_of(kind: str, columns: int) -> Shape:
    """The first shape that takes rows of so many columns.

    >>> str(shape_of("f32", 4096)), str(shape_of("f32", 1023)), str(shape_of("bf16", 10**6))
    ('f32_8x512', 'f32_any_4x256', 'bf16_looped')
    """
    fits = (s for s in SHAPES if s.dtype == kind and columns % s.vector == 0 and columns <= s.most)
    return min(fits, key=lambda s: (not s.vectors, s.looped, s.span))


@dataclass(frozen=True, slots=True)
class Macros:
    """The parts of kernels of one shape."""

    fetch: Macro
    """`fetch(held, x, task, k, M, N)`: each thread brings its vectors of step k of a row of x into
    `held`: registers of [warps, 32, loads, elements], or shared memory of [loads, warps, 32,
    elements]."""
    each: Macro
    """`each(body, held, a, b, c, d, e, task, k, M, N)`: each thread executes
    `body(v, a, b, c, d, e, row, n, w, t)` for each vector v that it has: v begins in column n of
    the row, w and t are the thread's warp and lane."""
    reduce: Macro
    """`reduce(combine, a, other, shared, slot)`: the threads of a row combine their a, and all have
    it then; warps do it in a row of `shared`, which a warp with a row for itself does without."""
    launch: Macro
    """`launch(of_task, a, b, c, d, e, f, M, N)`: the launch, each task of which executes
    `of_task(held, shared, a, b, c, d, e, f, task, M, N)`."""


def macros(shape: Shape) -> Macros:
    """The macros of kernels of that shape."""
    V, LOADS, ROWS, staged = shape.vector, shape.loads, shape.rows, shape.staged
    WARPS, ACROSS, SPAN, dtype = ROWS * shape.warps, shape.across, shape.span, shape.type

    @macro
    def of_thread(use, body, held, a, b, c, d, e, row, at, N, w, t):
        for i in seq(0, LOADS):  # all are on their way before the first is used
            if ACROSS * i + at < N:
                use(body, held, a, b, c, d, e, row, ACROSS * i + at, i, N, w, t)

    @macro
    def of_row(use, body, held, a, b, c, d, e, task, k, M, N):
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                if ROWS == 1:
                    at = SPAN * k + V * (32 * w + t)
                    of_thread(use, body, held, a, b, c, d, e, task, at, N, w, t)
                else:
                    if ROWS * task + w < M:
                        at = SPAN * k + V * t
                        of_thread(use, body, held, a, b, c, d, e, ROWS * task + w, at, N, w, t)

    @macro
    def brought(_, held, x, __, ___, ____, _____, row, n, i, N, w, t):
        if staged:
            Sm80_cp_async_copy(held[i, w, t, :], x[row, n : n + V], n=V, dtype=dtype)
        else:
            cuda_load(held[w, t, i, :], x[row, n : n + V], n=V, dtype=dtype)

    @macro
    def of_vector(body, held, a, b, c, d, e, row, n, i, N, w, t):
        if staged:
            v: dtype[V]
            cuda_load(v[:], held[i, w, t, :], n=V, dtype=dtype)
            body(v, a, b, c, d, e, row, n, w, t)
        else:
            body(held[w, t, i, :], a, b, c, d, e, row, n, w, t)

    @macro
    def fetch(held, x, task, k, M, N):
        if staged:
            for w in cuda_threads(0, WARPS, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    Fence(cuda_in_order, cuda_in_order)
        of_row(brought, None, held, x, None, None, None, None, task, k, M, N)
        if staged:
            done: barrier[WARPS, 32] @ CudaCommitGroup
            for w in cuda_threads(0, WARPS, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    Arrive(Sm80_cp_async) >> done[w, t]
                    Await(done[w, t], cuda_in_order, 0)

    @macro
    def each(body, held, a, b, c, d, e, task, k, M, N):
        of_row(of_vector, body, held, a, b, c, d, e, task, k, M, N)

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

    @macro
    def launch(of_task, a, b, c, d, e, f, M, N):
        if staged:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                shared: f32[2, WARPS] @ CudaSmemLinear
                part: dtype[LOADS, WARPS, 32, V] @ CudaSmemLinear
                for task in cuda_tasks(0, M):
                    of_task(part, shared, a, b, c, d, e, f, task, M, N)
        elif ROWS == 1:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                shared: f32[2, WARPS] @ CudaSmemLinear
                for task in cuda_tasks(0, M):
                    part: dtype[WARPS, 32, LOADS, V]
                    of_task(part, shared, a, b, c, d, e, f, task, M, N)
        else:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                for task in cuda_tasks(0, (M + ROWS - 1) / ROWS):
                    part: dtype[WARPS, 32, LOADS, V]
                    of_task(part, None, a, b, c, d, e, f, task, M, N)

    return Macros(fetch, each, reduce, launch)


@macro
def larger(a, b):
    """For `reduce`."""
    a = max(a, b)


@macro
def added(a, b):
    """For `reduce`."""
    a = a + b


# Shapes of rows that a cluster of CTAs has, and which one is taken.

LONG: Final = 16384
"""Elements of the longest rows that one CTA has for itself."""


@dataclass(frozen=True, slots=True)
class LongShape:
    """A cluster of `ctas` CTAs of `warps` warps has a row of `dtype`; a thread, `elements` of it.

    A multiprocessor has room for `blocks` CTAs.

    >>> LongShape("f32", 8).span, LongShape("bf16", 8).span
    (131072, 131072)
    """

    dtype: str
    ctas: int
    warps: int = 16
    elements: int = 32
    blocks: int = 2

    @property
    def type(self) -> DataType:
        """The type of the elements in memory; the computation is in f32."""
        return TYPES[self.dtype]

    @property
    def vector(self) -> int:
        """Elements that a thread reads or writes at once: 16 bytes."""
        return 16 // self.type.bytes

    @property
    def loads(self) -> int:
        """Vectors of a thread."""
        return self.elements // self.vector

    @property
    def across(self) -> int:
        """Elements between two loads of a thread."""
        return 32 * self.all_warps * self.vector

    @property
    def all_warps(self) -> int:
        """The number of warps of the cluster."""
        return self.ctas * self.warps

    @property
    def each(self) -> int:
        """Warps whose partial results a lane combines."""
        return max(1, self.all_warps // 32)

    @property
    def span(self) -> int:
        """Elements of the longest row."""
        return self.across * self.loads

    def __str__(self) -> str:
        return f"{self.dtype}_{self.span}_{self.ctas}x{self.warps}x{self.blocks}"


LONG_SHAPES: Final = (
    *(LongShape(kind, 2) for kind in TYPES),
    *(LongShape(kind, 2, warps=32, blocks=1) for kind in TYPES),
    LongShape("f32", 8),
    LongShape("bf16", 4, warps=32, blocks=1),
)
"""The fastest that were measured; of each type those of shorter rows first."""


def long_shape_of(kind: str, columns: int) -> LongShape | None:
    """The first shape that takes rows of so many columns; None if a CTA takes them, or none does.

    >>> str(long_shape_of("bf16", 65536)), long_shape_of("f32", 1024), long_shape_of("f32", 65537)
    ('bf16_65536_2x32x1', None, None)
    """
    if columns <= LONG:
        return None
    fits = (s for s in LONG_SHAPES if s.dtype == kind and columns <= s.span)
    return next((s for s in fits if columns % s.vector == 0), None)
