"""Higher steps for tiles in shared memory: rings, pipelines, warps that load, epilogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exogpu.ir.nodes import For, Int, Warps
from exogpu.ir.types import BarrierMechanism, SyncTL
from exogpu.schedule.contexts import CudaWarps, wrap_with_context
from exogpu.schedule.control import plus
from exogpu.schedule.cursors import Cursor, find
from exogpu.schedule.dimensions import resize_dim
from exogpu.schedule.fissions import fission
from exogpu.schedule.higher_steps import higher
from exogpu.schedule.loops import extend_loop, fuse, shift_loop
from exogpu.schedule.primitive import followed
from exogpu.schedule.procedures import P
from exogpu.schedule.staging import stage_mem
from exogpu.schedule.storage import lift_alloc
from exogpu.schedule.synchronisation import (
    Over,
    insert_arrive,
    insert_await,
    insert_barrier_alloc,
    set_trailing_barrier_expr,
)
from exogpu.schedule.tiling import around, at, for_each, in_words, unfit


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
    user, over = at(p, use), at(p, step)
    *ctas, loop = around(user, over)
    p = stage_mem(p, user, window, name)
    variable = Cursor(p, user.path)
    p = for_each(p, variable, [level.stmt for level in (loop, *ctas)])
    p = lift_alloc(p, followed(p, variable), len(ctas) + 1)
    if ctas:
        p = fission(p, followed(p, user).before(), len(ctas))
    if slots is not None:
        dimension = sum(isinstance(level.stmt, For) for level in ctas)
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
    user = at(p, use)
    first = user.parent()
    loop = first.stmt
    if not isinstance(loop, For):
        raise unfit("pipeline", f"`{user}` is not of a loop's body", user)
    p = fission(p, user.before())
    ahead = Int(slots - 1)
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
    first, rest = at(p, load), [at(p, use) for use in uses]
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
    user = at(p, use)
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
    while not isinstance(cursor.parent().stmt, Warps):
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
    first, outermost = at(p, loop), at(p, over)
    levels = around(first, outermost)
    p = stage_mem(p, first, window, name)
    variable = Cursor(p, first.path)
    p = for_each(p, variable, [level.stmt for level in levels])
    return lift_alloc(p, followed(p, variable), len(levels))
