"""Collective tilings (paper, section 4): which threads of a cluster execute a scope.

A tiling splits the natural thread indices of a cluster into dimensions and gives each one an
ordered list of operators; every operator selects one tile of what the one before it left.
`exogpu.analysis.derive_tiling` makes new tilings from old ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from exogpu.analysis.threadmap import ThreadAxis, ThreadMap
from exogpu.ir import render
from exogpu.ir.nodes import Add, CExpr, Int, Mul
from exogpu.ir.types import Sym
from exogpu.solvers import isl


@dataclass(frozen=True, slots=True)
class DimOp:
    """One operator: of `count` tiles of `box` positions, `pitch` apart from `offset` on, the
    tile with number `index`.

    `iterator` is the loop's control variable that `index` is a function of, or None.  The
    number is `iterator - lo` where the operator was derived; where its dimension was split
    across the operator since, a floor or a remainder of that.
    """

    iterator: Sym | None
    index: CExpr
    offset: int
    box: int
    count: int
    pitch: int


@dataclass(frozen=True, slots=True)
class Dimension:
    """Dimension descriptor: its extent, and the operators on it, outermost first."""

    extent: int
    ops: tuple[DimOp, ...] = ()

    @property
    def box(self) -> int:
        """Positions of this dimension that execute the scope."""
        return self.ops[-1].box if self.ops else self.extent


@dataclass(frozen=True, slots=True)
class ThreadRange:
    """The values `lo .. lo + count - 1` of a `cuda_threads` iterator."""

    iterator: Sym
    lo: int
    count: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """Collective tiling: dimension descriptors from the outermost to pitch 1."""

    cluster_dim: int
    block_dim: int
    """Threads a CTA."""
    dims: tuple[Dimension, ...]
    ranges: tuple[ThreadRange, ...] = ()
    """The enclosing `cuda_threads` loops, outermost first."""
    group: str | None = None
    """The warp group that an enclosing `CudaWarps` names."""

    @property
    def box(self) -> tuple[int, ...]:
        """Extents of the executing threads, a dimension each."""
        return tuple(dim.box for dim in self.dims)

    @property
    def threads(self) -> int:
        """The number of threads that execute one instance of the scope."""
        return math.prod(self.box)

    @property
    def pitches(self) -> tuple[int, ...]:
        """Thread pitch of each dimension: the product of the extents after it."""
        extents = [dim.extent for dim in self.dims]
        return tuple(math.prod(extents[m + 1 :]) for m in range(len(extents)))

    def thread_map(self) -> ThreadMap:
        """The thread mapping f of the scope, as a sum set with as few axes as possible."""
        axes = _axes(tuple(zip(self.pitches, self.dims, strict=True)))
        return ThreadMap(axes, self.cluster_dim, self.block_dim)

    def isl_map(self) -> isl.Map:
        """The exact relation `{ [y...] -> [t] }` between iterators and natural thread indices."""
        names = [render.identifier(r.iterator) for r in self.ranges]
        return isl.map_of((), names, ("t",), f"{self.domain_text()} and {self.threads_text('t')}")

    def domain_text(self) -> str:
        """ISL constraint: every thread iterator lies in its range."""
        return render.conjunction(
            f"{r.lo} <= {render.identifier(r.iterator)} < {r.lo + r.count}" for r in self.ranges
        )

    def threads_text(self, thread: str) -> str:
        """ISL constraint on the iterators' ISL names: the thread called `thread` executes."""
        axes = self.thread_map().axes
        terms = [f"{a.pitch} * ({render.isl_expr(a.offset)} + j{i})" for i, a in enumerate(axes)]
        inner = render.conjunction(
            [f"{thread} = {' + '.join(terms) or '0'}"]
            + [f"0 <= j{i} < {a.extent}" for i, a in enumerate(axes)]
        )
        bound = ", ".join(f"j{i}" for i in range(len(axes)))
        return f"(exists {bound} : {inner})" if axes else f"({inner})"


def launch_tiling(cluster_dim: int, block_dim: int) -> Tiling:
    """The tiling of a launch: 1-D for a cluster of one CTA, else (clusterDim, blockDim)."""
    dims = (Dimension(block_dim),)
    return Tiling(
        cluster_dim, block_dim, dims if cluster_dim == 1 else (Dimension(cluster_dim), *dims)
    )


def position(dim: Dimension) -> tuple[CExpr, int]:
    """Returns the start of the executing positions of a dimension: a varying part and a
    constant."""
    varying: CExpr = Int(0)
    constant = 0
    for op in dim.ops:
        constant += op.offset
        if op.count > 1:
            varying = _plus(varying, _times(op.pitch, op.index))
    return varying, constant


def iterations(tiling: Tiling) -> Iterator[dict[Sym, int]]:
    """All values of the thread iterators around a scope."""
    ranges = [range(r.lo, r.lo + r.count) for r in tiling.ranges]
    for values in product(*ranges):
        yield dict(zip((r.iterator for r in tiling.ranges), values, strict=True))


def cluster_axes(tiling: Tiling) -> tuple[ThreadAxis, ...]:
    """The executing CTAs, as axes over CTA ranks; `pitch` is in CTAs."""
    outer = [
        (pitch // tiling.block_dim, dim)
        for pitch, dim in zip(tiling.pitches, tiling.dims, strict=True)
        if pitch >= tiling.block_dim
    ]
    return _axes(tuple(outer))


def block_axes(tiling: Tiling) -> tuple[ThreadAxis, ...]:
    """The executing threads within each executing CTA, as axes over `threadIdx`."""
    inner = [
        (pitch, dim)
        for pitch, dim in zip(tiling.pitches, tiling.dims, strict=True)
        if pitch < tiling.block_dim
    ]
    return _axes(tuple(inner))


def _axes(dims: tuple[tuple[int, Dimension], ...]) -> tuple[ThreadAxis, ...]:
    """Axes of (pitch, dimension) pairs, neighbours merged wherever the sum set stays the same."""
    axes: list[ThreadAxis] = []
    for pitch, dim in dims:
        varying, constant = position(dim)
        offset = _plus(varying, Int(constant))
        if axes and (axes[-1].extent == 1 or dim.box == dim.extent):
            last = axes.pop()
            factor = last.pitch // pitch
            extent = dim.box if last.extent == 1 else last.extent * dim.extent
            axes.append(ThreadAxis(pitch, _plus(_times(factor, last.offset), offset), extent))
        else:
            axes.append(ThreadAxis(pitch, offset, dim.box))
    return tuple(a for a in axes if a.extent > 1 or a.offset != Int(0))


def _plus(left: CExpr, right: CExpr) -> CExpr:
    match left, right:
        case Int(a), Int(b):
            return Int(a + b)
        case Int(0), _:
            return right
        case _, Int(0):
            return left
        case Add(inner, Int(a)), Int(b):
            return _plus(inner, Int(a + b))
        case Add(inner, Int(a)), Add(other, Int(b)):
            return _plus(Add(inner, other), Int(a + b))
        case Add(inner, Int(a)), _:
            return Add(Add(inner, right), Int(a))
        case _:
            return Add(left, right)


def _times(factor: int, term: CExpr) -> CExpr:
    match term:
        case Int(value):
            return Int(factor * value)
        case Mul(inner, rest):
            return Mul(factor * inner, rest) if factor != 1 else term
        case Add(left, right):
            return _plus(_times(factor, left), _times(factor, right))
        case _:
            return term if factor == 1 else Mul(factor, term)
