"""Fences of a part of a CTA: hardware barriers 1 to 15 for some warps, a mask for some lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Final

from exogpu.analysis.tiling import Tiling, block_axes
from exogpu.codegen.expressions import plus
from exogpu.codegen.mbarriers import divides, whole_warps
from exogpu.ir.nodes import CExpr, FloorDiv, Int, Mul
from exogpu.ir.walk import control_variables, evaluate

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

    _taken: dict[tuple[tuple[int, ...], int], int] = field(default_factory=dict)

    def of(self, tiling: Tiling) -> Named | None:
        """The barrier of a scope of adjacent whole warps; None where it is none, or none is free.

        Scopes that a loop chooses get one barrier each, numbered in the order of their threads.
        """
        axes = block_axes(tiling)
        if len(axes) != 1 or not whole_warps(tiling):
            return None
        (axis,) = axes
        ranges = [r for r in tiling.ranges if r.iterator in control_variables(axis.offset)]
        firsts = sorted(
            {
                evaluate(axis.offset, dict(zip((r.iterator for r in ranges), at, strict=True)))
                for at in product(*(range(r.lo, r.lo + r.count) for r in ranges))
            }
        )
        adjacent = [firsts[0] + axis.extent * i for i in range(len(firsts))]
        if firsts != adjacent or not divides(axis.extent, plus(axis.offset, Int(-firsts[0]))):
            return None
        key = (tuple(firsts), axis.extent)
        base = self._taken.get(key)
        if base is None:
            base = 1 + sum(len(starts) for starts, _ in self._taken)
            if base + len(firsts) - 1 > LAST:
                return None
            self._taken[key] = base
        if len(firsts) == 1:
            return Named(Int(base), axis.extent)
        index = _quotient(plus(axis.offset, Int(-firsts[0])), axis.extent)
        return Named(plus(index, Int(base)), axis.extent)


def _quotient(expr: CExpr, divisor: int) -> CExpr:
    match expr:
        case Mul(factor, term) if factor == divisor:
            return term
        case _:
            return FloorDiv(expr, divisor)


def adjacent_lanes(tiling: Tiling) -> int | None:
    """How many lanes a scope of adjacent ones has, where it starts at a multiple of that."""
    axes = block_axes(tiling)
    if len(axes) != 1:
        return None
    (axis,) = axes
    aligned = axis.pitch == 1 and 32 % axis.extent == 0 and divides(axis.extent, axis.offset)
    return axis.extent if aligned else None
