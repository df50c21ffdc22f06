"""A program at given sizes with its tasks dealt out to clusters, where memory resides in them.

A launch whose variables reside (decision `resident-memory`) is read as one cluster that executes
all tasks in their order.  Here each cluster of a choice allocates them anew and executes its own
tasks:

cluster 0: Alloc tile; task 2; task 0; Release tile
cluster 1: Alloc tile; task 1; Release tile
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, TypeAlias

from exogpu.amir.nodes import Alloc, Block, Fence, Guard, Loop, Op, Program
from exogpu.amir.walk import begins_tasks, is_task
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Add, CExpr, CVar, FloorDiv, Int, Mod, Mul, Sub
from exogpu.ir.walk import control_variables, evaluate

Choice: TypeAlias = Callable[[int], Sequence[Sequence[int]]]
"""Of so many tasks, those of each cluster in the order in which it executes them."""


def in_order(tasks: int) -> Sequence[Sequence[int]]:
    """One cluster executes all tasks in their order: the sequential meaning."""
    return [range(tasks)]


def backwards(tasks: int) -> Sequence[Sequence[int]]:
    """One cluster executes all tasks, the last one first."""
    return [range(tasks)[::-1]]


def alone(tasks: int) -> Sequence[Sequence[int]]:
    """Each task is executed by a cluster of its own."""
    return [[task] for task in range(tasks)]


def round_robin(clusters: int) -> Choice:
    """Each of so many clusters takes every so manieth task."""
    return lambda tasks: [range(first, tasks, clusters) for first in range(clusters)]


def at_random(seed: int) -> Choice:
    """Tasks in any order, each by one of a few clusters."""

    def choice(tasks: int) -> Sequence[Sequence[int]]:
        chance = random.Random(seed)
        found: list[list[int]] = [[] for _ in range(chance.randint(1, 3))]
        for task in chance.sample(range(tasks), tasks):
            chance.choice(found).append(task)
        return found

    return choice


CHOICES: Final[tuple[Choice, ...]] = (in_order, alone, backwards, round_robin(2), round_robin(3))


def assigned(program: Program, sizes: Mapping[str, int], choice: Choice) -> Program:
    """The program at these sizes, in which clusters execute the tasks of a choice; the program
    itself where nothing resides.

    Operations are the same objects, each in as many places as tasks execute it.
    """
    if choice is in_order:
        return program
    values = {parameter.name: sizes[parameter.name.name] for parameter in program.params}
    return written_out(program, values, choice)


def written_out(program: Program, sizes: Mapping[Sym, int], choice: Choice) -> Program:
    """The same with each task as operations of its own, in whatever order."""
    resident = {v.name for v in program.variables if v.resident}
    if not resident:
        return program
    return replace(program, body=_block(program.body, _Dealing(resident, choice), {**sizes}))


def dealt(program: Program, sizes: Mapping[str, int], choice: Choice) -> Program:
    """As `assigned`, with loops over clusters and over the tasks of each where the choice has a
    rule, so that its text is not longer with more tasks.

    The same operations happen in the same order; but iterators of the loops are added.
    """
    resident = {v.name for v in program.variables if v.resident}
    if choice is in_order or not resident:
        return program
    values = {parameter.name: sizes[parameter.name.name] for parameter in program.params}
    dealing = _Dealing(resident, choice, loops=True)
    return replace(program, body=_block(program.body, dealing, values))


@dataclass(frozen=True, slots=True)
class _Dealing:
    resident: set[Sym]
    choice: Choice
    loops: bool = False
    """True to write tasks as loops, where the choice has a rule."""


def _block(block: Block, dealing: _Dealing, values: dict[Sym, int]) -> Block:
    """A block at CPU scope: its loops are unrolled, each launch is dealt out."""
    made: list[Op] = []
    launch: list[Op] = []
    for op in block:
        if isinstance(op, Fence) and op.origin.threads is None:
            made += [*_launch(launch, dealing, values), op]
            launch = []
        elif isinstance(op, Loop) and not op.tasks and begins_tasks(op.body):
            for value in range(evaluate(op.lo, values), evaluate(op.hi, values)):
                body = _block(op.body, dealing, {**values, op.iterator: value})
                launch.append(replace(op, lo=Int(value), hi=Int(value + 1), body=body))
        elif isinstance(op, Guard) and begins_tasks(op.body):
            launch.append(replace(op, body=_block(op.body, dealing, values)))
        else:
            launch.append(op)
    return (*made, *_launch(launch, dealing, values))


def _launch(ops: Sequence[Op], dealing: _Dealing, values: dict[Sym, int]) -> list[Op]:
    """Rewrites the operations between two Fences at CPU scope."""
    if not any(isinstance(op, Alloc) and op.name in dealing.resident for op in ops):
        return list(ops)
    at = next((at for at, op in enumerate(ops) if isinstance(op, Loop) and op.tasks), None)
    if at is None:
        return list(ops)  # dealt out already
    nest = ops[at]
    assert isinstance(nest, Loop)
    if dealing.loops and (found := _looped(ops[:at], nest, ops[at + 1 :], dealing.choice, values)):
        return found
    tasks = _tasks(nest, values)
    made: list[Op] = []
    for numbers in dealing.choice(len(tasks)):
        made += [*ops[:at], *(tasks[number] for number in numbers), *ops[at + 1 :]]
    return made


def _tasks(nest: Loop, values: dict[Sym, int]) -> list[Loop]:
    """Each task of a nest, as loops of one iteration."""
    found: list[Loop] = []
    for value in range(evaluate(nest.lo, values), evaluate(nest.hi, values)):
        one = replace(nest, lo=Int(value), hi=Int(value + 1))
        if is_task(nest):
            found.append(one)
            continue
        (inner,) = nest.body
        assert isinstance(inner, Loop)
        within = _tasks(inner, {**values, nest.iterator: value})
        found += (replace(one, body=(task,)) for task in within)
    return found


# --- loops over clusters and their tasks --------------------------------------------------------


def _looped(
    before: Sequence[Op],
    nest: Loop,
    after: Sequence[Op],
    choice: Choice,
    values: Mapping[Sym, int],
) -> list[Op] | None:
    """A launch as a loop over clusters and one over the tasks of each; None where the choice is
    neither `round_robin` nor `backwards`, or extents of the nest depend on its iterators."""
    sides = _sides(nest, values)
    if sides is None:
        return None
    count = prod(extent for _, _, extent in sides)
    clusters = choice(count)
    each, cluster, turn = len(clusters), Sym("cluster"), Sym("turn")
    if count == 0 or each == 0:
        return None
    if all(list(c) == list(range(first, count, each)) for first, c in enumerate(clusters)):
        first: CExpr = CVar(cluster) if each > 1 else Int(0)
        number: CExpr = Add(first, Mul(each, CVar(turn)))
        turns: CExpr = FloorDiv(Sub(Int(count + each - 1), first), each)
    elif [list(c) for c in clusters] == [list(range(count)[::-1])]:
        number, turns = Sub(Int(count - 1), CVar(turn)), Int(count)
    else:
        return None
    if each == count:  # one task a cluster
        task = _task(sides, first, count)
    else:
        task = Loop(turn, Int(0), turns, (_task(sides, number, count),), nest.origin)
    ops = [*before, task, *after]
    return ops if each == 1 else [Loop(cluster, Int(0), Int(each), tuple(ops), nest.origin)]


def _sides(nest: Loop, values: Mapping[Sym, int]) -> list[tuple[Loop, int, int]] | None:
    """The loops of a nest of tasks, where each begins, and how many iterations it has."""
    found: list[tuple[Loop, int, int]] = []
    loop = nest
    while True:
        if not (control_variables(loop.lo) | control_variables(loop.hi)) <= values.keys():
            return None
        lo, hi = evaluate(loop.lo, values), evaluate(loop.hi, values)
        found.append((loop, lo, max(hi - lo, 0)))
        if is_task(loop):
            return found
        (inner,) = loop.body
        assert isinstance(inner, Loop)
        loop = inner


def _task(sides: Sequence[tuple[Loop, int, int]], number: CExpr, count: int) -> Loop:
    """The task of a number, as loops of one iteration."""
    (loop, lo, extent), *inner = sides
    within = count // extent
    # The outermost remainder is the quotient itself; it tells the range of the iterator.
    at = Add(Int(lo), Mod(FloorDiv(number, within), extent))
    body = (_task(inner, number, within),) if inner else loop.body
    return replace(loop, lo=at, hi=Add(at, Int(1)), body=body)


def deals(block: Block) -> bool:
    """Returns whether a loop with this body is one over clusters or tasks, as `dealt` makes
    them."""
    return any(
        isinstance(op, Loop)
        and (
            (op.tasks and not isinstance(op.lo, Int) and op.hi == Add(op.lo, Int(1)))
            or (not op.threads and op.slot is None and begins_tasks(op.body) and deals(op.body))
        )
        for op in block
    )
