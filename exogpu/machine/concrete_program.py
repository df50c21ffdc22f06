"""A program at given sizes without slots: what their loops are once counting is done.

for k in loop(0, 7):                      for k in loop(0, 7):
    for s in slot(full) of 2:      ->         for s in loop(k mod 2, k mod 2 + 1):
        write tile[s]                             write tile[s]
    Arrive full                               Arrive full

The literal machine counts while it runs; the fast one skips iterations, and needs to know which
are alike.  Where tasks count differently, as those that values from memory leave out, each task is
written out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, TypeAlias

from exogpu.amir import nodes as amir
from exogpu.amir.walk import begins_tasks, is_task, operations
from exogpu.analysis import slots
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, evaluate, substitute, substitute_bool

# A program at given sizes with its tasks dealt out to clusters, where memory resides in them.
#
# A launch whose variables reside (decision `resident-memory`) is read as one cluster that
# executes all tasks in their order. Here each cluster of a choice allocates them anew and
# executes its own tasks:
#
# cluster 0: Alloc tile; task 2; task 0; Release tile cluster 1: Alloc tile; task 1; Release tile

Choice: TypeAlias = Callable[[int], Sequence[Sequence[int]]]
"""A choice for so many tasks: those of each cluster in the order in which it executes them."""


def in_order(tasks: int) -> Sequence[Sequence[int]]:
    """One cluster executes all tasks in their order: the sequential meaning."""
    return [range(tasks)]


def backwards(tasks: int) -> Sequence[Sequence[int]]:
    """One cluster executes all tasks, the last one first."""
    return [range(tasks)[::-1]]


def one_task_each(tasks: int) -> Sequence[Sequence[int]]:
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


CHOICES: Final[tuple[Choice, ...]] = (
    in_order,
    one_task_each,
    backwards,
    round_robin(2),
    round_robin(3),
)


def assign_tasks(program: amir.Program, sizes: Mapping[str, int], choice: Choice) -> amir.Program:
    """The program at these sizes, in which clusters execute the tasks of a choice; the program
    itself where nothing resides.

    Operations are the same objects, each in as many places as tasks execute it.
    """
    if choice is in_order:
        return program
    values = {parameter.name: sizes[parameter.name.name] for parameter in program.params}
    return written_out(program, values, choice)


def written_out(program: amir.Program, sizes: Mapping[Sym, int], choice: Choice) -> amir.Program:
    """The same with each task as operations of its own, in whatever order."""
    resident = {v.name for v in program.variables if v.resident}
    if not resident:
        return program
    return replace(program, body=_block(program.body, _Dealing(resident, choice), {**sizes}))


def dealt(program: amir.Program, sizes: Mapping[str, int], choice: Choice) -> amir.Program:
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


def _block(block: amir.Block, dealing: _Dealing, values: dict[Sym, int]) -> amir.Block:
    """A block at CPU scope: its loops are unrolled, each launch is dealt out."""
    made: list[amir.Op] = []
    launch: list[amir.Op] = []
    for op in block:
        if isinstance(op, amir.Fence) and op.origin.threads is None:
            made += [*_launch(launch, dealing, values), op]
            launch = []
        elif isinstance(op, amir.Loop) and not op.tasks and begins_tasks(op.body):
            for value in range(evaluate(op.lo, values), evaluate(op.hi, values)):
                body = _block(op.body, dealing, {**values, op.iterator: value})
                launch.append(replace(op, lo=ir.Int(value), hi=ir.Int(value + 1), body=body))
        elif isinstance(op, amir.Guard) and begins_tasks(op.body):
            launch.append(replace(op, body=_block(op.body, dealing, values)))
        else:
            launch.append(op)
    return (*made, *_launch(launch, dealing, values))


def _launch(ops: Sequence[amir.Op], dealing: _Dealing, values: dict[Sym, int]) -> list[amir.Op]:
    """Rewrites the operations between two Fences at CPU scope."""
    if not any(isinstance(op, amir.Alloc) and op.name in dealing.resident for op in ops):
        return list(ops)
    at = next((at for at, op in enumerate(ops) if isinstance(op, amir.Loop) and op.tasks), None)
    if at is None:
        return list(ops)  # dealt out already
    nest = ops[at]
    assert isinstance(nest, amir.Loop)
    if dealing.loops and (found := _looped(ops[:at], nest, ops[at + 1 :], dealing.choice, values)):
        return found
    tasks = _tasks(nest, values)
    made: list[amir.Op] = []
    for numbers in dealing.choice(len(tasks)):
        made += [*ops[:at], *(tasks[number] for number in numbers), *ops[at + 1 :]]
    return made


def _tasks(nest: amir.Loop, values: dict[Sym, int]) -> list[amir.Loop]:
    """Each task of a nest, as loops of one iteration."""
    found: list[amir.Loop] = []
    for value in range(evaluate(nest.lo, values), evaluate(nest.hi, values)):
        one = replace(nest, lo=ir.Int(value), hi=ir.Int(value + 1))
        if is_task(nest):
            found.append(one)
            continue
        (inner,) = nest.body
        assert isinstance(inner, amir.Loop)
        within = _tasks(inner, {**values, nest.iterator: value})
        found += (replace(one, body=(task,)) for task in within)
    return found


# --- loops over clusters and their tasks --------------------------------------------------------


def _looped(
    before: Sequence[amir.Op],
    nest: amir.Loop,
    after: Sequence[amir.Op],
    choice: Choice,
    values: Mapping[Sym, int],
) -> list[amir.Op] | None:
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
        first: ir.CExpr = ir.CVar(cluster) if each > 1 else ir.Int(0)
        number: ir.CExpr = ir.Add(first, ir.Mul(each, ir.CVar(turn)))
        turns: ir.CExpr = ir.FloorDiv(ir.Sub(ir.Int(count + each - 1), first), each)
    elif [list(c) for c in clusters] == [list(range(count)[::-1])]:
        number, turns = ir.Sub(ir.Int(count - 1), ir.CVar(turn)), ir.Int(count)
    else:
        return None
    if each == count:  # one task a cluster
        task = _task(sides, first, count)
    else:
        task = amir.Loop(turn, ir.Int(0), turns, (_task(sides, number, count),), nest.origin)
    ops = [*before, task, *after]
    return (
        ops if each == 1 else [amir.Loop(cluster, ir.Int(0), ir.Int(each), tuple(ops), nest.origin)]
    )


def _sides(nest: amir.Loop, values: Mapping[Sym, int]) -> list[tuple[amir.Loop, int, int]] | None:
    """The loops of a nest of tasks, where each begins, and how many iterations it has."""
    found: list[tuple[amir.Loop, int, int]] = []
    loop = nest
    while True:
        if not (control_variables(loop.lo) | control_variables(loop.hi)) <= values.keys():
            return None
        lo, hi = evaluate(loop.lo, values), evaluate(loop.hi, values)
        found.append((loop, lo, max(hi - lo, 0)))
        if is_task(loop):
            return found
        (inner,) = loop.body
        assert isinstance(inner, amir.Loop)
        loop = inner


def _task(sides: Sequence[tuple[amir.Loop, int, int]], number: ir.CExpr, count: int) -> amir.Loop:
    """The task of a number, as loops of one iteration."""
    (loop, lo, extent), *inner = sides
    within = count // extent
    # The outermost remainder is the quotient itself; it tells the range of the iterator.
    at = ir.Add(ir.Int(lo), ir.Mod(ir.FloorDiv(number, within), extent))
    body = (_task(inner, number, within),) if inner else loop.body
    return replace(loop, lo=at, hi=ir.Add(at, ir.Int(1)), body=body)


def deals(block: amir.Block) -> bool:
    """Returns whether a loop with this body is one over clusters or tasks, as `dealt` makes
    them."""
    return any(
        isinstance(op, amir.Loop)
        and (
            (op.tasks and not isinstance(op.lo, ir.Int) and op.hi == ir.Add(op.lo, ir.Int(1)))
            or (not op.threads and op.slot is None and begins_tasks(op.body) and deals(op.body))
        )
        for op in block
    )


def without_slots(program: amir.Program, sizes: Mapping[Sym, int]) -> amir.Program:
    """The program at these sizes without slots; itself if it has none.

    Operations other than loops and guards are the same objects.  Raises UncountedError.
    """
    if not any(
        isinstance(op, amir.Loop) and op.slot is not None for op in operations(program.body)
    ):
        return program
    try:
        return _count_slots(program, sizes)
    except slots.UncountedError:
        return _count_slots(written_out(program, sizes, in_order), sizes)


def _count_slots(program: amir.Program, sizes: Mapping[Sym, int]) -> amir.Program:
    counts = slots.counts([*_parts(program.body, sizes, {})], sizes)
    return replace(program, body=tuple(_without_slots(op, counts) for op in program.body))


def _parts(
    block: amir.Block, sizes: Mapping[Sym, int], known: Mapping[Sym, ir.CExpr]
) -> Iterator[slots.Part]:
    """Yields the parts of a block that count; an iterator with one value, as one from memory, is
    replaced by it."""
    for op in block:
        match op:
            case amir.Loop(slot=ir.Access() as slot):
                index = tuple(evaluate(at, {}) for at in _indices(slot))
                yield slots.Place((slot.name, index))
                yield from _parts(op.body, sizes, known)  # One statement may read two slots.
            case amir.Loop():
                lo, hi = substitute(op.lo, known), substitute(op.hi, known)
                only = _single_value(lo, hi, sizes)
                if only is not None:
                    yield from _parts(op.body, sizes, {**known, op.iterator: only})
                else:
                    yield slots.Repeated(op.iterator, lo, hi, [*_parts(op.body, sizes, known)])
            case amir.Guard():
                condition = substitute_bool(op.condition, known)
                yield slots.Guarded(condition, [*_parts(op.body, sizes, known)])
            case amir.Alloc():
                yield slots.Fresh(op.name)
            case amir.Arrive():
                at = (substitute(e, known) for e in _indices(op.home))
                yield slots.Arrival(op.home.name, tuple(at))
            case _:
                pass


def _single_value(lo: ir.CExpr, hi: ir.CExpr, sizes: Mapping[Sym, int]) -> ir.Int | None:
    """The one value of an iterator, if it has but one whatever the others are."""
    if not (control_variables(lo) | control_variables(hi)) <= sizes.keys():
        return None
    first = evaluate(lo, sizes)
    return ir.Int(first) if evaluate(hi, sizes) == first + 1 else None


def _indices(access: ir.Access) -> Iterator[ir.CExpr]:
    for coord in access.coords:
        yield coord.at if isinstance(coord, ir.Point) else coord.lo


def _without_slots(op: amir.Op, counts: Iterator[ir.CExpr]) -> amir.Op:
    match op:
        case amir.Loop(slot=ir.Access(), hi=ir.Int(ring)):
            at = ir.Mod(next(counts), ring)
            body = tuple(_without_slots(inner, counts) for inner in op.body)
            return replace(op, lo=at, hi=ir.Add(at, ir.Int(1)), body=body, slot=None)
        case amir.Loop() | amir.Guard():
            return replace(op, body=tuple(_without_slots(inner, counts) for inner in op.body))
        case _:
            return op
