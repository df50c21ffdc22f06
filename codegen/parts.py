"""Divides a CTA into sets of threads, by the thread loops around a statement."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from exogpu.analysis.threadmap import ThreadMap, threads_of
from exogpu.analysis.tiling import Tiling, block_axes
from exogpu.codegen.expressions import plus, times
from exogpu.ir.nodes import CExpr, CVar, Int
from exogpu.ir.walk import control_variables, evaluate


@dataclass(frozen=True, slots=True)
class Parts:
    """The sets of threads that execute a statement: one for each value of the thread iterators
    that divide the CTA, which `index` counts from 0."""

    index: CExpr
    sets: tuple[tuple[int, ...], ...]
    firsts: tuple[int, ...]
    """The sum of the offsets at each value."""


def parts_of(tiling: Tiling) -> Parts:
    """The sets of threads of a CTA that execute a scope, by enumeration of the loops around it."""
    axes = block_axes(tiling)
    read = {name for axis in axes for name in control_variables(axis.offset)}
    ranges = [r for r in tiling.ranges if r.iterator in read]
    index: CExpr = Int(0)
    for r in ranges:
        index = plus(times(r.count, index), plus(CVar(r.iterator), Int(-r.lo)))
    first = first_thread(tiling)
    sets, firsts = [], []
    for values in product(*(range(r.lo, r.lo + r.count) for r in ranges)):
        env = dict(zip((r.iterator for r in ranges), values, strict=True))
        sets.append(threads_of(ThreadMap(axes), env))
        firsts.append(evaluate(first, env))
    return Parts(index, tuple(sets), tuple(firsts))


def first_thread(tiling: Tiling) -> CExpr:
    """The first of the threads."""
    first: CExpr = Int(0)
    for axis in block_axes(tiling):
        first = plus(first, times(axis.pitch, axis.offset))
    return first
