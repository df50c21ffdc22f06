"""The named barriers of a CTA, 1 to 15: for Fences of some of its warps, and as split barriers.

Fences take them from 1 on, as they come; split barriers are known before, and have the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from exogpu.analysis.affine import constant
from exogpu.analysis.facts import Facts
from exogpu.analysis.named_barriers import threads_of_phases
from exogpu.analysis.ownership import distributed_dims
from exogpu.analysis.tiling import Tiling, block_axes
from exogpu.analysis.uses import Declared
from exogpu.codegen.errors import InternalError, unsupported
from exogpu.codegen.expressions import plus
from exogpu.codegen.mbarriers import divides, whole_warps
from exogpu.codegen.parts import first_thread, parts_of
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    BarrierAlloc,
    CExpr,
    DeviceFunction,
    Int,
    Mod,
    Mul,
    Point,
    Stmt,
)
from exogpu.ir.types import BarrierMechanism
from exogpu.ir.walk import walk

LAST: Final = 15
"""Barrier 0 is the CTA's own (PTX ISA, barrier.cta: 16 barriers a CTA)."""


@dataclass(frozen=True, slots=True)
class Named:
    """The number of a named barrier, as a function of thread iterators, and its threads."""

    number: CExpr
    threads: int


@dataclass(slots=True)
class NamedBarriers:
    """Numbers of named barriers for a kernel's Fences: two Fences share one only if their threads
    are the same."""

    last: int = LAST
    _taken: dict[tuple[tuple[int, ...], ...], int] = field(default_factory=dict)

    def of(self, tiling: Tiling) -> Named | None:
        """The barrier of a scope of whole warps; None where it is none, or none is free."""
        if not whole_warps(tiling):
            return None
        parts = parts_of(tiling)
        base = self._taken.get(parts.sets)
        if base is None:
            base = 1 + sum(len(sets) for sets in self._taken)
            if base + len(parts.sets) - 1 > self.last:
                return None
            self._taken[parts.sets] = base
        return Named(plus(parts.index, Int(base)), len(parts.sets[0]))


@dataclass(frozen=True, slots=True)
class Split:
    """A variable of named barriers: its first number in a CTA, and what a phase has."""

    first: int
    kept: tuple[int, ...]
    """The dimensions that a CTA indexes."""
    extents: tuple[int, ...]
    threads: Mapping[Stmt, int]
    """By statement, those of a phase: all that arrive and all that wait."""

    def number(self, access: Access) -> CExpr:
        """The number of an element's barrier."""
        index: CExpr = Int(0)
        for d, extent in zip(self.kept, self.extents, strict=True):
            coord = access.coords[d]
            assert isinstance(coord, Point), "refused by check_named"
            index = plus(Mul(extent, index) if index != Int(0) else index, coord.at)
        return plus(index, Int(self.first))


def split_barriers(launch: DeviceFunction, facts: Facts) -> Mapping[Sym, Split]:
    """The variables of a launch that are named barriers.

    Raises ExoGpuError (G815) where a CTA has no such number of them.
    """
    here = {s.name for s in walk(launch.body) if isinstance(s, BarrierAlloc)}
    found: dict[Sym, Split] = {}
    free = LAST + 1
    for declared in facts.variables:
        alloc = declared.declaration
        if not isinstance(alloc, BarrierAlloc) or alloc.name not in here or not declared.uses:
            continue
        if alloc.mechanism is not BarrierMechanism.NAMED_BARRIER:
            continue
        kept = _dimensions_in_cta(declared)
        extents = tuple(constant(alloc.shape[d]) or 0 for d in kept)
        free -= math.prod(extents)
        if free < 1:
            raise unsupported(
                f"{alloc.name} and the variables before it are more than the {LAST} named "
                "barriers that there are",
                alloc.span,
                "use mbarriers for some",
                "G815",
            )
        found[alloc.name] = Split(free, kept, extents, _threads(declared))
    return found


def _dimensions_in_cta(declared: Declared) -> tuple[int, ...]:
    tiling, dims = declared.where.tiling, range(len(declared.declaration.shape))
    if tiling.cluster_dim == 1:
        return tuple(dims)
    of_ctas = distributed_dims(declared, declared.uses, tiling.block_dim)
    return tuple(d for d in dims if d not in of_ctas)


def _threads(declared: Declared) -> Mapping[Stmt, int]:
    found: dict[Stmt, int] = {}
    for stmt, numbers in threads_of_phases(declared).items():
        if len(numbers) != 1:
            name = declared.declaration.name
            what = "no Arrive or no Await meets this"
            if numbers:
                what = f"the phases of elements of {name} differ in their threads here"
            raise unsupported(what, stmt.span, "let each element have its own statements", "G807")
        (found[stmt],) = numbers
    return found


def adjacent_lanes(tiling: Tiling) -> int | None:
    """Returns the number of lanes in a scope of adjacent ones that starts at a multiple of it."""
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
