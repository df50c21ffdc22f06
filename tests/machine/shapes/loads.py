"""Programs that load values: two sizes, `G` tasks and `K` elements or steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from random import Random

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import Access, And, Compare, Contract, CVar
from tests.machine.build import Q1, Builder, Control, Name, add, c, mod, mul, t


@contextmanager
def load(b: Builder, source: Access, lo: Control, hi: Control, name: str = "b") -> Iterator[CVar]:
    """In the block, what an array has at an element."""
    with b.loop(name, lo, hi) as iterator:
        yield iterator
    loop = b.blocks[-1][-1]
    assert isinstance(loop, amir.Loop)
    bound = amir.Loop(loop.iterator, loop.lo, loop.hi, loop.body, loop.origin, source=source)
    b.blocks[-1][-1] = bound


def loads(random: Random, policy: Policy) -> amir.Program:
    """One of several uses of loaded values, as it should be or with a change: another element, a
    contract that is missing, a Fence that is, another range."""
    b = Builder()
    outer, steps = b.size("G"), b.size("K")
    made = random.choice((rows, scatter, shared, trips, pages))
    table, assumed = made(random, b, outer, steps)
    program = b.program(policy)
    chosen = [kind for kind in assumed if random.random() < 0.75]
    contracts = tuple(Contract(kind, table.sym) for kind in chosen)
    return replace(program, contracts=contracts)


Assumed = tuple[str, ...]


def rows(r: Random, b: Builder, outer: CVar, steps: CVar) -> tuple[Name, Assumed]:
    """Tasks that write the rows between two offsets: bounds, or a guard."""
    table = b.data("table", add(outer, 2))
    data = b.data("x", add(steps, 4))
    ahead, shift = r.choice((1, 1, 1, 2, 0)), r.choice((0, 0, 0, 1))
    guarded, most = r.random() < 0.5, r.choice((2, 3))
    with (
        b.tasks("g", 0, outer) as g,
        load(b, table[g], 0, add(steps, 1), "begin") as begin,
        load(b, table[add(g, ahead)], r.choice((0, 0, begin)), add(steps, 1), "end") as end,
    ):
        if guarded:
            with b.loop("m", 0, most) as m, b.when(Compare("<", add(begin, m), c(end))):
                b.write(data[add(add(begin, m), shift)], t(0), Q1)
        else:
            with b.loop("m", begin, end) as m:
                b.write(data[m], t(0), Q1)
                if shift:
                    b.read(data[add(m, 1)], t(0), Q1)
    return table, ("monotone",)


def scatter(r: Random, b: Builder, outer: CVar, steps: CVar) -> tuple[Name, Assumed]:
    """Tasks that write where a permutation says, by threads or not, and perhaps read elsewhere."""
    table, data = b.data("table", mul(2, outer)), b.data("x", add(steps, 2))
    index: Callable[[CVar], Control] = r.choice(
        (lambda g: g, lambda g: g, lambda g: mod(g, 2), lambda g: add(g, outer))
    )
    again = r.random() < 0.3
    with b.tasks("g", 0, outer) as g, load(b, table[index(g)], 0, add(steps, 1)) as j:
        b.write(data[j], t(0), Q1)
        if again:
            with load(b, table[index(g)], 0, add(steps, 1), "again") as k:
                b.read(data[k], t(r.choice((0, 0, 1))), Q1)
        if r.random() < 0.2:
            b.read(data[add(j, 1)], t(0), Q1)
    return table, r.choice((("injective",), ("injective",), ("monotone",)))


def shared(r: Random, b: Builder, outer: CVar, steps: CVar) -> tuple[Name, Assumed]:
    """One thread writes where the table says, another reads what it loads itself, after a Fence or
    without one."""
    table, tile = b.data("table", add(steps, 2)), b.data("tile", 4, shared=True)
    fenced, closed, ahead = r.random() < 0.8, r.random() < 0.8, r.choice((0, 0, 0, 1))
    differ = r.random() < 0.3
    loop = b.loop("k", 0, steps) if r.random() < 0.6 else nullcontext(c(0))
    with b.tasks("g", 0, outer):
        b.alloc(tile)
        with loop as k:
            with load(b, table[k], 0, 4, "mine") as mine:
                b.write(tile[mine], t(0), Q1)
            if fenced:
                b.fence(t(0, 2), Q1, Q1)
            with load(b, table[add(k, ahead)], 0, 4, "other") as other:
                when = Compare("!=", c(other), mod(k, 4))
                with b.when(when) if differ else nullcontext():
                    b.read(tile[other], t(1), Q1)
            if closed:
                b.fence(t(0, 2), Q1, Q1)
        b.release(tile)
    return table, ("injective",)


def trips(r: Random, b: Builder, outer: CVar, steps: CVar) -> tuple[Name, Assumed]:
    """A ring between two threads, of as many steps as the table says, or with a guard on it."""
    table = b.data("table", outer)
    ring = r.choice((1, 2))
    tile = b.data("tile", ring, shared=True)
    full = b.barrier("full", depth=None)
    empty = b.barrier("empty", depth=None, guard=full)
    inside, guarded, half = r.random() < 0.7, r.random() < 0.3, r.random() < 0.15
    skip = -ring - 1 - r.choice((0, 0, 0, 1))
    with b.tasks("g", 0, outer) as g:
        if not inside:
            b.alloc(full)
            b.alloc(empty)
        with load(b, table[g], 0, add(steps, 1), "n") as n:
            if inside:
                b.alloc(full)
                b.alloc(empty)
            b.alloc(tile)
            with b.loop("k", 0, steps if guarded else n) as k:
                when = Compare("<", k, n)
                with b.when(when) if guarded else nullcontext():
                    b.await_(empty[()], t(0), (), Q1, skip)
                    b.write(tile[mod(k, ring)], t(0), Q1)
                    b.arrive(t(0), Q1, full[()])
                    once = And(when, Compare("<", k, c(2)))
                    with b.when(once) if half else nullcontext():
                        b.await_(full[()], t(1), Q1, Q1)
                    b.read(tile[mod(k, ring)], t(1), Q1)
                    b.arrive(t(1), Q1, empty[()], transitive=True)
            b.fence(t(0, 2), Q1, Q1)
            b.release(tile)
            if inside:
                b.free_barrier(empty)
                b.free_barrier(full)
        if not inside:
            b.free_barrier(empty)
            b.free_barrier(full)
    return table, ("monotone",)


def pages(r: Random, b: Builder, outer: CVar, steps: CVar) -> tuple[Name, Assumed]:
    """Values that tell which others are loaded."""
    table = b.data("table", add(steps, 1))
    data = b.data("x", add(steps, 1), outer)
    by_task = r.random() < 0.7
    with b.tasks("g", 0, outer) as g, b.loop("k", 0, steps) as k:
        with (
            load(b, table[k], 0, add(steps, 1), "p") as p,
            load(b, table[p], 0, add(steps, 1), "q") as q,
        ):
            b.write(data[q, g if by_task else 0], t(0), Q1)
            if r.random() < 0.4:
                b.read(data[p, g if by_task else 0], t(1), Q1)
        b.fence(t(0, 2), Q1, Q1)
    return table, ("injective",)
