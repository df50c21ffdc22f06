"""Rings that run on through tasks of unequal numbers of steps: two sizes, `I` tasks and `K` steps.

The steps of a task follow from its number, a value from memory, conditions, or several loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random

from exogpu.amir import nodes as amir
from exogpu.ir.nodes import Access, BExpr, Compare, CVar, Int
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
    mod,
    sub,
    t,
)
from tests.machine.shapes.drawing import TIMELINES
from tests.machine.shapes.loads import load
from tests.machine.shapes.slots import bound

MOST = 3
"""What is loaded is less."""


def unequal(random: Random, b: Builder) -> None:
    """A ring by slots, or of one element; as it should be, or with a skip that is too large, a slot
    of the other barrier, an index by steps, a step that some tasks leave out, an access beside the
    steps."""
    r = random
    tasks, most = b.size("I"), b.size("K")
    ring = r.choice((1, 2, 2, 3))
    data = b.data("ring", ring, resident=True)
    full = b.barrier("full", depth=r.choice((None, ring, ring + 1)), resident=True)
    empty = b.barrier("empty", depth=r.choice((None, ring, ring + 1)), guard=full, resident=True)
    group, sums = b.barrier("cg", mechanism=COMMIT), b.data("sums", local=True)
    out, table = b.data("y", add(tasks, 8)), b.data("table", 1, resident=True)
    skip = -ring - 1 - r.choice((0, 0, 0, 0, 1, -1 if ring > 1 else 0))
    asynchronous, grouped = r.random() < 0.4, r.random() < 0.35
    filled = r.choice(("full",) * 8 + ("empty", "steps", "first"))
    read = r.choice(("empty",) * 8 + ("full", "steps", "first"))
    left, fenced, tabled = r.random() < 0.06, r.random() < 0.3, r.random() < 0.15
    again, waiting = r.choice(("",) * 9 + ("read", "write", "step")), r.choice((0, 0, 0, 1))

    @contextmanager
    def at(which: str, k: CVar) -> Iterator[Access]:
        if which == "first" or (which == "steps" and ring == 1):
            yield data[0]
        elif which == "steps":
            yield data[mod(k, ring)]
        else:
            with bound(b, (full if which == "full" else empty)[()], ring) as slot:
                yield data[slot]

    def produce(k: CVar) -> None:
        b.await_(empty[()], t(0), (), (Q1, TMA), skip)
        with at(filled, k) as place:
            if asynchronous:
                tag = amir.Trailing(full[()], (full[()],))
                b.write(place, t(0), TMA, level=UNORDERED, trailing=tag)
            else:
                b.write(place, t(0), Q1)
        b.arrive(t(0), () if asynchronous else Q1, full[()])

    def consume(k: CVar) -> None:
        b.await_(full[()], t(1), (Q1, TMA), Q2)
        if fenced:
            b.fence(t(1), TIMELINES, {Q1, Q2}, transitive=True)
        if grouped:
            with at(read, k) as place:
                b.read(place, t(1), TMA, level=UNORDERED)
            b.arrive(t(1), TMA, group[()])
            b.await_(group[()], t(1), {Q0, Q1, Q2, TMA}, TIMELINES, waiting)
            b.write(sums[()], t(1), Q1)
        else:
            with at(read, k) as place:
                b.read(place, t(1), Q1)
        b.fence(t(1), TMA, Q1, transitive=True)
        b.arrive(t(1), Q1, empty[()], transitive=True)

    def step(i: CVar, k: CVar) -> None:
        with ExitStack() as inside:
            if left:
                inside.enter_context(b.when(_condition(r, i, k)))
            produce(k)
            consume(k)
        if again in ("read", "write") and r.random() < 0.7:
            with b.when(_condition(r, i, k)) if r.random() < 0.6 else ExitStack():
                _touch(b, r, data, again)

    for name in (data, full, empty, table):
        b.alloc(name)
    with b.tasks("i", 0, tasks) as i, ExitStack() as around:
        if grouped:
            b.alloc(group)
            b.alloc(sums)
        if tabled:
            b.write(table[0], t(0), Q1)
            b.read(table[0], t(0), Q1)
        known: list[Control] = [i, add(i, 1), 1, most]
        if r.random() < 0.3:
            counts = b.data("counts", add(tasks, 1))
            n = around.enter_context(load(b, counts[i], 0, MOST, "n"))
            known = [n, n, add(n, 1), *known]
        if r.random() < 0.25:
            around.enter_context(b.when(Compare("!=", i, Int(r.choice((0, 1))))))
        if r.random() < 0.3:
            around.enter_context(b.loop("j", 0, r.choice((2, most, add(i, 1)))))
        trips = r.choice((i, add(i, 1), add(i, 1), sub(most, i), r.choice(known)))
        with b.loop(
            "k", r.choice((0, 0, 0, i)), trips if r.random() < 0.8 else r.choice(known)
        ) as k:
            step(i, k)
        if r.random() < 0.5:
            b.write(out[r.choice((i, i, c(0)))], t(1), Q1)
        if again == "step":
            step(i, i)
    if grouped:
        _at_the_end_of_tasks(b, group, sums)
    b.fence(t(0, 2), TIMELINES, {Q0, Q1}, TIMELINES, transitive=True)
    if r.random() < 0.7:
        b.free(data[0:ring], t(0, 2))
    for name in (full, empty):
        b.free_barrier(name)
    for name in (data, table):
        b.release(name)


def _at_the_end_of_tasks(b: Builder, group: Name, sums: Name) -> None:
    """Frees what the tasks allocate, in the innermost block of the task."""
    loop = b.blocks[-1][-1]
    assert isinstance(loop, amir.Loop)
    b.blocks.append([*loop.body])
    b.await_(group[()], t(1), TIMELINES, TIMELINES, 0)
    b.free_barrier(group)
    b.release(sums)
    body = tuple(b.blocks.pop())
    b.blocks[-1][-1] = amir.Loop(loop.iterator, loop.lo, loop.hi, body, loop.origin, tasks=True)


def _condition(r: Random, i: CVar, k: CVar) -> BExpr:
    return r.choice(
        (
            Compare(">=", k, Int(1)),
            Compare("==", k, i),
            Compare("<", k, i),
            Compare("==", mod(i, 2), Int(0)),
        )
    )


def _touch(b: Builder, r: Random, data: Name, how: str) -> None:
    """One more access of an element by the producer or the consumer."""
    by = t(r.choice((0, 1)))
    if how == "read":
        b.read(data[0], by, Q1)
    else:
        b.write(data[0], by, Q1)
