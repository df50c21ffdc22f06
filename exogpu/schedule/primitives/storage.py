"""Primitives that change where values are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from exogpu.analysis.inline import compose
from exogpu.hw.memories import DRAM, CudaRmem
from exogpu.ir import nodes as ir
from exogpu.ir.types import DataMemory, SpecialWindow, Sym
from exogpu.schedule import rewrite
from exogpu.schedule.index_text import control_scope, minus, read_window, tidy_access
from exogpu.schedule.primitive import Unfit, new_variable, path_of, primitive
from exogpu.schedule.reparse import names_in


def data_scope(proc: ir.Proc, path: rewrite.Path) -> dict[Sym, ir.DataParam | ir.Alloc]:
    """The data variables declared before a statement; the last of one name."""
    found: dict[Sym, ir.DataParam | ir.Alloc] = {
        p.name: p for p in proc.params if isinstance(p, ir.DataParam)
    }
    for depth in range(1, len(path) + 1):
        block = rewrite.block_at(proc, path[:depth])
        earlier = block[: path[depth - 1][1]]
        found |= {s.name: s for s in earlier if isinstance(s, ir.Alloc)}
    return found


def default_memory(proc: ir.Proc, path: rewrite.Path) -> DataMemory:
    """Registers inside a kernel, DRAM outside."""
    inside = any(
        isinstance(stmt, ir.DeviceFunction) for stmt in rewrite.enclosing_statements(proc, path)
    )
    return CudaRmem if inside else DRAM


def alloc_at(proc: ir.Proc, path: rewrite.Path) -> ir.Alloc:
    """The allocation of a path.  Raises Unfit."""
    stmt = rewrite.stmt_at(proc, path)
    if not isinstance(stmt, ir.Alloc):
        raise Unfit("the cursor is at no allocation", stmt)
    return stmt


@primitive
def lift_alloc(proc: ir.Proc, alloc: object, levels: int = 1) -> Iterator[rewrite.Rewrite]:
    """Move an allocation before the statement around it.

    for i in seq(0, n):          t: f32 @ DRAM
        t: f32 @ DRAM      ->    for i in seq(0, n):
        t = x[i]                     t = x[i]
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    if not 0 < levels < len(path):
        raise Unfit(f"{levels} statements are not around the allocation", old)
    edit = rewrite.unchanged_rewrite(proc)
    rewrite.splice(edit, path, 1, ())
    rewrite.splice(edit, path[:-levels], 0, (old,))
    yield edit


@primitive
def autolift_alloc(
    proc: ir.Proc,
    alloc: object,
    levels: int = 1,
    mode: Literal["row", "col"] = "row",
    keep_dims: bool = True,
) -> Iterator[rewrite.Rewrite]:
    """Move an allocation before the statements around it, with an element of its own for each
    iteration of the loops.

        for i in seq(0, n):          t: f32[n] @ DRAM
            t: f32 @ DRAM      ->    for i in seq(0, n):
            t = x[i]                     t[i] = x[i]

    The outermost loop is the first dimension in mode "row", the last of the new ones in mode
    "col".  Without `keep_dims` it is the same as `lift_alloc`.
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    if not 0 < levels < len(path):
        raise Unfit(f"{levels} statements are not around the allocation", old)
    if mode not in ("row", "col"):
        raise Unfit(f'a mode is "row" or "col", not {mode!r}', old)
    loops = [
        s
        for s in rewrite.enclosing_statements(proc, path)[-levels:]
        if isinstance(s, ir.For) and keep_dims
    ]
    if mode == "col":
        loops.reverse()
    edit = rewrite.unchanged_rewrite(proc)
    shape = (*(minus(loop.hi, loop.lo) for loop in loops), *old.shape)
    at = tuple(ir.Point(minus(ir.CVar(loop.iterator), loop.lo)) for loop in loops)
    new = replace(old, shape=shape)
    edit.followed[new] = old

    def lift_access(access: ir.Access) -> ir.Access:
        return replace(access, coords=(*at, *access.coords)) if access.name == old.name else access

    rest_changed(edit, path, (), lift_access)
    rewrite.splice(edit, path[:-levels], 0, (new,))
    yield edit


@primitive
def sink_alloc(proc: ir.Proc, alloc: object) -> Iterator[rewrite.Rewrite]:
    """Move an allocation into the one statement of its block that uses it.

    t: f32 @ DRAM                for i in seq(0, n):
    for i in seq(0, n):    ->        t: f32 @ DRAM
        t = x[i]                     t = x[i]
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    block, here = rewrite.block_at(proc, path), path[-1][1]
    users = [
        at for at, stmt in enumerate(block[here + 1 :], here + 1) if old.name in names_in((stmt,))
    ]
    if len(users) != 1 or not isinstance(user := block[users[0]], ir.For | ir.If):
        raise Unfit("not exactly one loop or `if` of its block uses the allocation", old)
    if isinstance(user, ir.If) and user.orelse:
        raise Unfit("the `if` that uses the allocation has an `else`", user)
    edit = rewrite.unchanged_rewrite(proc)
    inner = replace(user, body=(old, *user.body))
    edit.followed[inner] = user
    rewrite.splice(edit, (*path[:-1], (path[-1][0], users[0])), 1, (inner,))
    rewrite.splice(edit, path, 1, ())
    yield edit


@primitive
def delete_buffer(proc: ir.Proc, alloc: object) -> Iterator[rewrite.Rewrite]:
    """Remove a variable that nothing uses.

    t: f32[8] @ DRAM
    x[0] = 0            ->    x[0] = 0
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    if old.name in names_in(proc.body):
        raise Unfit(f"{old.name.name} is used", old)
    edit = rewrite.unchanged_rewrite(proc)
    rewrite.splice(edit, path, 1, ())
    yield edit


@primitive
def reuse_buffer(proc: ir.Proc, kept: object, alloc: object) -> Iterator[rewrite.Rewrite]:
    """Let one variable take the place of a later one of the same shape.

    t: f32 @ DRAM             t: f32 @ DRAM
    t = x[0]                  t = x[0]
    y[0] = t            ->    y[0] = t
    u: f32 @ DRAM             t = x[1]
    u = x[1]                  y[1] = t
    y[1] = u
    """
    first = alloc_at(proc, path_of(proc, kept))
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    if (first.dtype, first.shape) != (old.dtype, old.shape):
        raise Unfit(f"{first.name.name} and {old.name.name} differ in type or shape", old)
    edit = rewrite.unchanged_rewrite(proc)

    def rename_access(access: ir.Access) -> ir.Access:
        return replace(access, name=first.name) if access.name == old.name else access

    rest_changed(edit, path, (), rename_access)
    yield edit


def rest_changed(
    edit: rewrite.Rewrite, path: rewrite.Path, new: ir.Block, moved: rewrite.Rename
) -> None:
    """Put `new` in the place of an allocation, and change the accesses after it."""
    block, here = rewrite.block_at(edit.old, path), path[-1][1]
    rest = rewrite.copied(edit, block[here + 1 :], {}, fresh=False, access=moved)
    rewrite.splice(edit, path, len(block) - here, (*new, *rest))


@primitive
def inline_window(proc: ir.Proc, window: object) -> Iterator[rewrite.Rewrite]:
    """Write the variable where its window is used.

    w = x[4:8]
    y[0] = w[1]    ->    y[0] = x[5]
    """
    path = path_of(proc, window)
    old = rewrite.stmt_at(proc, path)
    if not isinstance(old, ir.WindowStmt) or old.special is not None:
        raise Unfit("the cursor is at no plain window", old)
    edit = rewrite.unchanged_rewrite(proc)

    def inline_access(access: ir.Access) -> ir.Access:
        if access.name != old.name:
            return access
        coords = compose(old.source.coords, access.coords)
        return tidy_access(replace(access, name=old.source.name, coords=coords))

    rest_changed(edit, path, (), inline_access)
    yield edit


@primitive
def bind_window(
    proc: ir.Proc, stmt: object, window: str, name: str, special: SpecialWindow | None = None
) -> Iterator[rewrite.Rewrite]:
    """Give a name to a window of a variable, and use it from a statement on.

    y[0] = x[5]    ->    w = x[4:8]
                         y[0] = w[1]

    `special` makes it a tensor map. Accesses at other points than those of the window stay.
    """
    path = path_of(proc, stmt)
    old = rewrite.stmt_at(proc, path)
    known = data_scope(proc, path)
    whole = read_window(window, control_scope(proc, path), {s.name: s for s in known})
    declared = known[whole.name]
    if len(declared.shape) != len(whole.coords):
        raise Unfit(f"{whole.name.name} has {len(declared.shape)} dimensions", old)
    edit = rewrite.unchanged_rewrite(proc)
    alias = new_variable(name)

    def window_access(access: ir.Access) -> ir.Access:
        if access.name != whole.name:
            return access
        coords: list[ir.Coord] = []
        for outer, inner in zip(whole.coords, access.coords, strict=True):
            match outer, inner:
                case ir.Interval(), ir.Point():
                    coords.append(ir.Point(minus(inner.at, outer.lo)))
                case ir.Interval(), ir.Interval():
                    low, high = minus(inner.lo, outer.lo), minus(inner.hi, outer.lo)
                    coords.append(ir.Interval(low, high))
                case ir.Point(), ir.Point() if minus(outer.at, inner.at) == ir.Int(0):
                    pass
                case _:
                    return access
        return replace(access, name=alias, coords=tuple(coords))

    block, here = rewrite.block_at(proc, path), path[-1][1]
    rest = rewrite.copied(edit, block[here:], {}, fresh=False, access=window_access)
    new = ir.WindowStmt(alias, whole, special, span=old.span)
    rewrite.splice(edit, path, len(block) - here, (new, *rest))
    yield edit
