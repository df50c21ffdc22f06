"""Higher steps for tiles: divide loops, bring the outer ones outwards, sum up in a tile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from exogpu.ir import print_expressions
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Alloc, Assign, CExpr, CVar, For, If, Reduce, Stmt
from exogpu.ir.walk import walk
from exogpu.result.errors import Diagnostic, ExoGpuError
from exogpu.schedule.control import minus
from exogpu.schedule.cursors import Cursor, find
from exogpu.schedule.dimensions import expand_dim
from exogpu.schedule.fissions import fission
from exogpu.schedule.higher_steps import higher
from exogpu.schedule.loops import divide_loop, reorder_loops
from exogpu.schedule.primitive import followed
from exogpu.schedule.procedures import P
from exogpu.schedule.rewrite import paths
from exogpu.schedule.staging import stage_mem, stage_sum
from exogpu.schedule.statements import lift_scope, remove_if
from exogpu.schedule.storage import lift_alloc

Pair = tuple[str, str] | list[str]
Tail = Literal["perfect", "guard"]


def at(p: P, where: str | Cursor[P]) -> Cursor[P]:
    """The statement of this procedure that is meant."""
    return find(p, where) if isinstance(where, str) else followed(p, where)


def inside(cursor: Cursor[P], kind: type) -> Iterator[Cursor[P]]:
    """The statements of a kind inside a statement, in program order."""
    ir = cursor.procedure.ir
    assert ir is not None
    depth = len(cursor.path)
    for path, stmt in paths(ir):
        if path[:depth] == cursor.path and len(path) > depth and isinstance(stmt, kind):
            yield Cursor(cursor.procedure, path)


def around(cursor: Cursor[P], outermost: Cursor[P]) -> list[Cursor[P]]:
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
    first = at(p, rows)
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
    first = at(p, rows)
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
    cursor, last = at(p, scope), at(p, over)
    for _ in around(cursor, last):
        outer = cursor.parent()
        both = isinstance(outer.stmt, For) and isinstance(cursor.stmt, For)
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
    sums, outermost = at(p, loop), at(p, over)
    levels, depth = around(sums, outermost), len(outermost.path)
    targets = {stmt.target for stmt in walk((sums.stmt,)) if isinstance(stmt, Reduce)}
    if len(targets) != 1:
        raise unfit("accumulate", f"`{sums}` does not add to one element", sums)
    (target,) = targets
    element = print_expressions.access(target, _plainly)
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
    for guard in inside(zeros, If):
        p = remove_if(p, guard)
    return p


def for_each(p: P, variable: Cursor[P], loops: Iterable[Stmt]) -> P:
    """A variable with a dimension more for each loop of these, the innermost first."""
    for loop in loops:
        if isinstance(loop, For):
            known = followed(p, variable)
            count, index = minus(loop.hi, loop.lo), minus(CVar(loop.iterator), loop.lo)
            p = expand_dim(p, known, in_words(count), in_words(index))
    return p


def in_words(expr: CExpr) -> str:
    """A control expression as text."""
    return print_expressions.control(expr, _plainly)


def _declares(stmt: Stmt, target: Access) -> bool:
    """Tests whether a statement declares the variable of an element."""
    return isinstance(stmt, Alloc) and stmt.name == target.name


def _is_set(stmt: Stmt, target: Access) -> bool:
    """Tests whether a statement assigns to the element."""
    return isinstance(stmt, Assign) and stmt.target == target


def _plainly(name: Sym) -> str:
    return name.name
