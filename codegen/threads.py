"""Lowering of `cuda_threads` (paper, section "Code Generation"): `if (int y = f; g) { ... }`.

A thread mapping takes control values to threads; the device needs its inverse, the control value
of a thread.  The inverse is a witness: ISL checks every one against the mapping.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from exogpu.analysis.tiling import Dimension, DimOp, Tiling, position
from exogpu.codegen.errors import InternalError
from exogpu.codegen.expressions import plus
from exogpu.codegen.names import CTA, LANE, THREAD, WARP
from exogpu.ir.isltext import bexpr, cexpr, conjunction, identifier, numbered
from exogpu.ir.nodes import (
    Add,
    And,
    BExpr,
    CExpr,
    Compare,
    CVar,
    FloorDiv,
    For,
    Int,
    Mod,
    Sub,
    Truth,
    Warps,
)
from exogpu.solvers import isl


@dataclass(frozen=True, slots=True)
class Inverse:
    """`value` is f, `condition` is g: functions of THREAD, WARP, LANE, CTA and outer iterators."""

    value: CExpr
    condition: BExpr


def inverse_of_loop(stmt: For, parent: Tiling, child: Tiling) -> Inverse:
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
        inverse = Inverse(Int(mine.lo), Truth(mine.count > 0))
    else:
        ((pitch, dim),) = found
        op = dim.ops[-1]
        where = _relative(pitch, dim, child)
        if op.count == 1:
            inverse = Inverse(Int(mine.lo), _inside(where, dim, op))
        else:
            value = plus(_quotient(where, op.pitch), Int(mine.lo))
            inverse = Inverse(value, _below(CVar(stmt.iterator), mine.lo, dim, op))
    _check(stmt, parent, child, inverse)
    return inverse


def condition_of_warps(stmt: Warps, parent: Tiling, child: Tiling) -> BExpr:
    """g of a `CudaWarps` block: the thread is in one of its warps.

    Raises InternalError where ISL refutes it.
    """
    dim = child.dims[-1]
    where = _relative(1, dim, child)
    op = dim.ops[-1]
    condition: BExpr = Truth(True)
    if op.box < _box_before(dim):
        # Of the warp's number where it can be: ptxas takes a thread's for divergent.
        warps = _quotient(where, 32)
        first, last = op.offset // 32, (op.offset + op.box) // 32
        condition = Compare("<", warps, Int(last))
        if first:
            condition = And(Compare(">=", warps, Int(first)), condition)
    _check(stmt, parent, child, Inverse(Int(0), condition))
    return condition


def _quotient(where: CExpr, pitch: int) -> CExpr:
    if isinstance(where, Add) and isinstance(where.right, Int) and where.right.value % pitch == 0:
        return plus(_quotient(where.left, pitch), Int(where.right.value // pitch))
    if where == CVar(THREAD) and pitch % 32 == 0:
        where, pitch = CVar(WARP), pitch // 32
    return where if pitch == 1 else FloorDiv(where, pitch)


def _box_before(dim: Dimension) -> int:
    return dim.ops[-2].box if len(dim.ops) > 1 else dim.extent


def _relative(pitch: int, dim: Dimension, tiling: Tiling) -> CExpr:
    """The thread's position in the dimension, from where the last operator starts counting."""
    at = _coordinate(pitch, dim.extent, tiling)
    earlier = dim.ops[:-1]
    if not earlier:
        return at
    box = earlier[-1].box
    starts = [op.offset for op in earlier] + [op.pitch for op in earlier if op.count > 1]
    if all(start % box == 0 for start in starts):
        if box == 32 and at == CVar(THREAD):
            return CVar(LANE)
        return Int(0) if box == 1 else Mod(at, box)
    varying, constant = position(Dimension(dim.extent, earlier))
    rest = plus(at, Int(-constant))
    return rest if varying == Int(0) else Sub(rest, varying)


def _coordinate(pitch: int, extent: int, tiling: Tiling) -> CExpr:
    """The thread's coordinate in a dimension of the cluster's threads."""
    if pitch >= tiling.block_dim:
        return _digit(CVar(CTA), pitch // tiling.block_dim, extent, tiling.cluster_dim)
    if pitch % 32 == 0:
        return _digit(CVar(WARP), pitch // 32, extent, tiling.block_dim // 32)
    return _digit(CVar(THREAD), pitch, extent, tiling.block_dim)


def _digit(number: CExpr, pitch: int, extent: int, total: int) -> CExpr:
    high = number if pitch == 1 else FloorDiv(number, pitch)
    return high if pitch * extent == total else Mod(high, extent)


def _inside(where: CExpr, dim: Dimension, op: DimOp) -> BExpr:
    """The position lies in the operator's only tile."""
    if op.offset == 0 and op.box == _box_before(dim):
        return Truth(True)
    below = Compare("<", where, Int(op.offset + op.box))
    return And(Compare(">=", where, Int(op.offset)), below) if op.offset else below


def _below(iterator: CExpr, lo: int, dim: Dimension, op: DimOp) -> BExpr:
    """The iterator is in range: threads beyond the last tile idle."""
    assert op.offset == 0 and op.box == op.pitch, "loops derive adjacent tiles from the start"
    if op.count * op.pitch == _box_before(dim):
        return Truth(True)
    return Compare("<", iterator, Int(lo + op.count))


def _check(stmt: For | Warps, parent: Tiling, child: Tiling, inverse: Inverse) -> None:
    """The inverse and the thread mapping are the same relation on the parent's threads."""
    dims = [identifier(r.iterator) for r in child.ranges]
    cta = f"floor(t / {parent.block_dim})" if parent.cluster_dim > 1 else "0"
    thread = f"(t - {parent.block_dim} * {cta})" if parent.cluster_dim > 1 else "t"
    warp = f"floor({thread} / 32)"
    names = {CTA: cta, THREAD: thread, WARP: warp, LANE: f"({thread} - 32 * {warp})"}
    equations = [
        f"0 <= t < {parent.block_dim * parent.cluster_dim}",
        bexpr(inverse.condition, names),
    ]
    if isinstance(stmt, For):
        equations.append(f"{identifier(stmt.iterator)} = {cexpr(inverse.value, names)}")
    inside = conjunction(equations)
    mine, theirs = f"{_executes(parent)} and {inside}", _executes(child)
    every = (*dims, "t")
    if not _same_conditions(len(every), numbered(every, mine), numbered(every, theirs)):
        what = f"cuda_threads over {stmt.iterator}" if isinstance(stmt, For) else "CudaWarps"
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
