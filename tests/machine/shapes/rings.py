"""Rings of mbarriers, in a CTA and across a cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from random import Random

from exogpu.amir import nodes as amir
from exogpu.analysis.threadmap import ThreadMap
from exogpu.ir.nodes import Access
from tests.machine.build import (
    Q0,
    Q1,
    Q2,
    TEMPORAL,
    TMA,
    UNORDERED,
    WGS,
    Builder,
    Control,
    add,
    at_least,
    mod,
    mul,
    t,
)
from tests.machine.shapes.drawing import TIMELINES


def ring(random: Random, b: Builder) -> None:
    """A producer fills a ring of slots that consumers read: mbarriers `full` and `empty`, one a
    slot or one a CTA, with a trailing barrier or a plain Arrive, multicast over the CTAs."""
    r = random
    slots, ctas = r.choice((1, 2, 3, 4)), r.choice((1, 1, 2))
    consumers = r.choice((1, 2))
    by_slot = r.random() < 0.4
    asynchronous = r.random() < 0.5
    k = b.size("K")
    source = r.choice((TMA, Q2)) if asynchronous else Q1
    smem = b.data("smem", ctas, slots, 4, shared=True)
    shape = (ctas, slots) if by_slot else (ctas,)
    depth = r.choice((None, slots, slots + 1)) if not by_slot else r.choice((None, 1, 2))
    full = b.barrier("full", *shape, depth=depth)
    empty = b.barrier("empty", *shape, depth=depth, guard=full)
    skip = -2 if by_slot else -slots - 1
    producer = lambda c: t(mul(8, c))  # noqa: E731
    consumer = lambda c: t(add(mul(8, c), 1), consumers)  # noqa: E731
    tasks = r.choice((0, 0, 2, 3))

    def body() -> None:
        b.alloc(smem)
        b.alloc(full)
        b.alloc(empty)
        with b.loop("k", 0, k) as i:
            at = (lambda c: (c, mod(i, slots))) if by_slot else (lambda c: (c,))
            with b.loop("c", 0, ctas) as c:
                b.await_(empty[at(c)], producer(c), (), TIMELINES, skip)
            with b.loop("c", 0, ctas) as c:
                home = full[at(c)]
                targets = tuple(full[at(j)] for j in range(ctas))
                if ctas == 2 and asynchronous:
                    # Each CTA fills its half of the slot in every CTA.
                    with b.loop("j", 0, ctas) as j:
                        window = smem[j, mod(i, slots), mul(2, c) : add(mul(2, c), 2)]
                        trailing = amir.Trailing(home, (full[at(j)],))
                        b.write(window, producer(c), source, level=UNORDERED, trailing=trailing)
                else:
                    window = smem[c, mod(i, slots), 0:4]
                    signal = amir.Trailing(home, targets) if asynchronous else None
                    b.write(window, producer(c), source, level=UNORDERED, trailing=signal)
                others = targets if ctas == 2 and asynchronous else ()
                pre = r.choice((frozenset(), {Q0, Q1})) if asynchronous else {Q0, Q1}
                b.arrive(producer(c), pre, home, *(x for x in others if x != home), transitive=True)
            with b.loop("c", 0, ctas) as c:
                b.await_(full[at(c)], consumer(c), {Q0, Q1, WGS, TMA}, TIMELINES, -1)
                with b.loop("w", 0, consumers) as w:
                    me = t(add(add(mul(8, c), 1), w))
                    b.read(smem[c, mod(i, slots), mul(2, w) : add(mul(2, w), 2)], me, Q1)
                    b.read(smem[c, mod(i, slots), 0], me, WGS, level=UNORDERED)
                if r.random() < 0.5:
                    b.fence(consumer(c), {WGS}, {Q0, Q1})
                else:
                    b.fence(consumer(c), {WGS, Q1}, {Q0, Q1}, transitive=True)
                others = tuple(empty[at(j)] for j in range(ctas)) if ctas == 2 else ()
                home = empty[at(c)]
                b.arrive(consumer(c), {Q0, Q1}, home, *others, transitive=True)
        b.fence(t(0, 16), TIMELINES, {Q0, Q1}, TIMELINES, transitive=True)
        b.free_barrier(full)
        b.free_barrier(empty)
        b.free(smem[0:ctas, 0:slots, 0:4], t(0, 16))
        b.release(smem)

    if tasks:
        with b.tasks("task", 0, tasks):
            body()
    else:
        body()


def casts(random: Random, b: Builder) -> None:
    """Such a ring under two symbolic loops."""
    multicast(random, b, nested=True)


def multicast(random: Random, b: Builder, nested: bool = False) -> None:
    """A ring of tiles in a cluster of 2 or 4 CTAs: each is sent along a line, the rows or the
    columns of CTAs; each CTA, or one for all, waits for the copies, which the CTA itself or a
    neighbour reads.  Where it is `nested`, one symbolic loop after the other fills it."""
    r = random
    rows, columns = r.choice(((1, 2), (1, 2), (2, 1), (1, 4), (2, 2), (2, 2)))
    ctas = rows * columns
    slots = r.choice((1, 1, 2)) if not nested else r.choice((1, 1, 1, 2))
    iterations = b.size("I") if nested else None
    k = b.size("K")
    depth = r.choice((None, slots, slots + 1))
    tiles = b.data("tiles", rows, columns, slots, 1, shared=True)
    source = b.data("source", 8)
    full = b.barrier("full", rows, columns, depth=depth)
    empty = b.barrier("empty", rows, columns, depth=depth, guard=full)
    by_rows = columns > 1 and (rows == 1 or r.random() < 0.6)
    lines, length = (rows, columns) if by_rows else (columns, rows)
    waits, reads = r.choice(("own", "own", "own", "one")), r.choice(("own", "own", "neighbour"))
    pre = r.choice((frozenset(), {Q0, Q1}))
    swapped = r.random() < 0.2

    def at(line: Control, j: Control) -> tuple[Control, Control]:
        return (line, j) if by_rows else (j, line)

    def thread(cta: tuple[Control, Control], which: int, count: int = 1) -> ThreadMap:
        m, n = cta
        return t(add(mul(4 * columns, m), add(mul(4, n), which)), count)

    def copies(cta: tuple[Control, Control], slot: Control) -> Access:
        m, n = cta
        return tiles[(mod(add(m, 1), rows) if swapped else m), n, slot, 0:1]

    def cluster() -> None:
        b.fence(t(0, 4 * ctas), TIMELINES, {Q0, Q1}, TIMELINES, transitive=True)

    def each(body: Callable[[tuple[Control, Control]], None]) -> None:
        with b.loop("m", 0, rows) as m, b.loop("n", 0, columns) as n:
            body((m, n))

    def send(line: Control, i: Control) -> None:
        slot = mod(i, slots)
        with b.loop("j", 0, length) as j:
            window = copies(at(line, j), slot)
            with b.loop("c", 0, length) as c:
                sender = thread(at(line, c), 0)
                b.check(window, sender, TMA, mutates=True, level=TEMPORAL)
                b.check(window, sender, TMA, mutates=False, level=TEMPORAL)
            b.clear(window, mutates=False)
            b.clear(window, mutates=True)
        with b.loop("home", 0, length) as c:
            home = full[at(line, c)]
            with b.loop("landing", 0, length) as j:
                signal = amir.Trailing(home, (full[at(line, j)],))
                window, by = copies(at(line, j), slot), thread(at(line, c), 0)
                b.record(window, by, TMA, mutate=True, level=UNORDERED, trailing=signal)
            all_of_them = full[line, 0:length] if by_rows else full[0:length, line]
            signal, by = amir.Trailing(home, (all_of_them,)), thread(at(line, c), 0)
            b.record(source[mod(i, 8)], by, TMA, level=UNORDERED, trailing=signal)

    def use(cta: tuple[Control, Control], i: Control) -> None:
        m, n = cta
        whose = (m, mod(add(n, 1), columns)) if reads == "neighbour" else cta
        window = copies(whose, mod(i, slots))
        b.read(window, thread(cta, 1, r.choice((1, 1, 2))), Q1)
        if r.random() < 0.3:
            b.write(copies(cta, mod(i, slots)), thread(cta, 1), Q1)

    def late(cta: tuple[Control, Control]) -> None:
        with b.when(at_least(add(*cta), 1)):
            b.await_(full[cta], thread(cta, 1), {Q0, Q1}, TIMELINES, -1)

    def release(cta: tuple[Control, Control]) -> None:
        m, n = cta
        home = empty[m, n]
        others = empty[m, 0:columns] if by_rows else empty[0:rows, n]
        b.fence(thread(cta, 1, 2), {Q0, Q1}, {Q0, Q1, TMA}, TIMELINES, transitive=True)
        b.arrive(thread(cta, 1), {Q0, Q1}, home, others, transitive=True)

    b.alloc(tiles)
    b.alloc(full)
    b.alloc(empty)
    with ExitStack() as loops:
        first: Control = 0
        if iterations is not None:
            outer = loops.enter_context(b.loop("i", 0, iterations))
            first = r.choice((0, 0, 0, outer, mod(outer, 2)))
        i = loops.enter_context(b.loop("k", first, k))
        each(lambda cta: b.await_(empty[cta], thread(cta, 0), TIMELINES, TIMELINES, -slots - 1))
        with b.loop("line", 0, lines) as line:
            send(line, i)
        each(lambda cta: b.arrive(thread(cta, 0), pre, full[cta]))
        if waits == "own":
            each(lambda cta: b.await_(full[cta], thread(cta, 1, 2), {Q0, Q1}, TIMELINES, -1))
            if reads == "neighbour":
                cluster()
        else:
            b.await_(full[0, 0], thread((0, 0), 1), {Q0, Q1}, TIMELINES, -1)
            cluster()
        each(lambda cta: use(cta, i))
        if reads == "neighbour":
            cluster()
        if waits == "one":
            each(late)
        each(release)
    cluster()
    b.free_barrier(full)
    b.free_barrier(empty)
    b.free(tiles[0:rows, 0:columns, 0:slots, 0:1], t(0, 4 * ctas))
    b.write(source[0:8], t(0), Q1)
    b.release(tiles)
