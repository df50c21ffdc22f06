"""Primitives that change the dimensions of variables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.frontend.limits import STATEMENTS
from exogpu.ir import nodes as ir
from exogpu.schedule import index_text
from exogpu.schedule.primitive import Unfit, new_variable, path_of, primitive
from exogpu.schedule.primitives.storage import alloc_at, rest_changed
from exogpu.schedule.rewrite import Rewrite, unchanged_rewrite


@primitive
def expand_dim(proc: ir.Proc, alloc: object, extent: str | int, index: str) -> Iterator[Rewrite]:
    """Give a variable one more dimension, in front, and use one index of it.

        for i in seq(0, n):          for i in seq(0, n):
            t: f32 @ DRAM                t: f32[n] @ DRAM
            t = x[i]           ->        t[i] = x[i]
            y[i] = t                     y[i] = t[i]

    `index` names variables known at the allocation.
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    known = index_text.control_scope(proc, path)
    size, at = index_text.read_control(extent, known), index_text.read_control(index, known)
    edit = unchanged_rewrite(proc)
    new = replace(old, shape=(size, *old.shape))
    edit.followed[new] = old

    def move_access(access: ir.Access) -> ir.Access:
        if access.name != old.name:
            return access
        return replace(access, coords=(ir.Point(at), *access.coords))

    rest_changed(edit, path, (new,), move_access)
    yield edit


@primitive
def resize_dim(
    proc: ir.Proc,
    alloc: object,
    dimension: int,
    extent: str | int,
    offset: str | int = 0,
    fold: bool = False,
) -> Iterator[Rewrite]:
    """Give a dimension of a variable another extent, and keep its elements from `offset` on.

    t: f32[8] @ DRAM          t: f32[4] @ DRAM
    t[i + 2] = 0        ->    t[i] = 0

    With `fold`, element n is kept in place n modulo the extent: few are in use at a time.
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    if not 0 <= dimension < len(old.shape):
        raise Unfit(f"{old.name.name} has no dimension {dimension}", old)
    known = index_text.control_scope(proc, path)
    size, start = index_text.read_control(extent, known), index_text.read_control(offset, known)
    edit = unchanged_rewrite(proc)
    shape = (*old.shape[:dimension], size, *old.shape[dimension + 1 :])
    new = replace(old, shape=shape)
    edit.followed[new] = old

    def resize_access(access: ir.Access) -> ir.Access:
        if access.name != old.name:
            return access
        coords = list(access.coords)
        moved_by = _shifted(coords[dimension], start)
        coords[dimension] = _fold_index(moved_by, size, old) if fold else moved_by
        return replace(access, coords=tuple(coords))

    rest_changed(edit, path, (new,), resize_access)
    yield edit


def _shifted(coord: ir.Coord, start: ir.CExpr) -> ir.Coord:
    if isinstance(coord, ir.Point):
        return ir.Point(index_text.minus(coord.at, start))
    return ir.Interval(index_text.minus(coord.lo, start), index_text.minus(coord.hi, start))


def _fold_index(coord: ir.Coord, size: ir.CExpr, alloc: ir.Alloc) -> ir.Coord:
    count = index_text.constant(size)
    if count is None or count < 1:
        raise Unfit("the extent to fold to is no constant of at least 1", alloc)
    if isinstance(coord, ir.Interval):
        raise Unfit(f"a window of {alloc.name.name} has the dimension that is folded", alloc)
    return ir.Point(index_text.tidy(ir.Mod(coord.at, count)))


@primitive
def divide_dim(proc: ir.Proc, alloc: object, dimension: int, factor: int) -> Iterator[Rewrite]:
    """Make two dimensions of one: the block of `factor` elements, and the element in the block.

    t: f32[n] @ DRAM          t: f32[(n + 3) / 4, 4] @ DRAM
    t[i] = x[i]         ->    t[i / 4, i % 4] = x[i]
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    if not 0 <= dimension < len(old.shape):
        raise Unfit(f"{old.name.name} has no dimension {dimension}", old)
    if not isinstance(factor, int) or factor < 1:
        raise Unfit(f"the factor {factor} is no positive number", old, "give 1 or more")
    edit = unchanged_rewrite(proc)
    outer = index_text.tidy(
        ir.FloorDiv(index_text.plus(old.shape[dimension], ir.Int(factor - 1)), factor)
    )
    shape = (*old.shape[:dimension], outer, ir.Int(factor), *old.shape[dimension + 1 :])
    new = replace(old, shape=shape)
    edit.followed[new] = old
    ranges = index_text.ranges_of(proc)

    def divide_access(access: ir.Access) -> ir.Access:
        if access.name != old.name:
            return access
        coord = access.coords[dimension]
        if isinstance(coord, ir.Interval):
            raise Unfit(f"a window of {old.name.name} has the dimension that is divided", old)
        parts = (ir.FloorDiv(coord.at, factor), ir.Mod(coord.at, factor))
        points = (ir.Point(index_text.tidy(part, ranges)) for part in parts)
        coords = (*access.coords[:dimension], *points, *access.coords[dimension + 1 :])
        return replace(access, coords=coords)

    rest_changed(edit, path, (new,), divide_access)
    yield edit


@primitive
def mult_dim(proc: ir.Proc, alloc: object, dimension: int) -> Iterator[Rewrite]:
    """Make one dimension of one and the next, whose extent is constant.

    t: f32[n, 4] @ DRAM          t: f32[4 * n] @ DRAM
    t[i, j] = x[i, j]      ->    t[4 * i + j] = x[i, j]
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    if not 0 <= dimension < len(old.shape) - 1:
        raise Unfit(f"{old.name.name} has no two dimensions from {dimension} on", old)
    factor = index_text.constant(old.shape[dimension + 1])
    if factor is None:
        raise Unfit(f"the extent of dimension {dimension + 1} is not constant", old)
    edit = unchanged_rewrite(proc)
    whole = index_text.tidy(ir.Mul(factor, old.shape[dimension]))
    new = replace(old, shape=(*old.shape[:dimension], whole, *old.shape[dimension + 2 :]))
    edit.followed[new] = old

    def merge_access(access: ir.Access) -> ir.Access:
        if access.name != old.name:
            return access
        outer, inner = access.coords[dimension : dimension + 2]
        if not isinstance(outer, ir.Point):
            raise Unfit(f"a window of {old.name.name} has both dimensions", old)
        start = ir.Mul(factor, outer.at)
        both = (
            ir.Point(index_text.plus(start, inner.at))
            if isinstance(inner, ir.Point)
            else ir.Interval(index_text.plus(start, inner.lo), index_text.plus(start, inner.hi))
        )
        coords = (*access.coords[:dimension], both, *access.coords[dimension + 2 :])
        return replace(access, coords=coords)

    rest_changed(edit, path, (new,), merge_access)
    yield edit


@primitive
def rearrange_dim(
    proc: ir.Proc, alloc: object, order: tuple[int, ...] | list[int]
) -> Iterator[Rewrite]:
    """Exchange dimensions of a variable: the new n-th one is the old one of number `order[n]`.

    t: f32[8, 4] @ DRAM          t: f32[4, 8] @ DRAM
    t[i, j] = x[i, j]      ->    t[j, i] = x[i, j]
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    if sorted(order) != list(range(len(old.shape))):
        raise Unfit(f"{list(order)} is no order of the {len(old.shape)} dimensions", old)
    edit = unchanged_rewrite(proc)
    new = replace(old, shape=tuple(old.shape[n] for n in order))
    edit.followed[new] = old

    def rearrange_access(access: ir.Access) -> ir.Access:
        if access.name != old.name:
            return access
        if any(isinstance(c, ir.Interval) for c in access.coords):
            raise Unfit(f"a window of {old.name.name} is used", old)
        return replace(access, coords=tuple(access.coords[n] for n in order))

    rest_changed(edit, path, (new,), rearrange_access)
    yield edit


@primitive
def unroll_buffer(proc: ir.Proc, alloc: object, dimension: int) -> Iterator[Rewrite]:
    """Make a variable of each index of a dimension of constant extent.

    t: f32[2, n] @ DRAM          t_0: f32[n] @ DRAM
    t[1, i] = x[i]         ->    t_1: f32[n] @ DRAM
                                 t_1[i] = x[i]
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    if not 0 <= dimension < len(old.shape):
        raise Unfit(f"{old.name.name} has no dimension {dimension}", old)
    count = index_text.constant(old.shape[dimension])
    if count is None or count < 1:
        raise Unfit(f"the extent of dimension {dimension} is no constant of at least 1", old)
    if count > STATEMENTS:
        raise Unfit(f"it would be {count:,} variables, more than {STATEMENTS:,}", old)
    edit = unchanged_rewrite(proc)
    shape = (*old.shape[:dimension], *old.shape[dimension + 1 :])
    made = tuple(
        replace(old, name=new_variable(f"{old.name.name}_{n}"), shape=shape) for n in range(count)
    )
    edit.followed[made[0]] = old

    def unroll_access(access: ir.Access) -> ir.Access:
        if access.name != old.name:
            return access
        coord = access.coords[dimension]
        at = index_text.constant(coord.at) if isinstance(coord, ir.Point) else None
        if at is None or not 0 <= at < count:
            remedy = "unroll the loops around its accesses first"
            raise Unfit(f"an index of {old.name.name} is not constant", old, remedy)
        coords = (*access.coords[:dimension], *access.coords[dimension + 1 :])
        return replace(access, name=made[at].name, coords=coords)

    rest_changed(edit, path, made, unroll_access)
    yield edit
