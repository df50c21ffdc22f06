"""Random AMIR programs, each with a symbolic size and the values to run it at.

Every shape is a correct idiom of synchronisation (a ring of mbarriers, commit groups, fences,
tasks on global memory) that `mutate` then breaks in up to three places, or random code that mixes
everything.  `program(random)` draws one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from exogpu.amir import nodes as amir
from exogpu.analysis.threadmap import ThreadAxis, ThreadMap
from exogpu.ir.nodes import Access, Add, Compare, Int, Interval, Point
from exogpu.ir.types import BarrierMechanism, Level, Policy, QualTL
from tests.machine.build import (
    ATOMIC,
    CLUSTER,
    COMMIT,
    FULL,
    MBARRIER,
    Q0,
    Q1,
    Q2,
    TEMPORAL,
    TMA,
    UNORDERED,
    WGS,
    Builder,
    Control,
    Name,
    add,
    at_least,
    div,
    mod,
    mul,
    sub,
    t,
)

TIMELINES = (Q0, Q1, Q2, TMA, WGS)
LEVELS = (FULL, TEMPORAL, UNORDERED, ATOMIC, Level.INVISIBLE)


@dataclass(frozen=True)
class Generated:
    """A program of the size `K`, and the sizes to run it at."""

    program: amir.Program
    sizes: tuple[dict[str, int], ...]
    shape: str


def some(random: Random, p: float = 0.4) -> frozenset[QualTL]:
    """A set of timelines, often a small one."""
    return frozenset(q for q in TIMELINES if random.random() < p) or {random.choice(TIMELINES)}


def level(random: Random) -> Level:
    return random.choices(LEVELS, (8, 6, 6, 3, 1))[0]


# --- random code --------------------------------------------------------------------------


@dataclass
class Code:
    """Random statements on a few variables; `indices` are the iterators in scope."""

    random: Random
    b: Builder
    data: list[tuple[Name, int]]
    barriers: list[tuple[Name, int, BarrierMechanism]]
    threads: int = 3
    indices: tuple[Control, ...] = ()

    def index(self, extent: int) -> Control:
        r = self.random
        if not self.indices or r.random() < 0.3:
            return r.randrange(extent)
        i = r.choice(self.indices)
        return r.choice((mod(add(i, r.randrange(3)), extent), i, div(i, 2), sub(i, 1)))

    def point(self, extent: int) -> Control:
        r = self.random
        if not self.indices or r.random() < 0.3:
            return r.randrange(extent)
        return mod(add(r.choice(self.indices), r.randrange(3)), extent)

    def window(self) -> Access:
        r = self.random
        name, extent = r.choice(self.data)
        if r.random() < 0.3:
            lo = self.index(extent)
            return name[lo : add(lo, r.randrange(1, 3))]
        return name[self.index(extent)]

    def by(self) -> ThreadMap | None:
        r = self.random
        if r.random() < 0.03:
            return None
        first: Control = r.randrange(self.threads)
        if self.indices and r.random() < 0.2:
            first = mod(r.choice(self.indices), self.threads)
        return t(first, r.choice((1, 1, 1, 2, 3)))

    def trailing(self) -> amir.Trailing | None:
        r = self.random
        rings = [z for z in self.barriers if z[2] is MBARRIER]
        if not rings or r.random() < 0.8:
            return None
        name, extent, _ = r.choice(rings)
        home = name[self.point(extent)]
        return amir.Trailing(home, (home, name[self.point(extent)])[: r.choice((1, 1, 2))])

    def statement(self) -> None:
        r, b = self.random, self.b
        kind = r.choices(
            ("read", "write", "fence", "arrive", "await", "record", "check", "clear", "free"),
            (4, 4, 4, 4, 4, 2, 3, 1, 1),
        )[0]
        by, timeline, convergent = self.by(), r.choice(TIMELINES), r.random() < 0.3
        if kind == "read":
            b.read(self.window(), by, timeline, level=level(r), convergent=convergent)
        elif kind == "write":
            b.write(
                self.window(),
                by,
                timeline,
                reads=r.random() < 0.3,
                level=level(r),
                convergent=convergent,
                trailing=self.trailing(),
            )
        elif kind == "fence":
            b.fence(by, some(r), some(r, 0.3), some(r, 0.3), transitive=r.random() < 0.6)
        elif kind in ("arrive", "await") and self.barriers:
            name, extent, mechanism = r.choice(self.barriers)
            at = name[self.point(extent)]
            if kind == "await":
                n = r.choice((-1, -1, -2, -3)) if mechanism is MBARRIER else r.choice((0, 0, 1, 2))
                b.await_(at, by, some(r, 0.3), some(r, 0.3), n)
            else:
                others = [name[self.point(extent)]] if r.random() < 0.3 else []
                pre = frozenset() if r.random() < 0.1 else some(r)
                b.arrive(by, pre, at, *others, transitive=r.random() < 0.6)
        elif kind == "record":
            b.record(
                self.window(),
                by,
                r.choice((*TIMELINES, None)),
                mutate=r.random() < 0.5,
                level=level(r),
                convergent=convergent,
                atomic=some(r) if r.random() < 0.3 else (),
                trailing=self.trailing(),
            )
        elif kind == "clear":
            b.clear(self.window(), mutates=r.random() < 0.5)
        elif kind == "free":
            b.free(self.window(), t(0, self.threads))
        else:
            b.check(
                self.window(),
                by,
                some(r),
                mutates=r.random() < 0.5,
                level=level(r),
                convergent=convergent,
                reads=r.random() < 0.5,
            )

    def block(self, count: int, depth: int) -> None:
        for _ in range(count):
            kind = self.random.random()
            if depth and kind < 0.15:
                lo = self.random.choice((0, 0, 0, 1))
                hi = self.random.choice((2, 3, 5, *self.indices))
                with self.b.loop("i", lo, hi) as i:
                    self.inside((*self.indices, i)).block(self.random.randrange(1, 5), depth - 1)
            elif depth and kind < 0.22 and self.indices:
                i = self.random.choice(self.indices)
                condition = Compare(
                    self.random.choice(("==", "!=", "<", "<=", ">", ">=")),
                    self.random.choice((i, mod(i, 2))),  # type: ignore[arg-type]
                    Int(self.random.randrange(4)),
                )
                with self.b.when(condition):
                    self.block(self.random.randrange(1, 3), depth - 1)
            else:
                self.statement()

    def inside(self, indices: tuple[Control, ...]) -> Code:
        return replace(self, indices=indices)


def variables(random: Random, b: Builder) -> Code:
    data = [(b.data(f"x{i}", extent), extent) for i, extent in enumerate((1, 2, 4))]
    barriers = []
    for i in range(random.randrange(1, 4)):
        mechanism = random.choice((MBARRIER, MBARRIER, COMMIT, CLUSTER))
        extent = random.choice((1, 2, 3))
        depth = random.choice((None, 1, 2, 3)) if mechanism is MBARRIER else None
        barriers.append((b.barrier(f"z{i}", extent, mechanism=mechanism, depth=depth), extent))
        barriers[-1] = (*barriers[-1], mechanism)  # type: ignore[assignment]
    return Code(random, b, data, barriers)  # type: ignore[arg-type]


def straight_line(random: Random, b: Builder) -> None:
    """Statements one after the other, rich in fences."""
    code = variables(random, b)
    for name, _, _ in code.barriers:
        b.alloc(name)
    code.block(random.randrange(4, 16), 0)
    for name, _, _ in code.barriers:
        if random.random() < 0.5:
            b.free_barrier(name)


def nested(random: Random, b: Builder) -> None:
    """Random statements in random loops and guards, one loop as long as the size."""
    code = variables(random, b)
    k = b.size("K")
    for name, _, _ in code.barriers:
        b.alloc(name)
    code.block(random.randrange(0, 4), 0)
    with b.loop("k", 0, k) as i:
        code.inside((i,)).block(random.randrange(2, 8), 2)
    code.block(random.randrange(0, 4), 0)
    for name, _, _ in code.barriers:
        if random.random() < 0.5:
            b.free_barrier(name)


def tasked(random: Random, b: Builder) -> None:
    """Random statements in tasks, on variables of the tasks and on global memory."""
    code = variables(random, b)
    k = b.size("K")
    everything = frozenset(TIMELINES)
    with b.tasks("task", 0, k) as i:
        for name, _, _ in code.barriers:
            b.alloc(name)
        if random.random() < 0.7:
            b.alloc(code.data[0][0])
        code.inside((i,)).block(random.randrange(2, 9), 2)
        for name, _, _ in code.barriers:
            if random.random() < 0.6:
                b.free_barrier(name)
    if random.random() < 0.5:
        b.fence(None, everything, everything, transitive=True)
        replace(code, barriers=[]).block(2, 0)


# --- idioms -------------------------------------------------------------------------------


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


def multicast(random: Random, b: Builder) -> None:
    """A ring of tiles in a cluster of 2 or 4 CTAs: each is sent along a line, the rows or the
    columns of CTAs; each CTA, or one for all, waits for the copies, which the CTA itself or a
    neighbour reads."""
    r = random
    rows, columns = r.choice(((1, 2), (1, 2), (2, 1), (1, 4), (2, 2), (2, 2)))
    ctas = rows * columns
    slots = r.choice((1, 1, 2))
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
    with b.loop("k", 0, k) as i:
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


def threads(random: Random, b: Builder) -> None:
    """Scalar code: each thread sums for itself, then the neighbours are added, in tasks."""
    r = random
    k = b.size("K")
    count = r.choice((2, 4))
    part, other, result = b.data("part", count), b.data("other", count), b.data("y", 12)
    everything = frozenset(TIMELINES)
    if r.random() < 0.5:
        b.write(result[0:12], None, Q1, convergent=True)
        b.fence(None, everything, everything, transitive=True)
    with b.tasks("task", 0, 3) as task:
        b.alloc(part)
        b.alloc(other)
        with b.loop("i", 0, count) as i:
            b.write(part[i], t(i), Q0, convergent=True)
            with b.loop("k", 0, k) as j:
                a = b.data("a", 2)
                b.alloc(a)
                b.write(a[0:2], t(i), Q0, convergent=True)
                with b.loop("h", 0, 2) as h:
                    b.read(a[h], t(i), Q0)
                    b.write(part[i], t(i), Q0, reads=True, convergent=True)
                with b.when(at_least(j, 2)):
                    b.release(a)
        b.fence(t(0, count), {Q0, Q1}, {Q0, Q1}, transitive=True)
        with b.loop("i", 0, count) as i:
            b.read(part[mod(add(i, 1), count)], t(i), Q0, convergent=True)
            b.write(other[i], t(i), Q0, convergent=True)
            atomic = r.random() < 0.3
            at = result[add(mul(count, task), i)]
            if atomic:
                b.check(at, t(i), Q1, mutates=True, level=ATOMIC)
                b.check(at, t(i), Q1, mutates=False, level=TEMPORAL)
                b.clear(at, mutates=False)
                b.record(at, t(i), Q1, mutate=True, atomic={Q1})
            else:
                b.write(at, t(i), Q1)
        if r.random() < 0.3:
            b.fence(t(0, count), {Q0, Q1}, {Q0, Q1}, everything, transitive=True)
    b.fence(None, everything, everything, transitive=True)
    b.read(result[0:12], None, Q1, convergent=True)


def tiles(random: Random, b: Builder) -> None:
    """Kernels one after the other, each with tasks on the tiles of a matrix that they divide
    unevenly; a tile is staged in shared memory, and neighbours' edges may be read."""
    r = random
    everything = frozenset(TIMELINES)
    rows, columns, height, width = r.choice((3, 4, 5)), r.choice((5, 6)), 2, r.choice((2, 3))
    k = b.size("K")
    a, c = b.data("a", rows, columns), b.data("c", rows, columns)
    stage = b.data("stage", 2, height, width, shared=True)
    b.write(a[0:rows, 0:columns], None, Q1, convergent=True)
    down, across = -(-rows // height), -(-columns // width)
    atomic, halo, accumulate = r.random() < 0.3, r.choice((0, 0, 1)), r.random() < 0.5
    source, target = (a, c) if r.random() < 0.7 else (c, c)

    def tile(name: Name, i: Control, j: Control, more: int = 0) -> Access:
        top, left = mul(height, i), mul(width, j)
        return name[top : add(top, height + more), left : add(left, width + more)]

    def task(i: Control, j: Control, at: Control) -> None:
        b.alloc(stage)
        with b.loop("w", 0, 2) as w:
            b.read(tile(source, i, j, halo), t(w), Q1)
            b.write(stage[mod(add(w, at), 2), 0:height, 0:width], t(w), Q1)
        if r.random() < 0.8:
            b.fence(t(0, 2), {Q0, Q1}, {Q0, Q1}, everything, transitive=True)
        with b.loop("s", 0, 3) as s:
            b.read(stage[mod(s, 2), 0:height, 0:width], t(mod(add(s, 1), 2)), Q1)
        window = tile(target, i, j)
        if atomic:
            b.check(window, t(1), Q1, mutates=True, level=ATOMIC)
            b.check(window, t(1), Q1, mutates=False, level=TEMPORAL)
            b.clear(window, mutates=False)
            b.record(window, t(1), Q1, mutate=True, atomic={Q1})
        else:
            b.write(window, t(1), Q1, reads=accumulate)
        b.fence(t(0, 2), {Q0, Q1}, {Q0, Q1}, everything, transitive=True)
        b.free(stage[0:2, 0:height, 0:width], t(0, 2))
        b.release(stage)

    with b.loop("n", 0, k) as n:
        b.fence(None, everything, everything, transitive=True)
        with b.loop("i", 0, down, tasks=True) as i, b.tasks("j", 0, across) as j:
            task(i, j, r.choice((0, n, j)))
        b.fence(None, everything, everything, transitive=True)
    b.read(c[0:rows, 0:columns], None, Q1, convergent=True)


SHAPES: dict[str, Callable[[Random, Builder], None]] = {
    "straight_line": straight_line,
    "nested": nested,
    "tasked": tasked,
    "ring": ring,
    "multicast": multicast,
    "waits": waits,
    "groups": groups,
    "threads": threads,
    "tiles": tiles,
}
IDIOMS = ("ring", "multicast", "waits", "groups", "threads", "tiles")


def program(random: Random, shape: str, sizes: int = 2) -> Generated:
    """A program of the shape; idioms are mutated in up to three places."""
    b = Builder()
    SHAPES[shape](random, b)
    made = b.program(random.choice((Policy.PTX, Policy.PAPER)))
    if shape in IDIOMS:
        for _ in range(random.choice((0, 1, 1, 2, 3))):
            made = mutate(random, made)
    if not made.params:
        return Generated(made, ({},), shape)
    if shape == "tiles":
        # Kernels: each has all the tasks.
        return Generated(made, ({"K": 1}, {"K": random.choice((0, 2, 3))})[:sizes], shape)
    values = [random.randrange(0, 10) for _ in range(sizes - 1)]
    # Longer runs are there for the interpreter that skips; random code nests loops of that size.
    values.append(random.choice((5, 9, 13, 20) if shape in IDIOMS else (5, 7, 9)))
    return Generated(made, tuple({"K": k} for k in values), shape)


# --- mutations ----------------------------------------------------------------------------


def mutate(random: Random, made: amir.Program) -> amir.Program:
    """The program with one operation dropped, repeated, weakened or shifted."""
    sites = [op for op in _walk(made.body) if not isinstance(op, _FIXED)]
    syncs = [op for op in sites if isinstance(op, amir.Fence | amir.Arrive | amir.Await)]
    site = random.choice(syncs if syncs and random.random() < 0.6 else sites)
    return replace(made, body=_rewrite(made.body, site, _mutant(random, site)))


_FIXED = (amir.Loop, amir.IncTaskID, amir.Alloc, amir.Release, amir.CheckBarrier)


def _walk(block: amir.Block) -> list[amir.Op]:
    found: list[amir.Op] = []
    for op in block:
        found.append(op)
        if isinstance(op, amir.Loop | amir.Guard):
            found += _walk(op.body)
    return found


def _rewrite(block: amir.Block, site: amir.Op, new: amir.Block) -> amir.Block:
    made: list[amir.Op] = []
    for op in block:
        if op is site:
            made += new
        elif isinstance(op, amir.Loop | amir.Guard):
            body = _rewrite(op.body, site, new)
            made.append(op if body == op.body else replace(op, body=body))
        else:
            made.append(op)
    return tuple(made)


def _mutant(random: Random, op: amir.Op) -> amir.Block:
    """What takes the place of the operation."""
    if random.random() < 0.25 and not isinstance(op, amir.Guard):
        return ()
    match op:
        case amir.Guard():
            assert isinstance(op.condition, Compare)
            shifted = Add(op.condition.right, Int(random.choice((-1, 1))))
            return (replace(op, condition=replace(op.condition, right=shifted)),)
        case amir.Await():
            kind = random.randrange(5)
            if kind == 0:
                n = op.n + random.choice((-1, 1))
                return (replace(op, n=n if (n < 0) == (op.n < 0) else op.n),)
            if kind == 1:
                return (replace(op, full=frozenset()),)
            if kind == 2:
                return (replace(op, full=some(random), temporal=some(random)),)
            if kind == 3:
                return (replace(op, barrier=_shifted(random, op.barrier)),)
            return (replace(op, origin=_others(random, op.origin)),)
        case amir.Arrive():
            kind = random.randrange(4)
            if kind == 0:
                return (replace(op, pre=some(random), transitive=random.random() < 0.5),)
            if kind == 1:
                return (replace(op, targets=(op.home,)),)
            if kind == 2:
                home = _shifted(random, op.home)
                return (replace(op, home=home, targets=(home, *op.targets[1:])),)
            return (replace(op, origin=_others(random, op.origin)),)
        case amir.Fence():
            kind = random.randrange(4)
            if kind == 0:
                return (replace(op, full=frozenset()),)
            if kind == 1:
                return (replace(op, pre=some(random), transitive=random.random() < 0.5),)
            if kind == 2:
                return (replace(op, full=some(random), temporal=some(random)),)
            return (replace(op, origin=_others(random, op.origin)),)
        case amir.Record():
            kind = random.randrange(4)
            if kind == 0:
                return (replace(op, access=_shifted(random, op.access)),)
            if kind == 1:
                return (replace(op, trailing=_other_tags(random, op.trailing)),)
            if kind == 2:
                return (replace(op, level=level(random), convergent=random.random() < 0.5),)
            return (replace(op, origin=_others(random, op.origin)),)
        case amir.Check():
            if random.random() < 0.5:
                return (replace(op, access=_shifted(random, op.access)),)
            return (replace(op, timelines=some(random), convergent=random.random() < 0.5),)
        case amir.Clear():
            return (replace(op, access=_shifted(random, op.access)),)
        case _:
            raise AssertionError(op)


def _other_tags(random: Random, trailing: amir.Trailing | None) -> amir.Trailing | None:
    """No tags; or those of the home alone, or of everything in the home's line."""
    if trailing is None or random.random() < 0.4:
        return None
    if random.random() < 0.5:
        return replace(trailing, targets=(trailing.home,))
    dim = random.randrange(len(trailing.home.coords) or 1)
    coords = tuple(
        Interval(Int(0), Int(2)) if at == dim else coord
        for at, coord in enumerate(trailing.home.coords)
    )
    return replace(trailing, targets=(replace(trailing.home, coords=coords),))


def _others(random: Random, origin: amir.Origin) -> amir.Origin:
    """Other threads."""
    if origin.threads is None:
        return origin
    axes = origin.threads.axes
    if random.random() < 0.5:
        moved = tuple(replace(a, offset=Add(a.offset, Int(1))) for a in axes)
        return replace(origin, threads=ThreadMap(moved))
    fewer = tuple(ThreadAxis(a.pitch, a.offset, max(a.extent - 1, 1)) for a in axes)
    return replace(origin, threads=ThreadMap(fewer))


def _shifted(random: Random, access: Access) -> Access:
    """Another element, inside the variable as before: only remainders are shifted."""
    coords = tuple(
        Point(replace(c.at, term=Add(c.at.term, Int(random.choice((1, 2))))))
        if isinstance(c, Point) and hasattr(c.at, "divisor")
        else c
        for c in access.coords
    )
    return replace(access, coords=coords)
