"""Rings that run on past tasks that are left out: two sizes, `I` tasks and `K` steps.

Around all that a task does stands a condition, or two; in wrong programs something stands beside
it, which tasks do that are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from random import Random

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import BExpr, Compare, Contract, CVar, Int
from tests.machine.build import Q0, Q1, Q2, Builder, Control, Name, add, c, mod, t
from tests.machine.shapes.drawing import TIMELINES
from tests.machine.shapes.loads import load
from tests.machine.shapes.mutate import mutate
from tests.machine.shapes.resident import resident
from tests.machine.shapes.slots import slots

MOST = 3
"""What is loaded is less."""


def left_out(random: Random, policy: Policy) -> amir.Program:
    """A ring of `resident` or `slots` under a condition, as it should be or with a change; at times
    launched twice."""
    r, b, launch = random, Builder(), None
    ring = r.choice((resident, slots))
    with ExitStack() as stack:
        launches = r.random() < 0.15
        if launches:
            launch = stack.enter_context(b.loop("launch", 0, 2))
            b.fence(None, TIMELINES, TIMELINES, TIMELINES, transitive=True)
        ring(r, b, lambda made, task: _around(_Task(r, made, task, launch)))
        if launches:
            b.fence(None, TIMELINES, TIMELINES, TIMELINES, transitive=True)
    program = b.program(policy)
    for _ in range(r.choice((0, 0, 0, 1, 2))):
        program = mutate(r, program)
    kinds = [kind for kind in ("injective", "monotone") if r.random() < 0.25]
    counts = [v.name for v in program.variables if v.name.name == "counts"]
    return replace(program, contracts=tuple(Contract(k, name) for k in kinds for name in counts))


@dataclass
class _Task:
    """A task, and what is known of it so far."""

    random: Random
    builder: Builder
    iterator: CVar
    launch: CVar | None
    loaded: list[CVar] = field(default_factory=list)
    conditions: list[BExpr] = field(default_factory=list)


@contextmanager
def _around(task: _Task) -> Iterator[None]:
    """Draws what stands around all that a task does, and beside that."""
    r, b = task.random, task.builder
    tasks, steps = (CVar(one.name) for one in b.params)
    counts, table = b.data("counts", tasks), b.data("table", MOST)
    data = b.data("y", add(tasks, 4))
    before, inside, after = (r.random() < p for p in (0.12, 0.7, 0.06))
    with ExitStack() as around:
        if before:
            _beside(task, data)
        for _ in range(r.choice((0, 1, 1, 1, 2, 2))):
            condition = _condition(task, around, steps, counts, table)
            task.conditions.append(condition)
            around.enter_context(b.when(condition))
        if inside:
            _access(task, data)
        yield
        if inside and r.random() < 0.5:
            _access(task, data)
    if after:
        _beside(task, data)


def _condition(task: _Task, around: ExitStack, steps: CVar, counts: Name, table: Name) -> BExpr:
    """A condition on the task, on sizes, or on what is loaded for it."""
    r, at = task.random, task.iterator
    kind = r.choice(("load",) * 4 + ("place", "task", "task", "size", "launch", "same"))
    if kind == "same" and task.conditions and r.random() < 0.5:
        return task.conditions[-1]
    if kind in ("load", "place") or (kind == "same" and task.loaded):
        if kind != "same":
            where = counts[at] if kind == "load" else table[r.choice((0, 1))]
            if task.loaded and kind == "load" and r.random() < 0.5:
                where = table[task.loaded[-1]]
            name = f"n{len(task.loaded)}"
            task.loaded.append(around.enter_context(load(task.builder, where, 0, MOST, name)))
        value = task.loaded[-1]
        return r.choice(
            (
                Compare(">", value, Int(0)),
                Compare("==", value, Int(r.choice((0, 1)))),
                Compare("!=", value, Int(1)),
                Compare("<=", value, at),
                Compare("<", value, steps),
            )
        )
    if kind == "size":
        return r.choice((Compare(">", steps, Int(1)), Compare("==", mod(steps, 2), Int(0))))
    if kind == "launch" and task.launch is not None:
        return r.choice((Compare("==", task.launch, Int(1)), Compare("<=", task.launch, at)))
    return r.choice(
        (
            Compare("<", at, steps),
            Compare("!=", at, Int(1)),
            Compare("==", at, Int(r.choice((0, 1)))),
            Compare("==", mod(at, 2), Int(r.choice((0, 1)))),
            Compare(">=", at, Int(1)),
        )
    )


def _access(task: _Task, data: Name) -> None:
    """An access of global memory in a task that is not left out."""
    r, b, by = task.random, task.builder, t(task.random.choice((0, 1)))
    at: Control = r.choice((task.iterator, task.iterator, c(0), add(task.iterator, 1)))
    if task.loaded and r.random() < 0.3:
        at = r.choice(task.loaded)
    if r.random() < 0.6:
        b.write(data[at], by, Q1)
    else:
        b.read(data[at], by, Q1)


def _beside(task: _Task, data: Name) -> None:
    """Something that each task does."""
    r, b = task.random, task.builder
    at = data[r.choice((task.iterator, task.iterator, c(0)))]
    match r.choice(("read", "read", "record", "write", "fence")):
        case "read":
            b.read(at, t(0), Q1)
        case "record":
            b.check(at, t(0), Q1, mutates=True)
            b.record(at, t(0), Q1, mutate=True)
        case "write":
            b.write(at, t(0), Q1)
        case _:
            b.fence(t(0, 3), TIMELINES, {Q0, Q1, Q2}, TIMELINES, transitive=True)
