"""Fences of a part of a CTA: hardware barriers 1 to 15 for some warps, a mask for some lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from exogpu.analysis.tiling import Tiling, block_axes
from exogpu.codegen.errors import InternalError
from exogpu.codegen.expressions import plus
from exogpu.codegen.mbarriers import divides, whole_warps
from exogpu.codegen.parts import first_thread, parts_of
from exogpu.ir.nodes import CExpr, Int, Mod

LAST: Final = 15
"""Barrier 0 is the CTA's own (PTX ISA, barrier.cta: 16 barriers a CTA)."""


@dataclass(frozen=True, slots=True)
class Named:
    """The number of a named barrier, as a function of thread iterators, and its threads."""

    number: CExpr
    threads: int


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
    first = first_thread(tiling)
    if max(parts.firsts) >= 32:
        first = Mod(first, 32)
    for at, threads in zip(parts.firsts, parts.sets, strict=True):
        mask = sum(1 << t % 32 for t in threads)
        if len({t // 32 for t in threads}) != 1 or mask != pattern << at % 32:
            raise InternalError(f"threads {threads} are not lanes {pattern:#x} of a warp from {at}")
    return Lanes(pattern, first)
