"""Primitives that change where values are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.analysis.inline import compose
from exogpu.hw.memories import DRAM, CudaRmem
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Assign,
    Block,
    CExpr,
    Coord,
    DataParam,
    DeviceFunction,
    DExpr,
    FloorDiv,
    For,
    If,
    Int,
    Interval,
    Mod,
    Mul,
    Point,
    Proc,
    Read,
    Reduce,
    WindowStmt,
)
from exogpu.ir.types import DataMemory
from exogpu.schedule.control import (
    constant,
    control_scope,
    minus,
    plus,
    ranges_of,
    read_control,
    read_window,
    tidy,
    tidy_access,
)
from exogpu.schedule.primitive import Unfit, named, path_of, primitive
from exogpu.schedule.rewrite import (
    Copy,
    Path,
    Rename,
    Rewrite,
    around,
    begun,
    block_at,
    copied,
    map_reads,
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


@primitive
def bind_expr(
    proc: Proc, stmt: object, expression: str, name: str, memory: DataMemory | None = None
) -> Iterator[Rewrite]:
    """Keep an element that a statement reads in a scalar of its own.

        y[i] = x[i] * x[i]          t: f32 @ DRAM
                              ->    t = x[i]
                                    y[i] = t * t

    `expression` is the element, as it is written: `x[i]`.
    """
    path = path_of(proc, stmt)
    old = stmt_at(proc, path)
    if not isinstance(old, Assign | Reduce):
        raise Unfit("the statement is no assignment", old)
    known = data_scope(proc, path)
    wanted = tidy_access(
        read_window(expression, control_scope(proc, path), {s.name: s for s in known})
    )
    scalar = named(name)
    edit = begun(proc)

    def change(read: Read) -> DExpr:
        if tidy_access(read.access) != wanted:
            return read
        return Read(Access(scalar, (), read.span), read.span)

    new = replace(old, value=map_reads(old.value, change))
    if new.value == old.value:
        raise Unfit(f"the statement does not read {expression}", old)
    edit.becomes(old, new)
    chosen = default_memory(proc, path) if memory is None else memory
    alloc = Alloc(scalar, known[wanted.name].dtype, (), chosen, span=old.span)
    bound = Assign(Access(scalar, ()), Read(wanted), span=old.span)
    edit.origins[bound] = Copy(wanted)
    splice(edit, path, 1, (alloc, bound, new))
    yield edit


def _alloc_at(proc: Proc, path: Path) -> Alloc:
    stmt = stmt_at(proc, path)
    if not isinstance(stmt, Alloc):
        raise Unfit("the cursor is at no allocation", stmt)
    return stmt


@primitive
def expand_dim(proc: Proc, alloc: object, extent: str | int, index: str) -> Iterator[Rewrite]:
    """Give a variable one more dimension, in front, and use one index of it.

        for i in seq(0, n):          for i in seq(0, n):
            t: f32 @ DRAM                t: f32[n] @ DRAM
            t = x[i]           ->        t[i] = x[i]
            y[i] = t                     y[i] = t[i]

    `index` names variables known at the allocation.
    """
    path = path_of(proc, alloc)
    old = _alloc_at(proc, path)
    known = control_scope(proc, path)
    size, at = read_control(extent, known), read_control(index, known)
    edit = begun(proc)
    new = replace(old, shape=(size, *old.shape))
    edit.followed[new] = old

    def moved(access: Access) -> Access:
        if access.name != old.name:
            return access
        return replace(access, coords=(Point(at), *access.coords))

    _rest_changed(edit, path, (new,), moved)
    yield edit


@primitive
def resize_dim(
    proc: Proc,
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
    old = _alloc_at(proc, path)
    if not 0 <= dimension < len(old.shape):
        raise Unfit(f"{old.name.name} has no dimension {dimension}", old)
    known = control_scope(proc, path)
    size, start = read_control(extent, known), read_control(offset, known)
    edit = begun(proc)
    shape = (*old.shape[:dimension], size, *old.shape[dimension + 1 :])
    new = replace(old, shape=shape)
    edit.followed[new] = old

    def moved(access: Access) -> Access:
        if access.name != old.name:
            return access
        coords = list(access.coords)
        moved_by = _shifted(coords[dimension], start)
        coords[dimension] = _folded(moved_by, size, old) if fold else moved_by
        return replace(access, coords=tuple(coords))

    _rest_changed(edit, path, (new,), moved)
    yield edit


def _shifted(coord: Coord, start: CExpr) -> Coord:
    if isinstance(coord, Point):
        return Point(minus(coord.at, start))
    return Interval(minus(coord.lo, start), minus(coord.hi, start))


def _folded(coord: Coord, size: CExpr, alloc: Alloc) -> Coord:
    count = constant(size)
    if count is None or count < 1:
        raise Unfit("the extent to fold to is no constant", alloc)
    if isinstance(coord, Interval):
        raise Unfit(f"a window of {alloc.name.name} has the dimension that is folded", alloc)
    return Point(tidy(Mod(coord.at, count)))


@primitive
def divide_dim(proc: Proc, alloc: object, dimension: int, factor: int) -> Iterator[Rewrite]:
    """Make two dimensions of one: the block of `factor` elements, and the element in the block.

    t: f32[n] @ DRAM          t: f32[(n + 3) / 4, 4] @ DRAM
    t[i] = x[i]         ->    t[i / 4, i % 4] = x[i]
    """
    path = path_of(proc, alloc)
    old = _alloc_at(proc, path)
    if not 0 <= dimension < len(old.shape):
        raise Unfit(f"{old.name.name} has no dimension {dimension}", old)
    if not isinstance(factor, int) or factor < 1:
        raise Unfit(f"the factor {factor} is no positive number", old)
    edit = begun(proc)
    outer = tidy(FloorDiv(plus(old.shape[dimension], Int(factor - 1)), factor))
    shape = (*old.shape[:dimension], outer, Int(factor), *old.shape[dimension + 1 :])
    new = replace(old, shape=shape)
    edit.followed[new] = old
    ranges = ranges_of(proc)

    def moved(access: Access) -> Access:
        if access.name != old.name:
            return access
        coord = access.coords[dimension]
        if isinstance(coord, Interval):
            raise Unfit(f"a window of {old.name.name} has the dimension that is divided", old)
        parts = (FloorDiv(coord.at, factor), Mod(coord.at, factor))
        points = (Point(tidy(part, ranges)) for part in parts)
        coords = (*access.coords[:dimension], *points, *access.coords[dimension + 1 :])
        return replace(access, coords=coords)

    _rest_changed(edit, path, (new,), moved)
    yield edit


@primitive
def mult_dim(proc: Proc, alloc: object, dimension: int) -> Iterator[Rewrite]:
    """Make one dimension of one and the next, whose extent is constant.

    t: f32[n, 4] @ DRAM          t: f32[4 * n] @ DRAM
    t[i, j] = x[i, j]      ->    t[4 * i + j] = x[i, j]
    """
    path = path_of(proc, alloc)
    old = _alloc_at(proc, path)
    if not 0 <= dimension < len(old.shape) - 1:
        raise Unfit(f"{old.name.name} has no two dimensions from {dimension} on", old)
    factor = constant(old.shape[dimension + 1])
    if factor is None:
        raise Unfit(f"the extent of dimension {dimension + 1} is not constant", old)
    edit = begun(proc)
    whole = tidy(Mul(factor, old.shape[dimension]))
    new = replace(old, shape=(*old.shape[:dimension], whole, *old.shape[dimension + 2 :]))
    edit.followed[new] = old

    def moved(access: Access) -> Access:
        if access.name != old.name:
            return access
        outer, inner = access.coords[dimension : dimension + 2]
        if not isinstance(outer, Point):
            raise Unfit(f"a window of {old.name.name} has both dimensions", old)
        start = Mul(factor, outer.at)
        both = (
            Point(plus(start, inner.at))
            if isinstance(inner, Point)
            else Interval(plus(start, inner.lo), plus(start, inner.hi))
        )
        coords = (*access.coords[:dimension], both, *access.coords[dimension + 2 :])
        return replace(access, coords=coords)

    _rest_changed(edit, path, (new,), moved)
    yield edit


@primitive
def lift_alloc(proc: Proc, alloc: object, levels: int = 1) -> Iterator[Rewrite]:
    """Move an allocation before the statement around it.

    for i in seq(0, n):          t: f32 @ DRAM
        t: f32 @ DRAM      ->    for i in seq(0, n):
        t = x[i]                     t = x[i]
    """
    path = path_of(proc, alloc)
    old = _alloc_at(proc, path)
    if not 0 < levels < len(path):
        raise Unfit(f"{levels} statements are not around the allocation", old)
    edit = begun(proc)
    splice(edit, path, 1, ())
    splice(edit, path[:-levels], 0, (old,))
    yield edit


@primitive
def sink_alloc(proc: Proc, alloc: object) -> Iterator[Rewrite]:
    """Move an allocation into the one statement of its block that uses it.

    t: f32 @ DRAM                for i in seq(0, n):
    for i in seq(0, n):    ->        t: f32 @ DRAM
        t = x[i]                     t = x[i]
    """
    path = path_of(proc, alloc)
    old = _alloc_at(proc, path)
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
def rearrange_dim(
    proc: Proc, alloc: object, order: tuple[int, ...] | list[int]
) -> Iterator[Rewrite]:
    """Exchange dimensions of a variable: the new n-th one is the old one of number `order[n]`.

    t: f32[8, 4] @ DRAM          t: f32[4, 8] @ DRAM
    t[i, j] = x[i, j]      ->    t[j, i] = x[i, j]
    """
    path = path_of(proc, alloc)
    old = _alloc_at(proc, path)
    if sorted(order) != list(range(len(old.shape))):
        raise Unfit(f"{list(order)} is no order of the {len(old.shape)} dimensions", old)
    edit = begun(proc)
    new = replace(old, shape=tuple(old.shape[n] for n in order))
    edit.followed[new] = old

    def moved(access: Access) -> Access:
        if access.name != old.name:
            return access
        if any(isinstance(c, Interval) for c in access.coords):
            raise Unfit(f"a window of {old.name.name} is used", old)
        return replace(access, coords=tuple(access.coords[n] for n in order))

    _rest_changed(edit, path, (new,), moved)
    yield edit


@primitive
def delete_buffer(proc: Proc, alloc: object) -> Iterator[Rewrite]:
    """Remove a variable that nothing uses.

    t: f32[8] @ DRAM
    x[0] = 0            ->    x[0] = 0
    """
    path = path_of(proc, alloc)
    old = _alloc_at(proc, path)
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
    first = _alloc_at(proc, path_of(proc, kept))
    path = path_of(proc, alloc)
    old = _alloc_at(proc, path)
    if (first.dtype, first.shape) != (old.dtype, old.shape):
        raise Unfit(f"{first.name.name} and {old.name.name} differ in type or shape", old)
    edit = begun(proc)

    def moved(access: Access) -> Access:
        return replace(access, name=first.name) if access.name == old.name else access

    _rest_changed(edit, path, (), moved)
    yield edit


def _rest_changed(edit: Rewrite, path: Path, new: Block, moved: Rename) -> None:
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

    _rest_changed(edit, path, (), moved)
    yield edit
