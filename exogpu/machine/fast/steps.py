"""Compiles AMIR to Python functions, one a step; each runs a rule of the abstract machine."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, assert_never

from exogpu.amir import nodes as amir
from exogpu.amir.walk import is_task
from exogpu.ir.affine import combine
from exogpu.ir.nodes import Access, CVar
from exogpu.machine.concrete_program import deals
from exogpu.machine.fast.accesses import access_steps
from exogpu.machine.fast.affine_code import comparisons, number, truth
from exogpu.machine.fast.configuration import Context, Machine, Nest, Step, slot_value
from exogpu.machine.fast.layout import Unsupported
from exogpu.machine.fast.loop_skipping import Body, loop_step, whole_step
from exogpu.machine.fast.records import Tables, Threads
from exogpu.machine.fast.signature import Parts
from exogpu.machine.fast.sweeps import LEAST, MOST, Sweep, instances
from exogpu.machine.fast.visibility_updates import Lift, Rule, arrive, await_, fence
from exogpu.machine.required_conditions import is_told_by_slots

# Synchronisation: Fence, Arrive, Await, and the check of a barrier at its free.

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


def fence_step(context: Context, op: amir.Fence, parts: Parts) -> Step:
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


def arrive_step(context: Context, op: amir.Arrive, nest: Nest, parts: Parts) -> Step:
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


def await_step(context: Context, op: amir.Await, nest: Nest, parts: Parts) -> Step:
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
        barrier.record_await(at, bound, new, op, threads)

    return step


def free_step(context: Context, op: amir.CheckBarrier, nest: Nest, parts: Parts) -> Step:
    """CheckBarrier."""
    machine = context.machine
    now = context.barrier(op.name)
    parts.barriers.add(op.name)

    def step() -> None:
        machine.report_barrier(op, nest, op.name, now().check_free())

    return step


def _lifts(parts: Parts, op: amir.Fence | amir.Arrive | amir.Await) -> None:
    parts.lifts = True
    parts.cpu |= op.origin.threads is None


def block_steps(context: Context, block: amir.Block, nest: Nest, parts: Parts) -> tuple[Step, ...]:
    """Seq: `s1; s2`.  Adds to `parts` what the block depends on."""
    steps: list[Step] = []
    accesses: list[amir.OnWindow] = []
    for op in block:
        if isinstance(op, amir.OnWindow):
            accesses.append(op)
            continue
        steps += access_steps(context, accesses, nest, parts)
        accesses = []
        match op:
            case amir.Loop(source=Access() as source):
                steps.append(_load(context, op, source, nest, parts))
            case amir.Loop(slot=Access() as home):
                steps.append(_slot(context, op, home, nest, parts))
            case amir.Loop():
                steps.append(_loop(context, op, nest, parts))
            case amir.Guard():
                steps.append(_guard(context, op, nest, parts))
            case amir.IncTaskID():
                parts.lifts = parts.tasks = True
                steps.append(context.machine.next_task)
            case amir.Alloc() | amir.Release():
                steps += _lifetime(context, op, parts)
            case amir.Fence():
                steps.append(fence_step(context, op, parts))
            case amir.Arrive():
                steps.append(arrive_step(context, op, nest, parts))
            case amir.Await():
                steps.append(await_step(context, op, nest, parts))
            case amir.CheckBarrier():
                steps.append(free_step(context, op, nest, parts))
            case amir.Require() if is_told_by_slots(op, context.machine.layout.slots):
                steps.append(_require(context, op, parts))
            case amir.Require():
                pass  # `requirements_at_sizes` has seen to it
            case _:
                assert_never(op)
    return (*steps, *access_steps(context, accesses, nest, parts))


def _loop(context: Context, op: amir.Loop, nest: Nest, parts: Parts) -> Step:
    """LoopStep, LoopDone: the body once for each y in `[lo, hi)`."""
    scope = context.scope
    own = context.machine.layout.iterators[op]
    slot = scope.slots[own]
    lo, hi = scope.form(op.lo), scope.form(op.hi)
    inside = Parts()
    count = None if context.swept else instances(context, op)
    swept = count is not None and LEAST <= count <= MOST and context.machine.skips
    context.swept |= swept
    with scope.enter_loop(op.iterator, own):
        steps = block_steps(context, op.body, (*nest, (op.iterator.name, slot)), inside)
    once = not (lo.terms or hi.terms) and hi.constant - lo.constant < 2
    # Each iteration is a task of its own number; what is alike is found in the tasks' own loop.
    once |= deals(op.body)
    first, end = number(scope.source(lo)), number(scope.source(hi))
    around = len(op.body) == 1 and op.body[0] in context.at_once
    extent = combine((1, hi), (-1, lo))
    if (around or is_task(op)) and not extent.terms and extent.constant > 0:
        context.at_once.add(op)
    body = Body(slot, first, end, steps, len(op.body), is_task(op), once, around)
    step = loop_step(context.machine, body, inside)
    inside.inner.add(own)
    if swept:
        step = Sweep(context, op, nest, inside).step(step)
        context.swept = False
    inside.exact |= {lo: None, hi: None}
    parts.add(inside)
    return whole_step(context.machine, step, inside) if nest and not once else step


def _load(context: Context, op: amir.Loop, source: Access, nest: Nest, parts: Parts) -> Step:
    """LoopStep of a value from memory (decision `loaded-values`): the body once, for the value."""
    e = context.machine.values
    slot = context.scope.slots[context.machine.layout.iterators[op]]
    with context.scope.enter_load(op.iterator, source):
        value = number(context.scope.source(context.scope.form(CVar(op.iterator))))
        steps = block_steps(context, op.body, (*nest, (op.iterator.name, slot)), parts)
    return _run_once(context.machine, slot, lambda: value(e), steps, len(op.body))


def _slot(context: Context, op: amir.Loop, home: Access, nest: Nest, parts: Parts) -> Step:
    """LoopStep of a slot (decision `slots`): the body once, for the number of Arrives."""
    own = context.machine.layout.iterators[op]
    slot, value = context.scope.slots[own], slot_value(context, op, home, parts)
    with context.scope.enter_loop(op.iterator, own):
        steps = block_steps(context, op.body, (*nest, (op.iterator.name, slot)), parts)
    return _run_once(context.machine, slot, value, steps, len(op.body))


def _run_once(
    machine: Machine, slot: int, value: Callable[[], int], steps: tuple[Step, ...], size: int
) -> Step:
    e = machine.values

    def step() -> None:
        e[slot] = value()
        machine.operations += size
        for inner in steps:
            inner()

    return step


def _guard(context: Context, op: amir.Guard, nest: Nest, parts: Parts) -> Step:
    """IF-True, IF-False."""
    machine, e = context.machine, context.machine.values
    holds = truth(context.scope.condition(op.condition))
    for comparison in comparisons(op.condition):
        parts.compared[context.scope.difference(comparison)] = None
    steps, size = block_steps(context, op.body, nest, parts), len(op.body)

    def step() -> None:
        if holds(e):
            machine.operations += size
            for inner in steps:
                inner()

    return step


def _require(context: Context, op: amir.Require, parts: Parts) -> Step:
    """Require, of slots.  Raises Unsupported where it is not met, which is not told here."""
    e, scope = context.machine.values, context.scope
    conditions = [truth(scope.condition(condition)) for condition in op.conditions]
    for condition in op.conditions:
        for comparison in comparisons(condition):
            parts.compared[scope.difference(comparison)] = None

    def step() -> None:
        if not all(holds(e) for holds in conditions):
            raise Unsupported("a requirement of slots is not met")

    return step


def _lifetime(context: Context, op: amir.Alloc | amir.Release, parts: Parts) -> list[Step]:
    """Alloc, and the end of a variable's lifetime."""
    machine, name = context.machine, op.name
    if name in machine.barriers:
        parts.barriers.add(name)
        parts.lifts = True
    elif name not in machine.layout.stores:
        return []
    parts.fresh.add(name)
    act = machine.allocate if isinstance(op, amir.Alloc) else machine.release
    return [lambda: act(name)]
