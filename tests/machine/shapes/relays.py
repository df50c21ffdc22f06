"""Two rings one after the other, by slots, that run on from task to task: sizes `I` and `K`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from random import Random

from exogpu.amir import nodes as amir
from exogpu.analysis.threadmap import ThreadMap
from exogpu.ir.nodes import Access, Compare, CVar, Int
from tests.machine.build import Q0, Q1, Q2, TMA, UNORDERED, Builder, Name, add, mod, mul, t
from tests.machine.shapes.drawing import TIMELINES
from tests.machine.shapes.slots import bound


def relays(random: Random, b: Builder) -> None:
    """A loader fills one ring, of which a relay fills another, of other depth, which a consumer
    reads, in one CTA or in each of two, whose consumers release both; at times the slot of another
    barrier, a slot too early, an access after its Arrive, a role that leaves steps out, a guard
    that reads the task, or a table that should be written first."""
    r = random
    tasks, steps = b.size("I"), b.size("K")
    first, second = r.choice((1, 2, 2, 3)), r.choice((1, 2, 3))
    ctas = r.choice((1, 1, 2))
    data = [b.data(f"ring{n}", ctas, size, resident=True) for n, size in enumerate((first, second))]
    full, empty = [], []
    for n, size in enumerate((first, second)):
        depth = r.choice((None, size, size + 1))
        full.append(b.barrier(f"full{n}", ctas, depth=depth, resident=True))
        depth = r.choice((None, size + 1, size + 1))
        empty.append(b.barrier(f"empty{n}", ctas, depth=depth, guard=full[n], resident=True))
    table = b.data("table", 2, resident=True)
    skips = [-size - 1 - r.choice((0,) * 12 + (1,)) for size in (first, second)]
    counted = [r.choice((empty[0],) * 9 + (empty[1], full[0], full[1]))]
    counted += [
        r.choice((full[1],) * 9 + (full[0], empty[1])),
        r.choice((empty[1],) * 9 + (full[1],)),
    ]
    asynchronous, multicast = r.random() < 0.4, ctas == 2 and r.random() < 0.6
    late = r.choice(("",) * 8 + ("relay", "consumer"))
    tabled = r.choice(("",) * 6 + ("first", "late", "once", "never"))
    guarded = r.choice(("",) * 8 + ("all", "consumer", "task"))
    trips = r.choice((steps, steps, mul(2, steps), 1, 2))

    def thread(cta: CVar, role: int) -> ThreadMap:
        return t(add(mul(4, cta), role))

    def at(name: Name, barrier: Name, role: int) -> None:
        """The role's accesses of its slot."""
        size = first if name is data[0] else second
        with bound(b, barrier[0], size) as slot, b.loop("c", 0, ctas) as c:
            touch(name[c, slot], c, role)

    def touch(place: Access, c: CVar, role: int) -> None:
        by = thread(c, role)
        if role == 0 and asynchronous:
            tag = amir.Trailing(full[0][c], (full[0][c],))
            b.write(place, by, TMA, level=UNORDERED, trailing=tag)
        elif role == 0 or (role == 1 and place.name == data[1].sym):
            b.write(place, by, Q1)
        else:
            b.read(place, by, TMA)

    def each(make: Callable[[CVar], object]) -> None:
        with b.loop("c", 0, ctas) as c:
            make(c)

    def release(name: Name, role: int) -> None:
        """Whoever has read a slot says so, to its own loader or to all."""

        def arrive(c: CVar) -> None:
            b.fence(thread(c, role), TMA, Q1, transitive=True)
            others = (name[0:ctas],) if multicast else ()
            b.arrive(thread(c, role), Q1, name[c], *others, transitive=True)

        each(arrive)

    def load() -> None:
        each(lambda c: b.await_(empty[0][c], thread(c, 0), (), (Q1, TMA), skips[0]))
        at(data[0], full[0], 0)
        each(lambda c: b.arrive(thread(c, 0), () if asynchronous else Q1, full[0][c]))

    def relay() -> None:
        each(lambda c: b.await_(full[0][c], thread(c, 1), (Q1, TMA), Q2))
        if late != "relay":
            at(data[0], counted[0], 1)
        each(lambda c: b.await_(empty[1][c], thread(c, 1), (), (Q1, TMA), skips[1]))
        at(data[1], counted[1], 1)
        release(empty[0], 1)
        if late == "relay":
            at(data[0], counted[0], 1)
        each(lambda c: b.arrive(thread(c, 1), Q1, full[1][c]))

    def consume() -> None:
        each(lambda c: b.await_(full[1][c], thread(c, 2), (Q1, TMA), Q2))
        if late != "consumer":
            at(data[1], counted[2], 2)
        release(empty[1], 2)
        if late == "consumer":
            at(data[1], counted[2], 2)

    for name in (*data, *full, *empty, table):
        b.alloc(name)
    with b.tasks("i", 0, tasks) as task:
        if tabled == "late":
            b.read(table[0], t(0), Q1)
        if tabled in ("first", "late"):
            b.write(table[0], t(0), Q1)
        if tabled in ("first", "never"):
            b.read(table[0], t(0), Q1)
        with b.loop("k", 0, trips if not isinstance(trips, int) else Int(trips)) as k:
            some = {
                "all": Compare(">=", k, Int(1)),
                "consumer": Compare("==", mod(k, 2), Int(0)),
                "task": Compare(">=", task, Int(1)),
            }
            if tabled == "once":
                with b.when(Compare("==", k, Int(0))):
                    b.write(table[0], t(0), Q1)
                b.read(table[0], t(0), Q1)
            with b.when(some[guarded]) if guarded in ("all", "task") else nullcontext():
                load()
                relay()
                with b.when(some[guarded]) if guarded == "consumer" else nullcontext():
                    consume()
    b.fence(t(0, 8), TIMELINES, {Q0, Q1}, TIMELINES, transitive=True)
    for name in (*full, *empty):
        b.free_barrier(name)
    for name in (*data, table):
        b.release(name)
