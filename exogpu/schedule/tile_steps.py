"""Higher steps for tiles: divide loops, bring the outer ones outwards, sum up in a tile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from exogpu.diagnostics.errors import Diagnostic, ExoGpuError
from exogpu.ir import nodes, render
from exogpu.ir.types import BarrierMechanism, Sym, SyncTL
from exogpu.ir.walk import walk
from exogpu.schedule.cursors import Cursor, find
from exogpu.schedule.derivations import P
from exogpu.schedule.higher_steps import higher
from exogpu.schedule.index_text import minus, plus
from exogpu.schedule.primitive import followed
from exogpu.schedule.primitives.barriers import (
    Over,
    insert_arrive,
    insert_await,
    insert_barrier_alloc,
    set_trailing_barrier_expr,
)
from exogpu.schedule.primitives.contexts import CudaWarps, wrap_with_context
from exogpu.schedule.primitives.dimensions import expand_dim, resize_dim
from exogpu.schedule.primitives.fission import fission
from exogpu.schedule.primitives.loops import (
    divide_loop,
    extend_loop,
    fuse,
    reorder_loops,
    shift_loop,
)
from exogpu.schedule.primitives.staging import stage_mem, stage_sum
from exogpu.schedule.primitives.statement_moves import lift_scope, remove_if
from exogpu.schedule.primitives.storage import lift_alloc
from exogpu.schedule.rewrite import paths

Pair = tuple[str, str] | list[str]
Tail = Literal["perfect", "guard"]


def forwarded_cursor(p: P, where: str | Cursor[P]) -> Cursor[P]:
    """The statement of this procedure that is meant."""
    return find(p, where) if isinstance(where, str) else followed(p, where)


def statements_inside(cursor: Cursor[P], kind: type) -> Iterator[Cursor[P]]:
    """The statements of a kind inside a statement, in program order."""
    ir = cursor.procedure.ir
    assert ir is not None
    depth = len(cursor.path)
    for path, stmt in paths(ir):
        if path[:depth] == cursor.path and len(path) > depth and isinstance(stmt, kind):
            yield Cursor(cursor.procedure, path)


def enclosing_cursors(cursor: Cursor[P], outermost: Cursor[P]) -> list[Cursor[P]]:
    """The statements around one, the innermost first, the last of them `outermost`."""
    count = len(outermost.path)
    if cursor.path[:count] != outermost.path or len(cursor.path) == count:
        message = f"`{outermost}` is not around `{cursor}`"
        help_ = "give a statement that contains it"
        raise ExoGpuError([Diagnostic("X990", message, cursor.stmt.span, help_)])
    found = [cursor.parent()]
    while len(found[-1].path) > count:
        found.append(found[-1].parent())
    return found


def unfit(step: str, why: str, cursor: Cursor[P]) -> ExoGpuError:
    """Makes the error that a higher step does not apply to a statement."""
    remedy = "choose another statement, or bring this one into that form first"
    return ExoGpuError([Diagnostic("X991", f"{step}: {why}", cursor.stmt.span, remedy)])


@higher
def tile(
    p: P,
    rows: str | Cursor[P],
    factors: tuple[int, int],
    outer: Pair,
    inner: Pair,
    tail: Tail = "guard",
) -> P:
    """Divide two loops, of which the second is all there is in the first, into tiles.

    for i in seq(0, m):          for io in seq(0, (m + 7) / 8):
        for j in seq(0, n):  ->      for jo in seq(0, (n + 3) / 4):
            C[i, j] = 0                  for ii in seq(0, 8):
                                             for ji in seq(0, 4):
                                                 if 8 * io + ii < m:
                                                     if 4 * jo + ji < n:
                                                         C[8 * io + ii, 4 * jo + ji] = 0

    `outer` and `inner` are names for the loops over tiles and in a tile.
    """
    first = forwarded_cursor(p, rows)
    if len(first.body()) != 1:
        raise unfit("tile", f"`{first}` is no loop that holds a loop alone", first)
    for names in (outer, inner):
        if len(names) != 2:
            raise unfit("tile", f"{names!r} are not two names", first)
    p = divide_loop(p, first.body()[0], factors[1], [outer[1], inner[1]], tail=tail)
    p = reorder_loops(p, first)
    p = divide_loop(p, followed(p, first), factors[0], [outer[0], inner[0]], tail=tail)
    over = followed(p, first).parent()
    p = reorder_loops(p, over)
    if tail == "guard":
        guard = followed(p, over).body()[0].body()[0]
        p = lift_scope(p, guard.body()[0])
    return p


@higher
def tile_for_cluster(
    p: P,
    rows: str | Cursor[P],
    cluster: tuple[int, int],
    factors: tuple[int, int],
    outer: Pair,
    ctas: Pair,
    inner: Pair,
) -> P:
    """Divide two loops into tiles of a cluster, and these into tiles of its CTAs.

    for i in seq(0, m):           for io in seq(0, (m + 15) / 16):
        for j in seq(0, n):  ->       for jo in seq(0, (n + 3) / 4):
            C[i, j] = 0                   for ci in seq(0, 2):
                                              for cj in seq(0, 1):
                                                  for ii in seq(0, 8):
                                                      for ji in seq(0, 4):
                                                          ...
    """
    (m, n), (height, width) = cluster, factors
    first = forwarded_cursor(p, rows)
    p = tile(p, first, (m * height, n * width), outer, inner)
    inside_tile = followed(p, first).body()[0].body()[0]
    made: P = tile(p, inside_tile, factors, ctas, inner, tail="perfect")
    return made


@higher
def outwards(p: P, scope: str | Cursor[P], over: str | Cursor[P]) -> P:
    """Exchange a loop or guard with each of the loops and guards around it, up to a given one.

    for i in seq(0, m):          for k in seq(0, n):
        if i < 3:          ->        for i in seq(0, m):
            for k in seq(0, n):          if i < 3:
                x[i, k] = 0                  x[i, k] = 0
    """
    cursor, last = forwarded_cursor(p, scope), forwarded_cursor(p, over)
    for _ in enclosing_cursors(cursor, last):
        outer = cursor.parent()
        both = isinstance(outer.stmt, nodes.For) and isinstance(cursor.stmt, nodes.For)
        p = reorder_loops(p, outer) if both else lift_scope(p, cursor)
        cursor = followed(p, cursor)
    return p


@higher
def accumulate(p: P, loop: str | Cursor[P], name: str, over: str | Cursor[P]) -> P:
    """Sum up in a variable of its own, an element for each iteration of the loops around.

    for i in seq(0, 8):              t: f32[8]
        y[i] = 0                     for i in seq(0, 8):
        for k in seq(0, n):    ->        t[i] = 0
            y[i] += x[i, k]          for i in seq(0, 8):
                                         for k in seq(0, n):
                                             t[i] += x[i, k]
                                     for i in seq(0, 8):
                                         y[i] = t[i]

    `loop` sums, and `over` is the outermost of the loops around it that are meant.  Where no zero
    is assigned before it the sum is added to the element afterwards.  A sum that has a variable of
    its own, declared beside the loop, keeps that.
    """
    sums, outermost = forwarded_cursor(p, loop), forwarded_cursor(p, over)
    levels, depth = enclosing_cursors(sums, outermost), len(outermost.path)
    targets = {stmt.target for stmt in walk((sums.stmt,)) if isinstance(stmt, nodes.Reduce)}
    if len(targets) != 1:
        raise unfit("accumulate", f"`{sums}` does not add to one element", sums)
    (target,) = targets
    element = render.access(target, _plainly)
    own = [c for c in sums.parent().body() if _declares(c.stmt, target)]
    first = own[0] if own else sums
    if not own and sums.path[-1][1] and _is_set(sums.prev().stmt, target):
        first = sums.prev()
        p = stage_mem(p, first, element, name, count=2)
    elif not own:
        p = stage_sum(p, sums, element, name)
    variable = Cursor(p, first.path)
    p = for_each(p, variable, [level.stmt for level in levels])
    p = lift_alloc(p, followed(p, variable), len(levels))
    p = fission(p, followed(p, sums).before(), len(levels))
    p = fission(p, followed(p, sums).after(), len(levels))
    zeros = Cursor(p, followed(p, sums).path[:depth]).prev()
    for guard in statements_inside(zeros, nodes.If):
        p = remove_if(p, guard)
    return p


def for_each(p: P, variable: Cursor[P], loops: Iterable[nodes.Stmt]) -> P:
    """A variable with a dimension more for each loop of these, the innermost first."""
    for loop in loops:
        if isinstance(loop, nodes.For):
            known = followed(p, variable)
            count, index = minus(loop.hi, loop.lo), minus(nodes.CVar(loop.iterator), loop.lo)
            p = expand_dim(p, known, in_words(count), in_words(index))
    return p


def in_words(expr: nodes.CExpr) -> str:
    """A control expression as text."""
    return render.control(expr, _plainly)


def _declares(stmt: nodes.Stmt, target: nodes.Access) -> bool:
    """Tests whether a statement declares the variable of an element."""
    return isinstance(stmt, nodes.Alloc) and stmt.name == target.name


def _is_set(stmt: nodes.Stmt, target: nodes.Access) -> bool:
    """Tests whether a statement assigns to the element."""
    return isinstance(stmt, nodes.Assign) and stmt.target == target


def _plainly(name: Sym) -> str:
    return name.name


# Higher steps for tiles in shared memory: rings, pipelines, warps that load, epilogues.


@higher
def stage_ring(
    p: P,
    use: str | Cursor[P],
    window: str,
    name: str,
    step: str | Cursor[P],
    slots: int | None = None,
) -> P:
    """Stage a window in tiles of shared memory, one for each step of a loop, kept in a ring.

    for k in seq(0, n):              t: f32[3, 4]
        for i in seq(0, 4):          for k in seq(0, n):
            y[k] += x[k, i]    ->        for i0 in seq(0, 4):
                                             t[k % 3, i0] = x[k, i0]
                                         for i in seq(0, 4):
                                             y[k] += t[k % 3, i]

    The loops between that of the steps and the statement are over CTAs: each has tiles of its own,
    and all are loaded before any is used.  Without `slots` there are as many as steps.
    """
    user, over = forwarded_cursor(p, use), forwarded_cursor(p, step)
    *ctas, loop = enclosing_cursors(user, over)
    p = stage_mem(p, user, window, name)
    variable = Cursor(p, user.path)
    p = for_each(p, variable, [level.stmt for level in (loop, *ctas)])
    p = lift_alloc(p, followed(p, variable), len(ctas) + 1)
    if ctas:
        p = fission(p, followed(p, user).before(), len(ctas))
    if slots is not None:
        dimension = sum(isinstance(level.stmt, nodes.For) for level in ctas)
        p = resize_dim(p, followed(p, variable), dimension, slots, fold=True)
    return p


@higher
def pipeline(p: P, use: str | Cursor[P], tiles: Sequence[str], slots: int = 2) -> P:
    """Let the statements of a step before `use` run `slots - 1` steps ahead of the others.

    for k in seq(0, n):          for k in seq(0, n + 1):
        t[k] = x[k]                  if k < n:
        y[k] = t[k]        ->            t[k % 2] = x[k]
                                     if k >= 1:
                                         y[k - 1] = t[(k + 1) % 2]

    `tiles` are the variables that they fill, one element or tile a step.
    """
    user = forwarded_cursor(p, use)
    first = user.parent()
    loop = first.stmt
    if not isinstance(loop, nodes.For):
        raise unfit("pipeline", f"`{user}` is not of a loop's body", user)
    p = fission(p, user.before())
    ahead = nodes.Int(slots - 1)
    start, later, end = (in_words(e) for e in (loop.lo, plus(loop.lo, ahead), plus(loop.hi, ahead)))
    p = shift_loop(p, followed(p, user).parent(), later)
    p = extend_loop(p, followed(p, first), start, end)
    p = extend_loop(p, followed(p, first).next(), start, end)
    p = fuse(p, followed(p, first))
    for tile in tiles:
        p = resize_dim(p, tile, 0, slots, fold=True)
    return p


@higher
def split_warps(
    p: P,
    load: str | Cursor[P],
    uses: Sequence[str | Cursor[P]],
    producer: CudaWarps,
    consumer: CudaWarps,
    count: int = 1,
) -> P:
    """Let some warps load tiles, `count` statements, and others do what is done with them.

    for t in cuda_threads(...):          with CudaWarps(0, 1, name="producer"):
        load(...)                            for t in cuda_threads(...):
    for w in cuda_threads(...):    ->            load(...)
        use(...)                         with CudaWarps(name="consumer"):
                                             for w in cuda_threads(...):
                                                 use(...)
    """
    first, rest = forwarded_cursor(p, load), [forwarded_cursor(p, use) for use in uses]
    p = wrap_with_context(p, rest, consumer)
    return wrap_with_context(p, followed(p, first), producer, count=count)


@higher
def guard_ring(
    p: P,
    calls: Mapping[str, str],
    use: str | Cursor[P],
    slots: int,
    over: Over,
    timelines: tuple[SyncTL, SyncTL, SyncTL, SyncTL],
    before: Cursor[P] | None = None,
) -> P:
    """Let loads wait until a slot of a ring is `empty`, and its use until it is `full`.

    for k in seq(0, n):                         full: barrier[2] @ CudaMbarrier
        with CudaWarps(name="producer"):        empty: barrier(full)[2] @ CudaMbarrier
            load(t[m, k % 3, :], ...)      ->   for k in seq(0, n):
        with CudaWarps(name="consumer"):            with CudaWarps(name="producer"):
            use(t[m, k % 3, :])                         Await(empty[m], ~3)
                                                        load(t[m, k % 3, :], ...) >> full[m]
                                                        Arrive() >> full[m]
                                                    with CudaWarps(name="consumer"):
                                                        Await(full[m], ~0)
                                                        use(t[m, k % 3, :])
                                                        Arrive() >> empty[m]

    `calls` names the instructions that load, each with the barriers that it signals, `[m, 0:2]`:
    the use of a slot tells all of them.  `over` are the loops over the CTAs of a cluster, whose
    producers wait and arrive.  The timelines are those of the Await of an empty slot, the Arrive
    after the loads, the Await of a full slot, and the Arrive after its use.  The
    barriers are declared before the loop around, or `before` a statement.
    """
    user = forwarded_cursor(p, use)
    empty, loaded, full, used = timelines
    if not calls:
        raise unfit("guard_ring", "no instruction that loads is named", user)
    loads = [_in_warps(find(p, call)) for call in calls]
    outside = loads[0].parent().parent() if before is None else before
    shape = [count for _, count, _ in over]
    mine = f"[{', '.join(name for name, _, _ in over)}]"
    mbarrier = BarrierMechanism.MBARRIER
    p = insert_barrier_alloc(p, outside.before(), "full", shape, mbarrier)
    p = insert_barrier_alloc(p, outside.before(), "empty", shape, mbarrier, guard="full")
    p = insert_await(p, loads[0].before(), f"empty{mine}", empty, ~slots, over=over)
    for call, signalled in calls.items():
        p = set_trailing_barrier_expr(p, call, f"full{signalled}")
    p = insert_arrive(p, loads[-1].after(), loaded, f"full{mine}", over=over)
    p = insert_await(p, user.before(), f"full{mine}", full)
    targets = dict.fromkeys(f"empty{signalled}" for signalled in calls.values())
    return insert_arrive(p, user.after(), used, *targets)


def _in_warps(cursor: Cursor[P]) -> Cursor[P]:
    """The statement around one that stands in a context of warps."""
    while not isinstance(cursor.parent().stmt, nodes.Warps):
        cursor = cursor.parent()
    return cursor


@higher
def stage_epilogue(p: P, loop: str | Cursor[P], window: str, name: str, over: str | Cursor[P]) -> P:
    """Let an epilogue take its results from a tile in shared memory.

    for w in seq(0, 2):                 t: f32[2, 4]
        for i in seq(0, 4):      ->     for w in seq(0, 2):
            y[w, i] += d[w, i]              for i0 in seq(0, 4):
                                                t[w, i0] = d[w, i0]
                                            for i in seq(0, 4):
                                                y[w, i] += t[w, i]

    `over` is the outermost of the loops around, each of whose iterations has a tile.
    """
    first, outermost = forwarded_cursor(p, loop), forwarded_cursor(p, over)
    levels = enclosing_cursors(first, outermost)
    p = stage_mem(p, first, window, name)
    variable = Cursor(p, first.path)
    p = for_each(p, variable, [level.stmt for level in levels])
    return lift_alloc(p, followed(p, variable), len(levels))
