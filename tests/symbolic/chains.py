"""Random programs rich in chains: few accesses, many syncs between them.

`tests.machine.generate` mixes everything; here a record meets a check over two to six Fences and
Arrive-Await pairs by overlapping threads, so that transitivity, levels and classes decide.
"""

from __future__ import annotations

from random import Random

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.types import QualTL, SyncSets
from tests.machine.build import (
    ATOMIC,
    COMMIT,
    FULL,
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
    mod,
    t,
)

TIMELINES = (Q0, Q1, Q2, TMA)
THREADS = 4


def some(random: Random, p: float) -> frozenset:
    return frozenset(q for q in TIMELINES if random.random() < p)


def group(random: Random, k: Control):
    """One to three neighbouring threads, sometimes another in each iteration."""
    first: Control = random.randrange(THREADS)
    if random.random() < 0.3:
        first = mod(add(k, random.randrange(THREADS)), THREADS)
    return t(first, random.choice((1, 2, 2, 3)))


def fence(random: Random, b: Builder, k: Control) -> None:
    pre = some(random, 0.4) or {random.choice(TIMELINES)}
    full, temporal = some(random, 0.35), some(random, 0.35)
    b.fence(group(random, k), pre, full, temporal, transitive=random.random() < 0.5)


def sync(random: Random, b: Builder, barriers: list[tuple[Name, int]], k: Control) -> None:
    """A Fence, or an Arrive with its Await; an Await may also wait for an older Arrive."""
    if random.random() < 0.6:
        fence(random, b, k)
        return
    pre = some(random, 0.4) or {random.choice(TIMELINES)}
    full, temporal = some(random, 0.35), some(random, 0.35)
    transitive = random.random() < 0.5
    barrier, n = random.choice(barriers)
    at = barrier[mod(add(k, random.randrange(2)), 2)]
    b.arrive(group(random, k), pre, at, transitive=transitive)
    b.await_(at, group(random, k), full, temporal, n)


def access(random: Random, b: Builder, x: Name, k: Control) -> None:
    level = random.choice((FULL, UNORDERED, UNORDERED, TEMPORAL))
    convergent = random.random() < 0.4
    element = x[mod(add(k, random.randrange(2)), 2)]
    q = random.choice(TIMELINES)
    if random.random() < 0.2:
        atomic = {q} | some(random, 0.3)
        b.check(element, group(random, k), {q}, mutates=True, level=ATOMIC)
        b.record(element, group(random, k), q, mutate=True, level=level, atomic=atomic)
    else:
        b.record(
            element,
            group(random, k),
            q,
            mutate=random.random() < 0.6,
            level=level,
            convergent=convergent,
        )


def check(random: Random, b: Builder, x: Name, k: Control, *, mutates: bool) -> None:
    b.check(
        x[mod(add(k, random.randrange(2)), 2)],
        group(random, k),
        some(random, 0.3) or {random.choice(TIMELINES)},
        mutates=mutates,
        level=random.choice((FULL, FULL, TEMPORAL, UNORDERED)),
        convergent=random.random() < 0.5,
    )


def fences(random: Random) -> amir.Program:
    """Fences alone, three to nine between accesses: who may fire which one decides."""
    b = Builder()
    count = b.size("K")
    x = b.data("x", 2)

    def body(k: Control) -> None:
        for _ in range(random.randrange(1, 4)):
            access(random, b, x, k)
            for _ in range(random.randrange(1, 4)):
                fence(random, b, k)
        for mutates in (True, False):
            check(random, b, x, k, mutates=mutates)
        if random.random() < 0.5:
            b.clear(x[mod(k, 2)], mutates=random.random() < 0.5)

    body(0)
    with b.loop("k", random.choice((0, 0, 1)), count) as k:
        body(k)
    return b.program(random.choice((Policy.PTX, Policy.PAPER)))


ROWS = (
    *("cuda_in_order",) * 4,
    *("cuda_generic_and_async",) * 2,
    *("cuda_temporal", "cuda_async_proxy", "tma_to_smem_async", "wgmma_async_smem"),
    *("wgmma_fence_1", "wgmma_fence_2", "Sm80_generic", "cuda_stream_sync"),
)
"""Sync timelines of the language, the common ones more often."""


def proxies(random: Random) -> amir.Program:
    """Ordinary and async accesses, and syncs of the language's timelines: whether a proxy fence
    stands on the way, and by which threads, decides."""
    b = Builder()
    count = b.size("K")
    x, z = b.data("x", 2), b.barrier("z", 2, mechanism=COMMIT)
    policy = random.choice((Policy.PTX, Policy.PTX, Policy.PAPER))
    b.alloc(z)

    def row() -> tuple[bool, SyncSets]:
        timeline = SYNC_TIMELINES[random.choice(ROWS)]
        return timeline.transitive, timeline.sets_under(policy)

    def one(k: Control) -> None:
        (transitive, pre), (_, post) = row(), row()
        if random.random() < 0.5:
            first = group(random, k)
            b.fence(first, pre.full, post.full, post.temporal, transitive=transitive)
            return
        at = z[mod(add(k, random.randrange(2)), 2)]
        b.arrive(group(random, k), pre.full, at, transitive=transitive)
        b.await_(at, group(random, k), post.full, post.temporal, random.choice((0, 0, 0, 1)))

    def body(k: Control) -> None:
        for _ in range(random.randrange(1, 3)):
            q = random.choice((Q1, Q1, Q1, TMA, WGS, QualTL.WG_D, Q0))
            level = UNORDERED if q in (TMA, WGS) and random.random() < 0.8 else FULL
            element = x[mod(add(k, random.randrange(2)), 2)]
            mutate, convergent = random.random() < 0.6, random.random() < 0.3
            b.record(
                element, group(random, k), q, mutate=mutate, level=level, convergent=convergent
            )
            for _ in range(random.randrange(1, 5)):
                one(k)
        for mutates in (True, False):
            b.check(
                x[mod(add(k, random.randrange(2)), 2)],
                group(random, k),
                random.choice((Q1, TMA, TMA, WGS, QualTL.TMA_G, QualTL.WG_D)),
                mutates=mutates,
                level=random.choice((FULL, FULL, TEMPORAL)),
                convergent=random.random() < 0.4,
            )
        if random.random() < 0.5:
            b.clear(x[mod(k, 2)], mutates=random.random() < 0.5)

    if random.random() < 0.5:
        with b.loop("k", 0, count) as k:
            body(k)
    else:
        body(0)
    return b.program(policy)


def program(random: Random) -> amir.Program:
    """A chain, in a loop of `K` trips or straight."""
    b = Builder()
    count = b.size("K")
    x = b.data("x", 2)
    z0 = b.barrier("z0", 2, depth=random.choice((None, 1, 1, 2)))
    z1 = b.barrier("z1", 2, mechanism=COMMIT)
    barriers = [(z0, random.choice((-1, -1, -2))), (z1, random.choice((0, 0, 1)))]
    b.alloc(z0)
    b.alloc(z1)

    def body(k: Control) -> None:
        for _ in range(random.randrange(1, 3)):
            access(random, b, x, k)
            for _ in range(random.randrange(1, 4)):
                sync(random, b, barriers, k)
        for mutates in (True, False):
            check(random, b, x, k, mutates=mutates)
        if random.random() < 0.5:
            b.clear(x[mod(k, 2)], mutates=random.random() < 0.5)

    if random.random() < 0.6:
        with b.loop("k", 0, count) as k:
            body(k)
    else:
        body(0)
        body(1)
    return b.program(random.choice((Policy.PTX, Policy.PAPER)))
