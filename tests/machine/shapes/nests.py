"""Rings under nested symbolic loops, where counts are products: two sizes, `I` and `K`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
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
    div,
    mod,
    sub,
    t,
)
from tests.machine.shapes.drawing import TIMELINES


def condition(random: Random, outer: CVar, inner: CVar | None = None) -> BExpr:
    """Of the outer iterator, or of both where there is an inner one: periodic, or from some
    iteration on, or on one side of a diagonal."""
    i = outer if inner is None else random.choice((outer, inner, inner))
    period = random.choice((2, 2, 3))
    periodic = Compare(random.choice(("==", "!=")), c(mod(i, period)), Int(random.randrange(2)))
    shift = Compare(random.choice((">=", "<")), i, Int(random.choice((1, 2))))
    if inner is None:
        return random.choice((periodic, periodic, shift))
    diagonal = Compare(random.choice(("<", "<=", ">=")), inner, outer)
    return random.choice((periodic, shift, diagonal))


@dataclass(frozen=True)
class Nest:
    """Two loops, and how they and what is in them depend on each other."""

    random: Random
    b: Builder
    outer: Control
    trips: Callable[[CVar], Control]
    """Of the inner loop."""
    first: Callable[[CVar], Control]
    """Iteration of the inner loop."""
    slots: int
    shift: Callable[[CVar, CVar], Control]
    """What the slot is a remainder of."""
    guard: Callable[[CVar], BExpr] | None
    """Around the inner loop."""

    def slot(self, i: CVar, k: CVar) -> Control:
        return mod(self.shift(i, k), self.slots) if self.slots > 1 else 0

    @contextmanager
    def around(self, i: CVar) -> Iterator[CVar]:
        """The guard and the inner loop."""
        guarded = self.b.when(self.guard(i)) if self.guard else nullcontext()
        with guarded, self.b.loop("k", self.first(i), self.trips(i)) as k:
            yield k


def nest(random: Random, b: Builder) -> Nest:
    r = random
    one, two = b.size("I"), b.size("K")
    trips = r.choice(
        (
            lambda i: two,
            lambda i: two,
            lambda i: two,
            lambda i: one,
            lambda i: i,
            lambda i: add(i, 1),
            lambda i: div(i, 2),
            lambda i: sub(two, i),
            lambda i: div(two, 2),
        )
    )
    slots = r.choice((1, 1, 2, 2, 2, 3))
    along: Callable[[CVar, CVar], Control] = lambda i, k: k  # noqa: E731
    shift = r.choice((along, along, add, add, lambda i, k: i))
    first = r.choice((lambda i: 0, lambda i: 0, lambda i: 0, lambda i: 1, lambda i: mod(i, 2)))
    guard = None
    if r.random() < 0.3:
        seed = r.random()
        guard = lambda i: condition(Random(seed), i)  # noqa: E731
    return Nest(r, b, one, trips, first, slots, shift, guard)


def nests(random: Random, b: Builder) -> None:
    """Two loops around a ring, a hand-over, or commit groups; one allocation, or one a trip."""
    r = random
    made = nest(r, b)
    allocate, body, free = r.choice((ring, ring, ring, apart, handover, groups, groups))(made)
    within = r.random() < 0.15  # an allocation for each outer iteration
    outermost = b.loop("j", 0, 2) if r.random() < 0.1 else nullcontext()

    def whole() -> None:
        if not within:
            allocate()
        with outermost, b.loop("i", 0, made.outer) as i:
            if within:
                allocate()
            body(i)
            if within:
                free()
        if not within:
            free()

    if r.random() < 0.5:
        with b.tasks("task", 0, r.choice((1, 1, 2))):
            whole()
    else:
        whole()


Parts = tuple[Callable[[], None], Callable[[CVar], None], Callable[[], None]]
"""What allocates, an outer iteration, and what frees."""


def barriers(made: Nest, *names: Name) -> tuple[Callable[[], None], Callable[[], None]]:
    b = made.b

    def allocate() -> None:
        for name in names:
            b.alloc(name)

    def free() -> None:
        if made.random.random() < 0.8:
            b.fence(t(0, 3), TIMELINES, {Q0, Q1}, TIMELINES, transitive=True)
        for name in names:
            b.free_barrier(name)

    return allocate, free


def ring(made: Nest) -> Parts:
    """A producer and two consumers; barriers for each slot, or one of each kind for all."""
    r, b, slots = made.random, made.b, made.slots
    by_slot = r.random() < 0.7
    depth = r.choice((None, None, slots, 2))
    shape = (slots,) if by_slot else ()
    data = b.data("ring", slots, shared=True)
    full = b.barrier("full", *shape, depth=depth)
    empty = b.barrier("empty", *shape, depth=depth, guard=full)
    skip = -2 if by_slot else -slots - 1
    asynchronous, inside = r.random() < 0.4, r.random()
    allocate, free = barriers(made, full, empty)

    def trip(i: CVar, k: CVar) -> None:
        slot = made.slot(i, k)

        def at(name: Name) -> Access:
            return name[slot] if by_slot else name[()]

        b.await_(at(empty), t(0), (), (Q1, TMA), skip)
        if asynchronous:
            tag = amir.Trailing(at(full), (at(full),))
            b.write(data[slot], t(0), TMA, level=UNORDERED, trailing=tag)
            b.arrive(t(0), (), at(full))
        else:
            b.write(data[slot], t(0), Q1)
            b.arrive(t(0), Q1, at(full))
        b.await_(at(full), t(1, 2), (Q1, TMA), Q2)
        b.read(data[slot], t(1, 2), TMA)
        b.fence(t(1, 2), TMA, Q1, transitive=True)
        b.arrive(t(1, 2), Q1, at(empty), transitive=True)

    def body(i: CVar) -> None:
        with made.around(i) as k:
            if inside < 0.2:
                with b.when(condition(r, i, k)):
                    trip(i, k)
            else:
                trip(i, k)

    return allocate, body, free


def apart(made: Nest) -> Parts:
    """The producer's inner loop comes before the consumer's: no slot is used twice between."""
    r, b, slots = made.random, made.b, made.slots
    data, done = b.data("x", slots), b.barrier("z", slots, depth=r.choice((None, None, 2)))
    allocate, free = barriers(made, done)

    def body(i: CVar) -> None:
        with made.around(i) as k:
            b.write(data[made.slot(i, k)], t(0), Q1)
            b.arrive(t(0), Q1, done[made.slot(i, k)])
        if r.random() < 0.8:
            b.fence(t(0, 3), Q1, Q1, transitive=True)
        with made.around(i) as k:
            b.await_(done[made.slot(i, k)], t(1, 2), Q1)
            b.read(data[made.slot(i, k)], t(1), Q1)
        b.fence(t(0, 3), Q1, Q1, transitive=True)

    return allocate, body, free


def handover(made: Nest) -> Parts:
    """One arrival and one Await on a slot's barrier, at times in the outer loop alone."""
    r, b, slots = made.random, made.b, made.slots
    data, done = b.data("x", slots), b.barrier("z", slots, depth=r.choice((None, 1, 2)))
    allocate, free = barriers(made, done)
    late, fenced = r.random() < 0.3, r.random() < 0.7

    def meet(slot: Control) -> None:
        b.arrive(t(0), Q1, done[slot])
        b.await_(done[slot], t(0, 2), Q1)

    def body(i: CVar) -> None:
        with made.around(i) as k:
            b.write(data[made.slot(i, k)], t(0), Q1)
            if not late:
                meet(made.slot(i, k))
                b.read(data[made.slot(i, k)], t(1), Q1)
            if fenced:
                b.fence(t(0, 2), Q1, Q1)
        if late:
            slot = mod(i, slots)
            meet(slot)
            b.read(data[slot], t(1), Q1)
            b.fence(t(0, 2), Q1, Q1)

    return allocate, body, free


def groups(made: Nest) -> Parts:
    """Copies in commit groups, awaited in the inner loop, before the next copy or after it, or
    after the loop; some iterations end with an Await for all, or begin with a group of their own.
    """
    r, b, slots = made.random, made.b, made.slots
    data, done = b.data("x", slots, shared=True), b.barrier("cg", mechanism=COMMIT)
    allocate, free = barriers(made, done)
    in_flight, late = r.choice((0, 0, 1, 1, 2)), r.random() < 0.3
    ahead, ends, begins = r.random() < 0.3, r.random() < 0.6, r.random() < 0.2
    back = r.choice((0, 0, in_flight)) if slots > 1 else 0
    everybody = {Q0, Q1, Q2}

    def use(i: CVar, k: CVar) -> None:
        b.await_(done[()], t(0), everybody, TIMELINES, in_flight)
        if not late:
            older = made.shift(i, k)
            b.read(data[mod(add(older, slots - back), slots) if slots > 1 else 0], t(0), Q1)

    def copy(slot: Control) -> None:
        b.write(data[slot], t(0), Q2, level=UNORDERED)
        b.arrive(t(0), Q2, done[()])

    def body(i: CVar) -> None:
        if begins:
            copy(0)
        with made.around(i) as k:
            if ahead:
                use(i, k)
            copy(made.slot(i, k))
            if not ahead:
                use(i, k)
        if late or ends:
            b.await_(done[()], t(0), everybody, TIMELINES, 0)
        if late:
            b.fence(t(0, 2), {Q0, Q1}, {Q0, Q1}, TIMELINES, transitive=True)
            b.read(data[mod(i, slots)], t(1), Q1)
            b.fence(t(0, 2), {Q0, Q1}, {Q0, Q1}, TIMELINES, transitive=True)

    return allocate, body, free
