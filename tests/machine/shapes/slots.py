"""Rings indexed by slots: two sizes, `I` tasks or iterations and `K` steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from random import Random

from exogpu.amir import nodes as amir
from exogpu.ir.nodes import Access, Compare, CVar, Int
from tests.machine.build import Q0, Q1, Q2, TMA, UNORDERED, Builder, Name, c, mod, mul, t
from tests.machine.shapes.drawing import TIMELINES
from tests.machine.shapes.resident import Around, whole


@contextmanager
def bound(b: Builder, barrier: Access, ring: int) -> Iterator[CVar]:
    """In the block, the slot of a barrier."""
    with b.loop("slot", 0, ring) as iterator:
        yield iterator
    loop = b.blocks[-1][-1]
    assert isinstance(loop, amir.Loop)
    b.blocks[-1][-1] = amir.Loop(
        loop.iterator, loop.lo, loop.hi, loop.body, loop.origin, slot=barrier
    )


def slots(random: Random, b: Builder, around: Around | None = None) -> None:
    """A producer and a consumer with a ring that runs on over tasks, or over the iterations of one
    loop; as it should be, or with a ring that is too small, a skip that is too large, a slot of the
    other barrier or after the Arrive, an index by steps, a step that is left out.  With `around`,
    which stands around all that a task does, it runs on over tasks."""
    r = random
    outer, steps = b.size("I"), b.size("K")
    resident = r.random() < 0.6 or around is not None
    ring = r.choice((1, 2, 2, 3))
    data = b.data("ring", ring, resident=resident, local=not resident)
    full = b.barrier("full", depth=r.choice((None, ring, ring + 1)), resident=resident)
    depth = r.choice((None, ring, ring + 1))
    empty = b.barrier("empty", depth=depth, guard=full, resident=resident)
    skip = -ring - 1 - r.choice((0, 0, 0, 0, 1, -1 if ring > 1 else 0))
    asynchronous = r.random() < 0.4
    trips = r.choice((steps, steps, steps, mul(ring, steps), 1, 2))
    filled = r.choice(("full",) * 6 + ("empty", "steps"))
    read = r.choice(("empty",) * 6 + ("full", "steps"))
    after, guarded, twice = (r.random() < p for p in (0.1, 0.1, 0.1))

    @contextmanager
    def at(which: str, k: CVar) -> Iterator[Access]:
        if which == "steps":
            yield data[mod(k, ring) if ring > 1 else 0]
            return
        barrier = full if which == "full" else empty
        with bound(b, barrier[()], ring) as slot:
            yield data[slot]

    def fill(k: CVar) -> None:
        with at(filled, k) as place:
            if asynchronous:
                tag = amir.Trailing(full[()], (full[()],))
                b.write(place, t(0), TMA, level=UNORDERED, trailing=tag)
            else:
                b.write(place, t(0), Q1)

    def step(k: CVar) -> None:
        b.await_(empty[()], t(0), (), (Q1, TMA), skip)
        for _ in range(1 + twice):
            if not after:
                fill(k)
            b.arrive(t(0), () if asynchronous else Q1, full[()])
            if after:
                fill(k)
            b.await_(full[()], t(1), (Q1, TMA), Q2)
        with at(read, k) as place:
            b.read(place, t(1), TMA)
        b.fence(t(1), TMA, Q1, transitive=True)
        b.arrive(t(1), Q1, empty[()], transitive=True)

    def all_steps() -> None:
        with b.loop("k", 0, c(trips)) as k:
            when = Compare(">=", k, Int(1))
            with b.when(when) if guarded else nullcontext():
                step(k)

    if resident:
        for name in (data, full, empty):
            b.alloc(name)
        with b.tasks("i", 0, outer) as i, (around or whole)(b, i):
            all_steps()
    else:
        with b.tasks("task", 0, 1):
            for name in (data, full, empty):
                b.alloc(name)
            with b.loop("i", 0, outer):
                all_steps()
            _end(b, r, ring, data, full, empty)
    if resident:
        _end(b, r, ring, data, full, empty)


def _end(b: Builder, r: Random, ring: int, data: Name, full: Name, empty: Name) -> None:
    b.fence(t(0, 2), TIMELINES, {Q0, Q1}, TIMELINES, transitive=True)
    if r.random() < 0.7:
        b.free(data[0:ring], t(0, 2))
    for name in (full, empty):
        b.free_barrier(name)
    b.release(data)
