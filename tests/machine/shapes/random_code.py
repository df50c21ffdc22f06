"""Random code that mixes everything: in a line, in loops and guards, in tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from exogpu.amir import nodes as amir
from exogpu.analysis.threadmap import ThreadMap
from exogpu.ir.nodes import Access, Compare, Int
from exogpu.ir.types import BarrierMechanism
from tests.machine.build import (
    CLUSTER,
    COMMIT,
    MBARRIER,
    Builder,
    Control,
    Name,
    add,
    div,
    mod,
    sub,
    t,
)
from tests.machine.shapes.drawing import TIMELINES, level, some


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
