"""Primitives that take loops and guards apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import walk
from exogpu.schedule.index_text import control_scope, minus, plus, read_control, tidy
from exogpu.schedule.primitive import Unfit, gap_of, new_variable, path_of, primitive, several_of
from exogpu.schedule.primitives.loops import loop_at, with_values
from exogpu.schedule.reparse import names_in
from exogpu.schedule.rewrite import Path, Rewrite, copied, splice, stmt_at, unchanged_rewrite


@primitive
def fission(proc: ir.Proc, gap: object, levels: int = 1) -> Iterator[Rewrite]:
    """Make two loops, or guards, of the one around a place: what stands before it, and after.

    for i in seq(0, n):          for i in seq(0, n):
        x[i] = 0           ->        x[i] = 0
        y[i] = x[i]              for i in seq(0, n):
                                     y[i] = x[i]

    With `levels`, also of those around that one, outwards.
    """
    inside, offset = gap_of(gap)
    if not 0 < levels < len(inside):
        raise Unfit(f"{levels} statements are not around the place", stmt_at(proc, inside))
    edit = unchanged_rewrite(proc)
    at = inside[-1][1] + offset
    for level in range(1, levels + 1):
        path = inside[:-level]
        _split(edit, path, at)
        at = path[-1][1] + 1
    yield edit


def _split(edit: Rewrite, path: Path, at: int) -> tuple[ir.For | ir.If, ir.For | ir.If]:
    """Make two statements of a loop or guard, the second from statement `at` of its body on."""
    old = stmt_at(edit.new, path)
    if not isinstance(old, ir.For | ir.If) or (isinstance(old, ir.If) and old.orelse):
        raise Unfit("the place is in no loop, and in no `if` without `else`", old)
    if not 0 < at < len(old.body):
        raise Unfit("nothing is on one side of the place", old)
    first, second = replace(old, body=old.body[:at]), replace(old, body=old.body[at:])
    if isinstance(second, ir.For):
        iterator = Sym(second.iterator.name)
        rest = with_values(edit, second.body, {second.iterator: ir.CVar(iterator)})
        second = replace(second, iterator=iterator, body=rest)
    known = edit.followed.get(old, old)
    edit.followed |= {first: known, second: known}
    splice(edit, path, 1, (first, second))
    return first, second


@primitive
def autofission(proc: ir.Proc, gap: object, levels: int = 1) -> Iterator[Rewrite]:
    """Make two loops of the one around a place, and none around a part that needs none.

        for i in seq(0, n):          t = x[0]
            t = x[0]           ->    for i in seq(0, n):
            y[i] = t                     y[i] = t

    With `levels`, also of those around that one, outwards.  A part loses the loops whose iterator
    it does not use and of which one iteration is enough, as many as can be.
    """
    inside, offset = gap_of(gap)
    if not 0 < levels < len(inside):
        raise Unfit(f"{levels} statements are not around the place", stmt_at(proc, inside))
    choices = [way for way in product((True, False), repeat=2 * levels)]
    choices.sort(key=lambda way: -sum(way))
    for way in choices:
        edit = _taken_apart(proc, inside, offset, levels, way)
        if edit is not None:
            yield edit


def _taken_apart(
    proc: ir.Proc, inside: Path, offset: int, levels: int, bare: tuple[bool, ...]
) -> Rewrite | None:
    """Both parts, each without the loops that `bare` names; None where it uses one of these."""
    edit = unchanged_rewrite(proc)
    at = inside[-1][1] + offset
    for level in range(1, levels + 1):
        path = inside[:-level]
        halves = _split(edit, path, at)
        at = path[-1][1]
        for half, drops in zip(halves, bare[2 * level - 2 : 2 * level], strict=True):
            place = (*path[:-1], (path[-1][0], at))
            count = 1
            if drops:
                if not isinstance(half, ir.For) or half.iterator in names_in(half.body):
                    return None
                count = len(half.body)
                last = minus(half.hi, ir.Int(1))
                body = with_values(edit, half.body, {half.iterator: last})
                splice(edit, place, 1, body)
            if half is halves[0]:
                at += count
    return edit


# Primitives by which statements run more often than before, to the same effect.
#
# Of the times that a statement runs, the last one counts: the checker decides that nobody reads
# what the others leave.


def counting_only(edit: Rewrite, block: ir.Block, condition: ir.BExpr) -> None:
    """Say that the statements of a block are the old ones only where a condition holds."""
    for stmt in walk(block):
        images = edit.origins.get(stmt)
        if isinstance(images, tuple):
            edit.origins[stmt] = tuple(replace(image, only=condition) for image in images)


@primitive
def add_loop(
    proc: ir.Proc, block: object, name: str, hi: str | int, guard: bool = False, count: int = 1
) -> Iterator[Rewrite]:
    """Put a loop around statements that may as well run several times.

        t = 1    ->    for i in seq(0, 4):
                           t = 1

    With `guard` they run in the first iteration alone.  `count` statements, from the one given on.
    """
    path, stmts = several_of(proc, block, count)
    iterator = new_variable(name)
    end = read_control(hi, control_scope(proc, path))
    edit = unchanged_rewrite(proc)
    if guard:
        first = ir.Compare("==", ir.CVar(iterator), ir.Int(0))
        body: ir.Block = (ir.If(first, stmts, span=stmts[0].span),)
    else:
        body = copied(edit, stmts, {}, fresh=False)
        counting_only(edit, body, ir.Compare("==", ir.CVar(iterator), minus(end, ir.Int(1))))
    splice(
        edit,
        path,
        len(stmts),
        (ir.For(iterator, ir.Int(0), end, ir.Seq(), body, span=stmts[0].span),),
    )
    yield edit


@primitive
def divide_with_recompute(
    proc: ir.Proc,
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
    io, ii = new_variable(names[0]), new_variable(names[1])
    edit = unchanged_rewrite(proc)
    count = minus(old.hi, old.lo)
    length = tidy(plus(ir.Int(stride), minus(count, ir.Mul(stride, blocks))))
    value = plus(plus(ir.Mul(stride, ir.CVar(io)), ir.CVar(ii)), old.lo)
    body = with_values(edit, old.body, {old.iterator: value})
    last = ir.Or(
        ir.Compare("<", ir.CVar(ii), ir.Int(stride)),
        ir.Compare("==", ir.CVar(io), minus(blocks, ir.Int(1))),
    )
    counting_only(edit, body, last)
    within = replace(old, iterator=ii, lo=ir.Int(0), hi=length, body=body)
    over = replace(old, iterator=io, lo=ir.Int(0), hi=blocks, body=(within,))
    edit.followed[over] = old
    splice(edit, path, 1, (over,))
    yield edit
