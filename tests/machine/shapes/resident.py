"""Rings that run on from task to task: two sizes, `I` tasks and `K` steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import TypeAlias

from exogpu.amir import nodes as amir
from exogpu.ir.nodes import Access, Compare, CVar, Int
from tests.machine.build import (
    COMMIT,
    Q0,
    Q1,
    Q2,
    TMA,
    UNORDERED,
    Builder,
    Control,
    Name,
    add,
    c,
    div,
    mod,
    mul,
    t,
)
from tests.machine.shapes.drawing import TIMELINES

Around: TypeAlias = Callable[[Builder, CVar], AbstractContextManager[object]]
"""What stands around all that a task does, by the task's iterator."""


def whole(b: Builder, task: CVar) -> AbstractContextManager[object]:
    """Nothing: no task is left out."""
    return nullcontext()


def resident(random: Random, b: Builder, around: Around = whole) -> None:
    """A producer and two consumers, whose ring and barriers serve all tasks of a cluster; at times
    a table that each task writes first, or should, and a commit group of each task.  `around` is
    what stands around all that a task does."""
    r = random
    tasks, steps = b.size("I"), b.size("K")
    slots = r.choice((1, 2, 2, 3))
    by_slot = r.random() < 0.4
    shape = (slots,) if by_slot else ()
    data = b.data("ring", slots, resident=True)
    full = b.barrier("full", *shape, depth=r.choice((None, slots, slots + 1)), resident=True)
    empty = b.barrier(
        "empty", *shape, depth=r.choice((None, slots, slots + 1)), guard=full, resident=True
    )
    table = b.data("table", 2, resident=True)
    group, copied = b.barrier("cg", mechanism=COMMIT), b.data("copied", slots, local=True)
    skip = -2 if by_slot else -slots - 1
    asynchronous, grouped = r.random() < 0.4, r.random() < 0.25
    fenced, tabled = r.random() < 0.3, r.choice(("", "", "first", "late", "never"))
    trips = r.choice((steps, mul(slots, steps), mul(slots, steps), mul(slots, div(steps, 2))))
    fixed = r.choice((None, None, slots, 2 * slots, 1))
    ahead = r.choice((0, 0, 0, 0, 1))
    guarded = r.random() < 0.1

    def at(name: Name, slot: Control) -> Access:
        return name[slot] if by_slot else name[()]

    def step(k: CVar) -> None:
        slot = mod(add(k, ahead), slots) if slots > 1 else 0
        b.await_(at(empty, slot), t(0), (), (Q1, TMA), skip)
        if asynchronous:
            tag = amir.Trailing(at(full, slot), (at(full, slot),))
            b.write(data[slot], t(0), TMA, level=UNORDERED, trailing=tag)
            b.arrive(t(0), (), at(full, slot))
        else:
            b.write(data[slot], t(0), Q1)
            b.arrive(t(0), Q1, at(full, slot))
        b.await_(at(full, slot), t(1, 2), (Q1, TMA), Q2)
        b.read(data[slot], t(1, 2), TMA)
        b.fence(t(1, 2), TMA, Q1, transitive=True)
        if grouped:
            b.write(copied[slot], t(1), Q2, level=UNORDERED)
            b.arrive(t(1), Q2, group[()])
            b.await_(group[()], t(1), {Q0, Q1, Q2}, TIMELINES, 0)
        b.arrive(t(1, 2), Q1, at(empty, slot), transitive=True)

    def use_table() -> None:
        b.read(table[0], t(0), Q1)

    for name in (data, full, empty, table):
        b.alloc(name)
    with b.tasks("i", 0, tasks) as i, around(b, i):
        if grouped:
            b.alloc(group)
            b.alloc(copied)
        if tabled == "late":
            use_table()
        if tabled in ("first", "late"):
            b.write(table[0], t(0), Q1)
        if tabled in ("first", "never"):
            use_table()
        with b.loop("k", 0, c(fixed) if fixed else trips) as k:
            when = Compare(">=", k, Int(1))
            with b.when(when) if guarded else nullcontext():
                step(k)
        if fenced:
            b.fence(t(0, 3), TIMELINES, {Q0, Q1}, TIMELINES, transitive=True)
        if grouped:
            b.free_barrier(group)
            b.release(copied)
    if r.random() < 0.9:
        b.fence(t(0, 3), TIMELINES, {Q0, Q1}, TIMELINES, transitive=True)
    if r.random() < 0.7:
        b.free(data[0:slots], t(0, 3))
    for name in (full, empty):
        b.free_barrier(name)
    for name in (data, table):
        b.release(name)
