"""Fences of a part of a CTA: hardware barriers 1 to 15 for some warps, a mask for some lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Final

from exogpu.analysis.threadmap import ThreadMap, threads_of
from exogpu.analysis.tiling import Tiling, block_axes
from exogpu.codegen.errors import InternalError
from exogpu.codegen.expressions import plus, times
from exogpu.codegen.mbarriers import divides, whole_warps
from exogpu.ir.nodes import CExpr, CVar, Int, Mod
from exogpu.ir.walk import control_variables, evaluate

LAST: Final = 15
"""Barrier 0 is the CTA's own (PTX ISA, barrier.cta: 16 barriers a CTA)."""


@dataclass(frozen=True, slots=True)
class Named:
    """The number of a named barrier, as a function of thread iterators, and its threads."""

    number: CExpr
    threads: int


@dataclass(frozen=True, slots=True)
class Parts:
    """The sets of threads that execute a statement: one for each value of the thread iterators
    that divide the CTA, which `index` counts from 0."""

    index: CExpr
    sets: tuple[tuple[int, ...], ...]
    firsts: tuple[int, ...]
    """The sum of the offsets at each value."""


@dataclass(slots=True)
class NamedBarriers:
    """The named barriers of a kernel: two Fences share one only if their threads are the same."""

    _taken: dict[tuple[tuple[int, ...], ...], int] = field(default_factory=dict)

    def of(self, tiling: Tiling) -> Named | None:
        """The barrier of a scope of whole warps; None where it is none, or none is free."""
        if not whole_warps(tiling):
            return None
        parts = parts_of(tiling)
        base = self._taken.get(parts.sets)
        if base is None:
            base = 1 + sum(len(sets) for sets in self._taken)
            if base + len(parts.sets) - 1 > LAST:
                return None
            self._taken[parts.sets] = base
        return Named(plus(parts.index, Int(base)), len(parts.sets[0]))


def parts_of(tiling: Tiling) -> Parts:
    """The sets of threads of a CTA that execute a scope, by enumeration of the loops around it."""
    axes = block_axes(tiling)
    read = {name for axis in axes for name in control_variables(axis.offset)}
    ranges = [r for r in tiling.ranges if r.iterator in read]
    index: CExpr = Int(0)
    for r in ranges:
        index = plus(times(r.count, index), plus(CVar(r.iterator), Int(-r.lo)))
    first = _first(tiling)
    sets, firsts = [], []
    for values in product(*(range(r.lo, r.lo + r.count) for r in ranges)):
        env = dict(zip((r.iterator for r in ranges), values, strict=True))
        sets.append(threads_of(ThreadMap(axes), env))
        firsts.append(evaluate(first, env))
    return Parts(index, tuple(sets), tuple(firsts))


def _first(tiling: Tiling) -> CExpr:
    """The first of the threads."""
    first: CExpr = Int(0)
    for axis in block_axes(tiling):
        first = plus(first, times(axis.pitch, axis.offset))
    return first


def adjacent_lanes(tiling: Tiling) -> int | None:
    """How many lanes a scope of adjacent ones has, where it starts at a multiple of that."""
    axes = block_axes(tiling)
    if len(axes) != 1:
        return None
    (axis,) = axes
    aligned = axis.pitch == 1 and 32 % axis.extent == 0 and divides(axis.extent, axis.offset)
    return axis.extent if aligned else None


@dataclass(frozen=True, slots=True)
class Lanes:
    """Some lanes of one warp: `pattern`, a mask with lane 0, from lane `first` on."""

    pattern: int
    first: CExpr


def lanes_of(tiling: Tiling) -> Lanes:
    """The lanes that execute a scope within one warp, wherever in it they are.

    Raises InternalError where they are in several warps, which collective analysis refuses.
    """
    parts = parts_of(tiling)
    pattern = sum(1 << t - parts.sets[0][0] for t in parts.sets[0])
    first = _first(tiling)
    if max(parts.firsts) >= 32:
        first = Mod(first, 32)
    for at, threads in zip(parts.firsts, parts.sets, strict=True):
        mask = sum(1 << t % 32 for t in threads)
        if len({t // 32 for t in threads}) != 1 or mask != pattern << at % 32:
            raise InternalError(f"threads {threads} are not lanes {pattern:#x} of a warp from {at}")
    return Lanes(pattern, first)
