"""Synchronisation: Fence, Arrive, Await, and the check of a barrier at its free."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from exogpu.amir.nodes import Arrive, Await, CheckBarrier, Fence
from exogpu.machine.fast.context import Context, Step
from exogpu.machine.fast.lifts import Lift, Rule, arrive, await_, fence
from exogpu.machine.fast.machine import Nest
from exogpu.machine.fast.parts import Parts
from exogpu.machine.fast.records import Tables, Threads

KEPT: Final = 1 << 12
"""Lifts that an operation keeps before it starts anew."""


class _Lifts:
    """The lifts of one operation, by what they depend on."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: dict[Hashable, Lift] = {}

    def get(self, key: Hashable) -> Lift | None:
        return self._known.get(key)

    def make(self, key: Hashable, rule: Rule, threads: Threads, elements: int) -> Lift:
        if len(self._known) >= KEPT:
            self._known.clear()
        lift = self._known[key] = Lift(self._tables, rule, threads, elements)
        return lift


def fence_step(context: Context, op: Fence, parts: Parts) -> Step:
    """Fence."""
    machine, e = context.machine, context.machine.values
    masks = context.masks(op.origin.threads, parts)
    sync = machine.layout.syncs[op]
    known = _Lifts(machine.tables)
    _lifts(parts, op)

    def step() -> None:
        threads = masks(e)
        lift = known.get(threads) or known.make(threads, fence(sync, threads), threads, 0)
        machine.classes.lift(lift)

    return step


def arrive_step(context: Context, op: Arrive, nest: Nest, parts: Parts) -> Step:
    """Arrive."""
    machine, e = context.machine, context.machine.values
    masks = context.masks(op.origin.threads, parts)
    home, targets = context.element(op.home, parts), context.elements(op.targets, parts)
    now = context.barrier(op.home.name)
    sync = machine.layout.syncs[op]
    first = machine.layout.barriers[op.home.name].first
    known = _Lifts(machine.tables)
    _lifts(parts, op)

    def step() -> None:
        threads, at, to = masks(e), home(e), targets(e)
        barrier = now()
        failures = barrier.check_arrive(at, to, threads)
        machine.report_barrier(op, nest, op.home.name, failures)
        tags, rise = barrier.tags(at, to), barrier.rise(at)
        shift = (first + at, rise) if rise else None
        if tags or shift:
            key = (threads, tags, shift)
            lift = known.get(key)
            if lift is None:
                shifted = 1 << shift[0] if shift else 0
                lift = known.make(key, arrive(sync, threads, tags, shift), threads, shifted)
            machine.classes.lift(lift)
        barrier.arrived(at, to, threads)

    return step


def await_step(context: Context, op: Await, nest: Nest, parts: Parts) -> Step:
    """Await."""
    machine, e = context.machine, context.machine.values
    masks = context.masks(op.origin.threads, parts)
    element = context.element(op.barrier, parts)
    now = context.barrier(op.barrier.name)
    sync = machine.layout.syncs[op]
    first = machine.layout.barriers[op.barrier.name].first
    known = _Lifts(machine.tables)
    _lifts(parts, op)

    def step() -> None:
        threads, at = masks(e), element(e)
        barrier = now()
        bound, new = barrier.counts(at, op.n)
        failures = barrier.check_await(at, bound, threads)
        machine.report_barrier(op, nest, op.barrier.name, failures)
        rise = barrier.await_rise(at, new)
        shift = (first + at, rise) if rise else None
        key = (threads, at, bound - barrier.floor(at), rise)
        lift = known.get(key)
        if lift is None:
            rule = await_(sync, threads, first + at, key[2], shift)
            lift = known.make(key, rule, 0, 1 << (first + at))
        machine.classes.lift(lift)
        barrier.awaited(at, bound, new, op, threads)

    return step


def free_step(context: Context, op: CheckBarrier, nest: Nest, parts: Parts) -> Step:
    """CheckBarrier."""
    machine = context.machine
    now = context.barrier(op.name)
    parts.barriers.add(op.name)

    def step() -> None:
        machine.report_barrier(op, nest, op.name, now().check_free())

    return step


def _lifts(parts: Parts, op: Fence | Arrive | Await) -> None:
    parts.lifts = True
    parts.cpu |= op.origin.threads is None
