"""Lowering of `cuda_threads` (paper, section "Code Generation"): `if (int y = f; g) { ... }`.

A thread mapping takes control values to threads; the device needs its inverse, the control value
of a thread.  The inverse is a witness: ISL checks every one against the mapping.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from exogpu.analysis.threadmap import ThreadMap, threads_of
from exogpu.analysis.tiling import Dimension, DimOp, Tiling, block_axes, position
from exogpu.codegen.control_text import plus, times
from exogpu.codegen.names import CTA, LANE, THREAD, WARP, InternalError
from exogpu.ir import nodes as ir
from exogpu.ir.render import conjunction, identifier, isl_cond, isl_expr, numbered
from exogpu.ir.walk import control_variables, evaluate
from exogpu.solvers import isl


@dataclass(frozen=True, slots=True)
class Inverse:
    """`value` is f, `condition` is g: functions of THREAD, WARP, LANE, CTA and outer iterators."""

    value: ir.CExpr
    condition: ir.BExpr


def inverse_of_loop(stmt: ir.For, parent: Tiling, child: Tiling) -> Inverse:
    """f and g of a `cuda_threads` loop; f is 0 (its lower bound) and g true where possible.

    Raises InternalError, naming the loop, where ISL refutes the inverse.
    """
    (mine,) = [r for r in child.ranges if r.iterator == stmt.iterator]
    found = [
        (pitch, dim)
        for pitch, dim in zip(child.pitches, child.dims, strict=True)
        if dim.ops and dim.ops[-1].iterator == stmt.iterator
    ]
    if not found:
        inverse = Inverse(ir.Int(mine.lo), ir.Truth(mine.count > 0))
    else:
        ((pitch, dim),) = found
        op = dim.ops[-1]
        where = _relative(pitch, dim, child)
        if op.count == 1:
            inverse = Inverse(ir.Int(mine.lo), _is_inside(where, dim, op))
        else:
            value = plus(_quotient(where, op.pitch), ir.Int(mine.lo))
            inverse = Inverse(value, _is_in_range(ir.CVar(stmt.iterator), mine.lo, dim, op))
    _check(stmt, parent, child, inverse)
    return inverse


def condition_of_warps(stmt: ir.Warps, parent: Tiling, child: Tiling) -> ir.BExpr:
    """g of a `CudaWarps` block: the thread is in one of its warps.

    Raises InternalError where ISL refutes it.
    """
    dim = child.dims[-1]
    where = _relative(1, dim, child)
    op = dim.ops[-1]
    condition: ir.BExpr = ir.Truth(True)
    if op.box < _box_before(dim):
        # Of the warp's number where it can be: ptxas takes a thread's for divergent.
        warps = _quotient(where, 32)
        first, last = op.offset // 32, (op.offset + op.box) // 32
        condition = ir.Compare("<", warps, ir.Int(last))
        if first:
            condition = ir.And(ir.Compare(">=", warps, ir.Int(first)), condition)
    _check(stmt, parent, child, Inverse(ir.Int(0), condition))
    return condition


def _quotient(where: ir.CExpr, pitch: int) -> ir.CExpr:
    if (
        isinstance(where, ir.Add)
        and isinstance(where.right, ir.Int)
        and where.right.value % pitch == 0
    ):
        return plus(_quotient(where.left, pitch), ir.Int(where.right.value // pitch))
    if where == ir.CVar(THREAD) and pitch % 32 == 0:
        where, pitch = ir.CVar(WARP), pitch // 32
    return where if pitch == 1 else ir.FloorDiv(where, pitch)


def _box_before(dim: Dimension) -> int:
    return dim.ops[-2].box if len(dim.ops) > 1 else dim.extent


def _relative(pitch: int, dim: Dimension, tiling: Tiling) -> ir.CExpr:
    """The thread's position in the dimension, from where the last operator starts counting."""
    at = _coordinate(pitch, dim.extent, tiling)
    earlier = dim.ops[:-1]
    if not earlier:
        return at
    box = earlier[-1].box
    starts = [op.offset for op in earlier] + [op.pitch for op in earlier if op.count > 1]
    if all(start % box == 0 for start in starts):
        if box == 32 and at == ir.CVar(THREAD):
            return ir.CVar(LANE)
        return ir.Int(0) if box == 1 else ir.Mod(at, box)
    varying, constant = position(Dimension(dim.extent, earlier))
    rest = plus(at, ir.Int(-constant))
    return rest if varying == ir.Int(0) else ir.Sub(rest, varying)


def _coordinate(pitch: int, extent: int, tiling: Tiling) -> ir.CExpr:
    """The thread's coordinate in a dimension of the cluster's threads."""
    if pitch >= tiling.block_dim:
        return _digit(ir.CVar(CTA), pitch // tiling.block_dim, extent, tiling.cluster_dim)
    if pitch % 32 == 0:
        return _digit(ir.CVar(WARP), pitch // 32, extent, tiling.block_dim // 32)
    return _digit(ir.CVar(THREAD), pitch, extent, tiling.block_dim)


def _digit(number: ir.CExpr, pitch: int, extent: int, total: int) -> ir.CExpr:
    high = number if pitch == 1 else ir.FloorDiv(number, pitch)
    return high if pitch * extent == total else ir.Mod(high, extent)


def _is_inside(where: ir.CExpr, dim: Dimension, op: DimOp) -> ir.BExpr:
    """The position lies in the operator's only tile."""
    if op.offset == 0 and op.box == _box_before(dim):
        return ir.Truth(True)
    below = ir.Compare("<", where, ir.Int(op.offset + op.box))
    return ir.And(ir.Compare(">=", where, ir.Int(op.offset)), below) if op.offset else below


def _is_in_range(iterator: ir.CExpr, lo: int, dim: Dimension, op: DimOp) -> ir.BExpr:
    """The iterator is in range: threads beyond the last tile idle."""
    assert op.offset == 0 and op.box == op.pitch, "loops derive adjacent tiles from the start"
    if op.count * op.pitch == _box_before(dim):
        return ir.Truth(True)
    return ir.Compare("<", iterator, ir.Int(lo + op.count))


def _check(stmt: ir.For | ir.Warps, parent: Tiling, child: Tiling, inverse: Inverse) -> None:
    """The inverse and the thread mapping are the same relation on the parent's threads."""
    dims = [identifier(r.iterator) for r in child.ranges]
    cta = f"floor(t / {parent.block_dim})" if parent.cluster_dim > 1 else "0"
    thread = f"(t - {parent.block_dim} * {cta})" if parent.cluster_dim > 1 else "t"
    warp = f"floor({thread} / 32)"
    names = {CTA: cta, THREAD: thread, WARP: warp, LANE: f"({thread} - 32 * {warp})"}
    equations = [
        f"0 <= t < {parent.block_dim * parent.cluster_dim}",
        isl_cond(inverse.condition, names),
    ]
    if isinstance(stmt, ir.For):
        equations.append(f"{identifier(stmt.iterator)} = {isl_expr(inverse.value, names)}")
    inside = conjunction(equations)
    mine, theirs = f"{_executes(parent)} and {inside}", _executes(child)
    every = (*dims, "t")
    if not _same_conditions(len(every), numbered(every, mine), numbered(every, theirs)):
        what = f"cuda_threads over {stmt.iterator}" if isinstance(stmt, ir.For) else "CudaWarps"
        raise InternalError(
            f"{stmt.span.file}:{stmt.span.line}: the inverse thread map of {what} is wrong: "
            f"{mine} is not {theirs}"
        )


@lru_cache(maxsize=1024)
def _same_conditions(count: int, mine: str, theirs: str) -> bool:
    """Tests whether two conditions on `v0, v1, ...` are equal; cached, since every role of a launch
    asks."""
    dims = [f"v{at}" for at in range(count)]
    return isl.is_equal(isl.set_of((), dims, mine), isl.set_of((), dims, theirs))


def _executes(tiling: Tiling) -> str:
    return f"{tiling.domain_text()} and {tiling.threads_text('t')}"


# Divides a CTA into sets of threads, by the thread loops around a statement.


@dataclass(frozen=True, slots=True)
class Parts:
    """The sets of threads that execute a statement: one for each value of the thread iterators
    that divide the CTA, which `index` counts from 0."""

    index: ir.CExpr
    sets: tuple[tuple[int, ...], ...]
    firsts: tuple[int, ...]
    """The sum of the offsets at each value."""


def parts_of(tiling: Tiling) -> Parts:
    """The sets of threads of a CTA that execute a scope, by enumeration of the loops around it."""
    axes = block_axes(tiling)
    read = {name for axis in axes for name in control_variables(axis.offset)}
    ranges = [r for r in tiling.ranges if r.iterator in read]
    index: ir.CExpr = ir.Int(0)
    for r in ranges:
        index = plus(times(r.count, index), plus(ir.CVar(r.iterator), ir.Int(-r.lo)))
    first = first_thread(tiling)
    sets, firsts = [], []
    for values in product(*(range(r.lo, r.lo + r.count) for r in ranges)):
        env = dict(zip((r.iterator for r in ranges), values, strict=True))
        sets.append(threads_of(ThreadMap(axes), env))
        firsts.append(evaluate(first, env))
    return Parts(index, tuple(sets), tuple(firsts))


def first_thread(tiling: Tiling) -> ir.CExpr:
    """The first of the threads."""
    first: ir.CExpr = ir.Int(0)
    for axis in block_axes(tiling):
        first = plus(first, times(axis.pitch, axis.offset))
    return first
