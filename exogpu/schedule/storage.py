"""Primitives that change where values are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from exogpu.analysis.inline import compose
from exogpu.hw.memories import DRAM, CudaRmem
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Block,
    Coord,
    CVar,
    DataParam,
    DeviceFunction,
    For,
    If,
    Int,
    Interval,
    Point,
    Proc,
    WindowStmt,
)
from exogpu.ir.types import DataMemory, SpecialWindow
from exogpu.schedule.control import (
    control_scope,
    minus,
    read_window,
    tidy_access,
)
from exogpu.schedule.primitive import Unfit, named, path_of, primitive
from exogpu.schedule.rewrite import (
    Path,
    Rename,
    Rewrite,
    around,
    begun,
    block_at,
    copied,
    splice,
    stmt_at,
)
from exogpu.schedule.scopes import names_in


def data_scope(proc: Proc, path: Path) -> dict[Sym, DataParam | Alloc]:
    """The data variables declared before a statement; the last of one name."""
    found: dict[Sym, DataParam | Alloc] = {
        p.name: p for p in proc.params if isinstance(p, DataParam)
    }
    for depth in range(1, len(path) + 1):
        block = block_at(proc, path[:depth])
        earlier = block[: path[depth - 1][1]]
        found |= {s.name: s for s in earlier if isinstance(s, Alloc)}
    return found


def default_memory(proc: Proc, path: Path) -> DataMemory:
    """Registers inside a kernel, DRAM outside."""
    inside = any(isinstance(stmt, DeviceFunction) for stmt in around(proc, path))
    return CudaRmem if inside else DRAM


def alloc_at(proc: Proc, path: Path) -> Alloc:
    """The allocation of a path.  Raises Unfit."""
    stmt = stmt_at(proc, path)
    if not isinstance(stmt, Alloc):
        raise Unfit("the cursor is at no allocation", stmt)
    return stmt


@primitive
def lift_alloc(proc: Proc, alloc: object, levels: int = 1) -> Iterator[Rewrite]:
    """Move an allocation before the statement around it.

    for i in seq(0, n):          t: f32 @ DRAM
        t: f32 @ DRAM      ->    for i in seq(0, n):
        t = x[i]                     t = x[i]
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    if not 0 < levels < len(path):
        raise Unfit(f"{levels} statements are not around the allocation", old)
    edit = begun(proc)
    splice(edit, path, 1, ())
    splice(edit, path[:-levels], 0, (old,))
    yield edit


@primitive
def autolift_alloc(
    proc: Proc,
    alloc: object,
    levels: int = 1,
    mode: Literal["row", "col"] = "row",
    keep_dims: bool = True,
) -> Iterator[Rewrite]:
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
    loops = [s for s in around(proc, path)[-levels:] if isinstance(s, For) and keep_dims]
    if mode == "col":
        loops.reverse()
    edit = begun(proc)
    shape = (*(minus(loop.hi, loop.lo) for loop in loops), *old.shape)
    at = tuple(Point(minus(CVar(loop.iterator), loop.lo)) for loop in loops)
    new = replace(old, shape=shape)
    edit.followed[new] = old

    def moved(access: Access) -> Access:
        return replace(access, coords=(*at, *access.coords)) if access.name == old.name else access

    rest_changed(edit, path, (), moved)
    splice(edit, path[:-levels], 0, (new,))
    yield edit


@primitive
def sink_alloc(proc: Proc, alloc: object) -> Iterator[Rewrite]:
    """Move an allocation into the one statement of its block that uses it.

    t: f32 @ DRAM                for i in seq(0, n):
    for i in seq(0, n):    ->        t: f32 @ DRAM
        t = x[i]                     t = x[i]
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    block, here = block_at(proc, path), path[-1][1]
    users = [
        at for at, stmt in enumerate(block[here + 1 :], here + 1) if old.name in names_in((stmt,))
    ]
    if len(users) != 1 or not isinstance(user := block[users[0]], For | If):
        raise Unfit("not exactly one loop or `if` of its block uses the allocation", old)
    if isinstance(user, If) and user.orelse:
        raise Unfit("the `if` that uses the allocation has an `else`", user)
    edit = begun(proc)
    inner = replace(user, body=(old, *user.body))
    edit.followed[inner] = user
    splice(edit, (*path[:-1], (path[-1][0], users[0])), 1, (inner,))
    splice(edit, path, 1, ())
    yield edit


@primitive
def delete_buffer(proc: Proc, alloc: object) -> Iterator[Rewrite]:
    """Remove a variable that nothing uses.

    t: f32[8] @ DRAM
    x[0] = 0            ->    x[0] = 0
    """
    path = path_of(proc, alloc)
    old = alloc_at(proc, path)
    if old.name in names_in(proc.body):
        raise Unfit(f"{old.name.name} is used", old)
    edit = begun(proc)
    splice(edit, path, 1, ())
    yield edit


@primitive
def reuse_buffer(proc: Proc, kept: object, alloc: object) -> Iterator[Rewrite]:
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
    edit = begun(proc)

    def moved(access: Access) -> Access:
        return replace(access, name=first.name) if access.name == old.name else access

    rest_changed(edit, path, (), moved)
    yield edit


def rest_changed(edit: Rewrite, path: Path, new: Block, moved: Rename) -> None:
    """Put `new` in the place of an allocation, and change the accesses after it."""
    block, here = block_at(edit.old, path), path[-1][1]
    rest = copied(edit, block[here + 1 :], {}, fresh=False, access=moved)
    splice(edit, path, len(block) - here, (*new, *rest))


@primitive
def inline_window(proc: Proc, window: object) -> Iterator[Rewrite]:
    """Write the variable where its window is used.

    w = x[4:8]
    y[0] = w[1]    ->    y[0] = x[5]
    """
    path = path_of(proc, window)
    old = stmt_at(proc, path)
    if not isinstance(old, WindowStmt) or old.special is not None:
        raise Unfit("the cursor is at no plain window", old)
    edit = begun(proc)

    def moved(access: Access) -> Access:
        if access.name != old.name:
            return access
        coords = compose(old.source.coords, access.coords)
        return tidy_access(replace(access, name=old.source.name, coords=coords))

    rest_changed(edit, path, (), moved)
    yield edit


@primitive
def bind_window(
    proc: Proc, stmt: object, window: str, name: str, special: SpecialWindow | None = None
) -> Iterator[Rewrite]:
    """Give a name to a window of a variable, and use it from a statement on.

    y[0] = x[5]    ->    w = x[4:8]
                         y[0] = w[1]

    `special` makes it a tensor map. Accesses at other points than those of the window stay.
    """
    path = path_of(proc, stmt)
    old = stmt_at(proc, path)
    known = data_scope(proc, path)
    whole = read_window(window, control_scope(proc, path), {s.name: s for s in known})
    declared = known[whole.name]
    if len(declared.shape) != len(whole.coords):
        raise Unfit(f"{whole.name.name} has {len(declared.shape)} dimensions", old)
    edit = begun(proc)
    alias = named(name)

    def moved(access: Access) -> Access:
        if access.name != whole.name:
            return access
        coords: list[Coord] = []
        for outer, inner in zip(whole.coords, access.coords, strict=True):
            match outer, inner:
                case Interval(), Point():
                    coords.append(Point(minus(inner.at, outer.lo)))
                case Interval(), Interval():
                    low, high = minus(inner.lo, outer.lo), minus(inner.hi, outer.lo)
                    coords.append(Interval(low, high))
                case Point(), Point() if minus(outer.at, inner.at) == Int(0):
                    pass
                case _:
                    return access
        return replace(access, name=alias, coords=tuple(coords))

    block, here = block_at(proc, path), path[-1][1]
    rest = copied(edit, block[here:], {}, fresh=False, access=moved)
    new = WindowStmt(alias, whole, special, span=old.span)
    splice(edit, path, len(block) - here, (new, *rest))
    yield edit
