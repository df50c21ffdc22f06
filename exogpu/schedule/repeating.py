"""Primitives by which statements run more often than before, to the same effect.

Of the times that a statement runs, the last one counts: the checker decides that nobody reads what
the others leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.ir.nodes import BExpr, Block, Compare, CVar, For, If, Int, Mul, Or, Proc, Seq
from exogpu.ir.walk import walk
from exogpu.schedule.control import control_scope, minus, plus, read_control, tidy
from exogpu.schedule.loops import loop_at, with_values
from exogpu.schedule.primitive import Unfit, named, path_of, primitive, several_of
from exogpu.schedule.rewrite import Rewrite, begun, copied, splice


def counting_only(edit: Rewrite, block: Block, condition: BExpr) -> None:
    """Say that the statements of a block are the old ones only where a condition holds."""
    for stmt in walk(block):
        images = edit.origins.get(stmt)
        if isinstance(images, tuple):
            edit.origins[stmt] = tuple(replace(image, only=condition) for image in images)


@primitive
def add_loop(
    proc: Proc, block: object, name: str, hi: str | int, guard: bool = False, count: int = 1
) -> Iterator[Rewrite]:
    """Put a loop around statements that may as well run several times.

        t = 1    ->    for i in seq(0, 4):
                           t = 1

    With `guard` they run in the first iteration alone.  `count` statements, from the one given on.
    """
    path, stmts = several_of(proc, block, count)
    iterator = named(name)
    end = read_control(hi, control_scope(proc, path))
    edit = begun(proc)
    if guard:
        first = Compare("==", CVar(iterator), Int(0))
        body: Block = (If(first, stmts, span=stmts[0].span),)
    else:
        body = copied(edit, stmts, {}, fresh=False)
        counting_only(edit, body, Compare("==", CVar(iterator), minus(end, Int(1))))
    splice(edit, path, len(stmts), (For(iterator, Int(0), end, Seq(), body, span=stmts[0].span),))
    yield edit


@primitive
def divide_with_recompute(
    proc: Proc,
    loop: object,
    outer: str | int,
    stride: int,
    names: tuple[str, str] | list[str],
) -> Iterator[Rewrite]:
    """Divide a loop into `outer` blocks, `stride` iterations apart, each as long as the last one
    needs: what blocks overlap in is computed more than once.

    for i in seq(0, 10):          for io in seq(0, 2):
        x[i] = y[i]         ->        for ii in seq(0, 6):
                                          x[4 * io + ii] = y[4 * io + ii]
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    if not isinstance(stride, int) or stride < 1:
        raise Unfit(f"the stride {stride} is no positive number", old, "give 1 or more")
    if isinstance(names, str) or len(names) != 2:
        raise Unfit(f"{names!r} are not two names", old, 'give two, such as ["io", "ii"]')
    blocks = read_control(outer, control_scope(proc, path))
    io, ii = named(names[0]), named(names[1])
    edit = begun(proc)
    count = minus(old.hi, old.lo)
    length = tidy(plus(Int(stride), minus(count, Mul(stride, blocks))))
    value = plus(plus(Mul(stride, CVar(io)), CVar(ii)), old.lo)
    body = with_values(edit, old.body, {old.iterator: value})
    last = Or(
        Compare("<", CVar(ii), Int(stride)),
        Compare("==", CVar(io), minus(blocks, Int(1))),
    )
    counting_only(edit, body, last)
    within = replace(old, iterator=ii, lo=Int(0), hi=length, body=body)
    over = replace(old, iterator=io, lo=Int(0), hi=blocks, body=(within,))
    edit.followed[over] = old
    splice(edit, path, 1, (over,))
    yield edit
