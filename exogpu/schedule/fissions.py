"""Primitives that take loops and guards apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from exogpu.ir.names import Sym
from exogpu.ir.nodes import CVar, For, If, Int, Proc
from exogpu.schedule.control import minus
from exogpu.schedule.loops import with_values
from exogpu.schedule.primitive import Unfit, gap_of, primitive
from exogpu.schedule.rewrite import Path, Rewrite, begun, splice, stmt_at
from exogpu.schedule.scopes import names_in


@primitive
def fission(proc: Proc, gap: object, levels: int = 1) -> Iterator[Rewrite]:
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
    edit = begun(proc)
    at = inside[-1][1] + offset
    for level in range(1, levels + 1):
        path = inside[:-level]
        _split(edit, path, at)
        at = path[-1][1] + 1
    yield edit


def _split(edit: Rewrite, path: Path, at: int) -> tuple[For | If, For | If]:
    """Make two statements of a loop or guard, the second from statement `at` of its body on."""
    old = stmt_at(edit.new, path)
    if not isinstance(old, For | If) or (isinstance(old, If) and old.orelse):
        raise Unfit("the place is in no loop, and in no `if` without `else`", old)
    if not 0 < at < len(old.body):
        raise Unfit("nothing is on one side of the place", old)
    first, second = replace(old, body=old.body[:at]), replace(old, body=old.body[at:])
    if isinstance(second, For):
        iterator = Sym(second.iterator.name)
        rest = with_values(edit, second.body, {second.iterator: CVar(iterator)})
        second = replace(second, iterator=iterator, body=rest)
    known = edit.followed.get(old, old)
    edit.followed |= {first: known, second: known}
    splice(edit, path, 1, (first, second))
    return first, second


@primitive
def autofission(proc: Proc, gap: object, levels: int = 1) -> Iterator[Rewrite]:
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
    proc: Proc, inside: Path, offset: int, levels: int, bare: tuple[bool, ...]
) -> Rewrite | None:
    """Both parts, each without the loops that `bare` names; None where it uses one of these."""
    edit = begun(proc)
    at = inside[-1][1] + offset
    for level in range(1, levels + 1):
        path = inside[:-level]
        halves = _split(edit, path, at)
        at = path[-1][1]
        for half, drops in zip(halves, bare[2 * level - 2 : 2 * level], strict=True):
            place = (*path[:-1], (path[-1][0], at))
            count = 1
            if drops:
                if not isinstance(half, For) or half.iterator in names_in(half.body):
                    return None
                count = len(half.body)
                last = minus(half.hi, Int(1))
                body = with_values(edit, half.body, {half.iterator: last})
                splice(edit, place, 1, body)
            if half is halves[0]:
                at += count
    return edit
