"""Handovers of several pairs of roles on one mbarrier.

In each of `K` steps some roles write an element and arrive, threads or copies alike, and others
await and read.  Arrivals and Awaits of different roles stand in any order on the one mbarrier, so
that an arrival may complete before an earlier one of another role has.
"""

from __future__ import annotations

from random import Random

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Policy
from exogpu.ir import nodes as ir
from tests.machine.build import Q1, TMA, Builder, Name, add, mod, mul, t


def handovers(random: Random, b: Builder) -> None:
    """A program of one to three handovers a step, most of them right."""
    steps = b.size("K")
    count, slots = random.choice((1, 2, 2, 3)), random.choice((1, 2, 4))
    data = b.data("data", mul(count, slots), shared=True)
    full = b.barrier("full", depth=random.choice((None, count, count * slots)))
    empty = b.barrier("empty", depth=random.choice((None, count * slots)))
    for name in (data, full, empty):
        b.alloc(name)
    writers = [random.randrange(3) for _ in range(count)]
    readers = [random.choice((3, 4, 5)) for _ in range(count)]
    with b.loop("k", 0, steps) as k:

        def element(of: int, shifted: int = 0) -> ir.Access:
            return data[mod(add(mul(count, k), of + shifted), count * slots)]

        for turn, number in _orders(random, count):
            if turn:
                _hand_back(b, (full, empty), readers[number], element(_wrong(random, number)))
            else:
                skip = count * slots
                b.await_(empty[()], t(writers[number]), (Q1, TMA), n=-1 - skip)
                _hand_over(random, b, full, writers[number], element(number))
    for z in (full, empty):
        b.await_(z[()], t(0), Q1) if random.random() < 0.1 else None
        b.fence(t(0, 8), (Q1, TMA), (Q1, TMA), transitive=True)
        b.release(z)
    b.release(data)


def _orders(random: Random, count: int) -> list[tuple[bool, int]]:
    """Handing over (False) and taking (True), each in turn, the second never before the first."""
    found: list[tuple[bool, int]] = []
    given = taken = 0
    while taken < count:
        if given < count and (given == taken or random.random() < 0.5):
            found.append((False, given))
            given += 1
        else:
            found.append((True, taken))
            taken += 1
    return found


def _wrong(random: Random, number: int) -> int:
    """The handover whose element is read: now and then another one's."""
    return max(0, number + random.choice((0, 0, 0, -1, 1)))


def _hand_over(random: Random, b: Builder, full: Name, role: int, element: ir.Access) -> None:
    if random.random() < 0.4:
        b.write(element, t(role), TMA, trailing=amir.Trailing(full[()], (full[()],)))
        b.arrive(t(role), (), full[()])
    else:
        b.write(element, t(role), Q1)
        b.arrive(t(role), Q1, full[()], transitive=random.random() < 0.5)


def _hand_back(b: Builder, names: tuple[Name, Name], role: int, element: ir.Access) -> None:
    full, empty = names
    b.await_(full[()], t(role), Q1)
    b.read(element, t(role), Q1)
    b.arrive(t(role), Q1, empty[()], transitive=True)


def late(policy: Policy) -> amir.Program:
    """Role 0 makes arrival 0, role 1 arrival 1; role 3 awaits 1 and reads what role 0 wrote."""
    b = Builder()
    data, full = b.data("data", 1, shared=True), b.barrier("full", depth=2)
    b.alloc(data)
    b.alloc(full)
    b.write(data[0], t(0), Q1)
    b.arrive(t(0), Q1, full[()], transitive=True)
    b.await_(full[()], t(2), Q1)
    b.arrive(t(1), Q1, full[()], transitive=True)
    b.await_(full[()], t(3), Q1)
    b.read(data[0], t(3), Q1)
    b.fence(t(0, 8), Q1, Q1, transitive=True)
    b.free_barrier(full)
    b.release(data)
    return b.program(policy)
