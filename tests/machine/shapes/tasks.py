"""Code of tasks on global memory: scalar threads, and kernels on tiles."""

from __future__ import annotations

from random import Random

from exogpu.ir.nodes import Access
from tests.machine.build import (
    ATOMIC,
    Q0,
    Q1,
    TEMPORAL,
    Builder,
    Control,
    Name,
    add,
    at_least,
    mod,
    mul,
    t,
)
from tests.machine.shapes.drawing import TIMELINES


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
