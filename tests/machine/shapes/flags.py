"""Tasks that wait for earlier ones by flags: one size, the number of tasks."""

from __future__ import annotations

from random import Random
from typing import Final

from exogpu.ir.nodes import Access, Compare, CVar
from exogpu.ir.types import BarrierMechanism
from tests.machine.build import Q0, Q1, Builder, Control, add, at_least, c, mod, sub, t
from tests.machine.shapes.drawing import TIMELINES

MARGIN: Final = 3
"""Elements of the flag beyond those that are meant, for indices that a mutation shifts."""


def flags(random: Random, b: Builder) -> None:
    """Each task publishes an element, and signals a flag of its own, one of a few, or the only one;
    an earlier task's is awaited, by all threads or some, or the last task awaits all.  As it should
    be, or with an Arrive before the write or after the Await, by other threads, or on the next
    flag, with an Await that orders in time only, or of another task than is read."""
    r = random
    k = b.size("K")
    everything = frozenset(TIMELINES)
    count = r.choice((1, 2, 4))
    style = r.choice(("chain", "chain", "chain", "last", "last", "pairs", "few", "launches"))
    a, y = b.data("a", k), b.data("y", k)
    extent = add(2 if style == "few" else k, 2 * MARGIN)
    extents = () if style == "last" else (extent,)
    ready = b.barrier("ready", *extents, mechanism=BarrierMechanism.FLAG)
    b.alloc(ready)
    distance = r.choice((1, 1, 1, 2, 3))
    read_from = distance if r.random() < 0.7 else r.choice((1, 2))
    times = r.choice((1, 1, 1, 2, c(k)))
    early, late, others = (r.random() < p for p in (0.1, 0.1, 0.15))
    grant = r.choice(({Q0, Q1}, {Q0, Q1}, {Q0, Q1}, ()))
    writers, readers = t(0, count), t(0, count)
    signal = t(count, 1) if others else r.choice((writers, writers, t(0, 1)))
    waiters = readers if r.random() < 0.8 else t(1, 1)

    def element(at: Control) -> Access:
        return ready[()] if style == "last" else ready[add(at, MARGIN)]

    def arrive(task: CVar) -> None:
        at = mod(task, 2) if style == "few" else task
        if style == "pairs" and r.random() < 0.2:
            at = add(task, 1)
        if times == 1:
            b.arrive(signal, {Q0, Q1}, element(at), transitive=True)
            return
        with b.loop("again", 0, times):
            b.arrive(signal, {Q0, Q1}, element(at), transitive=True)

    def wait(at: Control) -> None:
        b.await_(element(at), waiters, grant, (Q0, Q1), 0)

    def use(task: CVar) -> None:
        match style:
            case "last":
                with b.when(Compare("==", task, sub(k, r.choice((1, 1, 1, 2))))):
                    wait(0)
                    with b.loop("i", 0, k) as i:
                        b.read(a[i], readers, Q1)
            case "pairs":
                with b.when(Compare("==", mod(task, 2), c(1))):
                    wait(sub(task, 1))
                    b.read(a[sub(task, 1)], readers, Q1)
            case "few":
                with b.when(at_least(task, sub(k, 1))):
                    wait(mod(sub(task, 1), 2))
                    with b.when(at_least(task, 1)):
                        b.read(a[sub(task, 1)], readers, Q1)
            case _:
                with b.when(at_least(task, distance)):
                    wait(sub(task, distance))
                    with b.when(at_least(task, read_from)):
                        b.read(a[sub(task, read_from)], readers, Q1)

    b.fence(None, everything, everything, transitive=True)
    with b.tasks("task", 0, k) as task:
        if early:
            arrive(task)
        b.write(a[task], t(0, 1) if count == 1 else writers, Q1, convergent=r.random() < 0.5)
        if r.random() < 0.7:
            b.fence(writers, {Q0, Q1}, {Q0, Q1}, everything, transitive=True)
        if not early and not late:
            arrive(task)
        if style != "launches":
            use(task)
        if late:
            arrive(task)
        b.write(y[task], t(0, 1), Q1)
    if style == "launches" or r.random() < 0.2:
        if r.random() < 0.5:
            b.fence(None, everything, everything, transitive=True)
        with b.tasks("task", 0, k) as task:
            use(task)
            if r.random() < 0.1:
                b.arrive(signal, {Q0, Q1}, element(0), transitive=True)
    b.fence(None, everything, everything, transitive=True)
    b.release(ready)
    b.read(a[0:k], None, Q1, convergent=True)
