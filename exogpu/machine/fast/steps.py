"""Compiles AMIR to Python functions, one a step; each runs a rule of the abstract machine."""

from __future__ import annotations

from typing import assert_never

from exogpu.amir.nodes import (
    Alloc,
    Arrive,
    Await,
    Block,
    CheckBarrier,
    Fence,
    Guard,
    IncTaskID,
    Loop,
    OnWindow,
    Release,
    Require,
)
from exogpu.amir.walk import is_task
from exogpu.ir.affine import combine
from exogpu.machine.assigned import deals
from exogpu.machine.fast.accesses import access_steps
from exogpu.machine.fast.context import Context, Step
from exogpu.machine.fast.control import comparisons, number, truth
from exogpu.machine.fast.loops import Body, loop_step
from exogpu.machine.fast.machine import Nest
from exogpu.machine.fast.parts import Parts
from exogpu.machine.fast.sweeps import LEAST, MOST, Sweep, instances
from exogpu.machine.fast.syncs import arrive_step, await_step, fence_step, free_step


def block_steps(context: Context, block: Block, nest: Nest, parts: Parts) -> tuple[Step, ...]:
    """Seq: `s1; s2`.  Adds to `parts` what the block depends on."""
    steps: list[Step] = []
    accesses: list[OnWindow] = []
    for op in block:
        if isinstance(op, OnWindow):
            accesses.append(op)
            continue
        steps += access_steps(context, accesses, nest, parts)
        accesses = []
        match op:
            case Loop():
                steps.append(_loop(context, op, nest, parts))
            case Guard():
                steps.append(_guard(context, op, nest, parts))
            case IncTaskID():
                parts.lifts = parts.tasks = True
                steps.append(context.machine.next_task)
            case Alloc() | Release():
                steps += _lifetime(context, op, parts)
            case Fence():
                steps.append(fence_step(context, op, parts))
            case Arrive():
                steps.append(arrive_step(context, op, nest, parts))
            case Await():
                steps.append(await_step(context, op, nest, parts))
            case CheckBarrier():
                steps.append(free_step(context, op, nest, parts))
            case Require():
                pass  # `required` has seen to it
            case _:
                assert_never(op)
    return (*steps, *access_steps(context, accesses, nest, parts))


def _loop(context: Context, op: Loop, nest: Nest, parts: Parts) -> Step:
    """LoopStep, LoopDone: the body once for each y in `[lo, hi)`."""
    scope = context.scope
    own = context.machine.layout.iterators[op]
    slot = scope.slots[own]
    lo, hi = scope.form(op.lo), scope.form(op.hi)
    inside = Parts()
    count = None if context.swept else instances(context, op)
    swept = count is not None and LEAST <= count <= MOST and context.machine.skips
    context.swept |= swept
    with scope.inside(op.iterator, own):
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
    parts.add(inside)
    parts.exact |= {lo: None, hi: None}
    return step


def _guard(context: Context, op: Guard, nest: Nest, parts: Parts) -> Step:
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


def _lifetime(context: Context, op: Alloc | Release, parts: Parts) -> list[Step]:
    """Alloc, and the end of a variable's lifetime."""
    machine, name = context.machine, op.name
    if name in machine.barriers:
        parts.barriers.add(name)
        parts.lifts = True
    elif name not in machine.layout.stores:
        return []
    parts.fresh.add(name)
    act = machine.allocate if isinstance(op, Alloc) else machine.release
    return [lambda: act(name)]
