"""Barriers that are awaited by turns, and commit groups in flight."""

from __future__ import annotations

from random import Random

from exogpu.amir import nodes as amir
from exogpu.ir.nodes import Access, Compare, Int
from tests.machine.build import (
    COMMIT,
    FULL,
    Q0,
    Q1,
    Q2,
    TMA,
    UNORDERED,
    Builder,
    Control,
    at_least,
    mod,
    sub,
    t,
)
from tests.machine.shapes.drawing import TIMELINES


def waits(random: Random, b: Builder) -> None:
    """One mbarrier or two, whose arrivals are awaited by one role, by roles in turn, or now and
    then; roles tell each other, all or in part, in one direction or both."""
    r = random
    roles, shape = r.choice((1, 2, 2, 3)), r.choice(((), (), (2,)))
    z = b.barrier("z", *shape, depth=r.choice((None, 1, 1, 2, 2, 3, 4)))
    x, told = b.data("x", 2), b.barrier("told", roles, depth=r.choice((None, 2)))
    k = b.size("K")
    period, skip, asynchronous = r.choice((1, 2, 3)), r.choice((-1, -1, -1, -2)), r.random() < 0.4
    waiters = [r.choice((t(0), t(1), t(1, 2), t(2), t(0, 3))) for _ in range(period)]
    lag, ways = r.choice((0, 0, 0, 1)), [r.choice(("fence", "arrive", "none")) for _ in waiters]

    def at(i: Control) -> Access:
        return z[mod(i, 2)] if shape else z[()]

    def wait(i: Control, number: int) -> None:
        by, way = waiters[number], ways[number]
        b.await_(at(i), by, {Q0, Q1}, TIMELINES, skip)
        if r.random() < 0.6:
            b.read(x[mod(i, 2)], by, Q1)
        if way == "fence":
            b.fence(r.choice((t(0, 2), t(0, 3), t(1, 2))), TIMELINES, {Q0, Q1}, transitive=True)
        elif way == "arrive":
            role = r.randrange(roles)
            b.arrive(t(max(role, 1)), {Q0, Q1}, told[role], transitive=True)
            b.await_(told[role], r.choice((t(0), t(0, 2))), {Q0, Q1}, TIMELINES)

    def turns(i: Control) -> None:
        for number in range(period):
            with b.when(Compare("==", mod(i, period), Int(number))):  # type: ignore[arg-type]
                wait(i, number)

    b.alloc(z)
    b.alloc(told)
    with b.loop("k", 0, k) as i:
        trailing = amir.Trailing(at(i), (at(i),)) if asynchronous else None
        source, done = (TMA, UNORDERED) if asynchronous else (Q1, FULL)
        b.write(x[mod(i, 2)], t(0), source, level=done, trailing=trailing)
        b.arrive(t(0), () if asynchronous else Q1, at(i), transitive=True)
        if lag:
            with b.when(at_least(i, lag)):
                turns(sub(i, lag))
        else:
            turns(i)
    if lag:
        with b.when(at_least(k, lag)):
            turns(sub(k, lag))
    b.fence(t(0, 3), TIMELINES, {Q0, Q1}, TIMELINES, transitive=True)
    b.free_barrier(z)
    b.free_barrier(told)


def groups(random: Random, b: Builder) -> None:
    """Copies in flight, `lag` commit groups behind: cp.async or wgmma in a double buffer."""
    r = random
    lag, slots, width = r.choice((0, 1, 2)), r.choice((2, 3)), r.choice((1, 2))
    k = b.size("K")
    x = b.data("x", slots, 2, shared=True)
    acc = b.data("acc", 2)
    cg = b.barrier("cg", width, mechanism=COMMIT)
    b.alloc(x)
    b.alloc(acc)
    b.alloc(cg)
    with b.loop("k", 0, k) as i:
        with b.loop("w", 0, width) as w:
            b.write(x[mod(i, slots), w], t(w), Q2, level=UNORDERED)
            b.arrive(t(w), Q2, cg[w])
            b.await_(cg[w], t(w), {Q0, Q1, Q2}, TIMELINES, lag)
        b.fence(t(0, width), {Q0, Q1}, {Q0, Q1}, TIMELINES, transitive=True)
        with b.when(at_least(i, lag)), b.loop("w", 0, width) as w:
            b.read(x[mod(sub(i, lag), slots), 0:width], t(w), Q1)
            b.write(acc[w], t(w), Q0, reads=True, convergent=True)
        b.fence(t(0, width), {Q0, Q1}, {Q0, Q1}, TIMELINES, transitive=True)
    with b.loop("w", 0, width) as w:
        b.await_(cg[w], t(w), {Q0, Q1}, TIMELINES, 0)
    b.free_barrier(cg)
    b.fence(t(0, width), {Q0, Q1}, {Q0, Q1}, TIMELINES, transitive=True)
    b.free(x[0:slots, 0:2], t(0, width))
