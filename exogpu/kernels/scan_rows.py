"""y[m, n] = sum over k <= n of x[m, k]: f32, or i32 that wraps around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.language import f32, i32
from exogpu.ir.types import DataType
from exogpu.isa.cuda import cuda_load, cuda_shfl_from, cuda_shfl_idx, cuda_shfl_up, cuda_store
from exogpu.kernels import row_layout
from exogpu.kernels.row_layout import scan_shape


def make_scan(shape: row_layout.Shape) -> Procedure:
    """The kernel of a shape: of registers, and of no more than 32 vectors of warps at a time.

    A thread sums its vectors, a warp its threads, and every warp all warps' sums, which it reads
    from shared memory; what was summed before a step is carried to it.  Sums of f32 are in an
    order that depends on the shape alone.
    """
    dtype = shape.type
    V, LOADS, SPAN, ACROSS = shape.vector, shape.loads, shape.span, shape.across
    ROWS, WARPS, MOST = shape.rows, shape.all, shape.most
    PARTS = LOADS * shape.warps
    """Vectors of warps in a step of a row."""
    assert PARTS <= 32

    @macro
    def load(part, x, _, row, at, N, w, t):
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                n = ACROSS * i + at
                cuda_load(part[w, t, i, :], x[row, n : n + V], n=V, dtype=dtype)

    @macro
    def summed(part, total, _, row, at, N, w, t):
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(1, V):
                    part[w, t, i, j] += part[w, t, i, j - 1]
                total[w, t, i] = part[w, t, i, V - 1]

    @macro
    def store(part, before, y, row, at, N, w, t):
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                n = ACROSS * i + at
                for j in seq(0, V):
                    part[w, t, i, j] += before[w, t, i]
                cuda_store(y[row, n : n + V], part[w, t, i, :], n=V, dtype=dtype)

    @macro
    def of_row(body, a, b, c, task, k, M, N, w, t):
        if ROWS == 1:
            body(a, b, c, task, SPAN * k + V * (32 * w + t), N, w, t)
        else:
            if ROWS * task + w < M:
                body(a, b, c, ROWS * task + w, SPAN * k + V * t, N, w, t)

    @macro
    def scanned(one, other, w):
        """The sums of lanes 0 .. t, in lane t."""
        for delta in (1, 2, 4, 8, 16):
            cuda_shfl_up(other[w, :], one[w, :], delta=delta, dtype=dtype)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                if t >= delta:
                    one[w, t] += other[w, t]

    @macro
    def preceding(one, other, w):
        """The values of lanes 0 .. t - 1."""
        cuda_shfl_up(other[w, :], one[w, :], delta=1, dtype=dtype)
        for t in cuda_threads(0, 32, unit=cuda_thread):
            one[w, t] = 0
            if t >= 1:
                one[w, t] = other[w, t]

    @macro
    def step(part, shared, x, y, carry, slot, task, k, M, N):
        total: dtype[WARPS, 32, LOADS]
        before: dtype[WARPS, 32, LOADS]
        one: dtype[WARPS, 32]
        other: dtype[WARPS, 32]
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                of_row(load, part, x, None, task, k, M, N, w, t)
                for i in seq(0, LOADS):
                    total[w, t, i] = 0
                of_row(summed, part, total, None, task, k, M, N, w, t)
            for i in seq(0, LOADS):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    one[w, t] = total[w, t, i]
                scanned(one, other, w)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    total[w, t, i] = one[w, t]
                preceding(one, other, w)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    before[w, t, i] = one[w, t]
                if ROWS == 1:
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        if t == 31:
                            shared[slot, shape.warps * i + w] = total[w, t, i]
        if ROWS == 1:
            Fence(cuda_in_order, cuda_in_order)
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            if ROWS == 1:
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    one[w, t] = 0
                    if t < PARTS:
                        one[w, t] = shared[slot, t]
                scanned(one, other, w)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    total[w, t, 0] = one[w, t]
                preceding(one, other, w)
                for i in seq(0, LOADS):
                    cuda_shfl_from(shape.warps * i + w, other[w, :], one[w, :], dtype=dtype)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        before[w, t, i] += other[w, t] + carry[w, t]
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    one[w, t] = total[w, t, 0]
                cuda_shfl_idx(other[w, :], one[w, :], lane=31, dtype=dtype)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    carry[w, t] += other[w, t]
            else:
                for i in seq(0, LOADS):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        before[w, t, i] += carry[w, t]
                        one[w, t] = total[w, t, i]
                    cuda_shfl_idx(other[w, :], one[w, :], lane=31, dtype=dtype)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        carry[w, t] += other[w, t]
            for t in cuda_threads(0, 32, unit=cuda_thread):
                of_row(store, part, before, y, task, k, M, N, w, t)

    @macro
    def of_task(shared, x, y, task, M, N):
        part: dtype[WARPS, 32, LOADS, V]
        carry: dtype[WARPS, 32]
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                carry[w, t] = 0
        if shape.looped:
            for k in seq(0, (N + SPAN - 1) / SPAN):
                step(part, shared, x, y, carry, k % 2, task, k, M, N)
        else:
            step(part, shared, x, y, carry, 0, task, 0, M, N)
        if ROWS == 1:
            Fence(cuda_in_order, cuda_temporal)  # the next row is summed in the same place

    @proc(name=f"scan_{shape}")
    def scan(M: size, N: size, x: dtype[M, N] @ CudaGmemLinear, y: dtype[M, N] @ CudaGmemLinear):
        assert N % V == 0
        assert N <= MOST
        if ROWS == 1:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                shared: dtype[2, PARTS] @ CudaSmemLinear
                for task in cuda_tasks(0, M):
                    of_task(shared, x, y, task, M, N)
        else:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                for task in cuda_tasks(0, (M + ROWS - 1) / ROWS):
                    of_task(None, x, y, task, M, N)

    return scan


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        make_scan(scan_shape(*of)) for of in (("f32", 512), ("i32", 4096), ("f32", 8192))
    )
}
"""Some, by name."""


# Tiles of scans of rows: the owners of elements, and the rows that each tile is for.

TYPES: Final = {"f32": f32, "i32": i32}


@dataclass(frozen=True, slots=True)
class Shape:
    """A tile: `warps` warps, of which a thread has `loads` vectors, `span` elements apart.

    A vector is four elements, or one where rows have any length.

    >>> Shape("f32", 8, 8).tile
    8192
    >>> str(Shape("f32", 8, 8))
    'f32_8x8'
    """

    dtype: str
    warps: int
    loads: int
    vectors: bool = True

    @property
    def type(self) -> DataType:
        """The type of the elements, and of their sums."""
        return TYPES[self.dtype]

    @property
    def vector(self) -> int:
        """Elements that a thread reads or writes at once."""
        return 4 if self.vectors else 1

    @property
    def span(self) -> int:
        """Elements that all threads read at once."""
        return 32 * self.warps * self.vector

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.span * self.loads

    def __str__(self) -> str:
        return f"{self.dtype}_{self.warps}x{self.loads}" + ("" if self.vectors else "_any")


SHAPES: Final = tuple(
    Shape(kind, warps, loads * (1 if vectors else 4), vectors)
    for kind in TYPES
    for vectors in (True, False)
    for warps, loads in ((1, 2), (2, 4), (16, 8))
)
"""The shapes of each type, those of short rows first; the last takes any row."""


def shape_of(kind: str, N: int) -> Shape:
    """The shape for rows of N elements: the smallest tile that has a row, or else the largest.

    >>> str(shape_of("f32", 1000)), str(shape_of("i32", 100001))
    ('f32_2x4', 'i32_16x32_any')
    """
    of_type = [s for s in SHAPES if s.dtype == kind and s.vectors == (N % 4 == 0)]
    return next((shape for shape in of_type if shape.tile >= N), of_type[-1])
