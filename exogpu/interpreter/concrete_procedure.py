"""A procedure on given arrays without values from memory: each is what its array has there.

for g in cuda_tasks(0, 2):                         for g in seq(0, 1):
    b = load_index(offsets[g], 0, 9)      ->           for b in seq(3, 4): x[b] = 0.0
    x[b] = 0.0                                     for g in seq(1, 2):
with offsets = [3, 5]                                  for b in seq(5, 6): x[b] = 0.0

The loops around a load are written out, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from exogpu.analysis import slots as analysis_slots
from exogpu.analysis.barriers import first_home
from exogpu.analysis.inline import inline
from exogpu.diagnostics.errors import Diagnostic, ExoGpuError
from exogpu.interpreter.values import Array
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate, holds, map_blocks, substitute, substitute_bool, walk


def open_calls(proc: ir.Proc) -> ir.Proc:
    """The procedure without calls of procedures and windows, where one that it calls binds what
    only a run tells, slots and values from memory, or it loads through a window itself."""
    found = list(_callees(proc))
    bound = (ir.Slot, ir.Loaded)
    if any(
        isinstance(s, ir.For) and isinstance(s.mode, bound) for p in found for s in walk(p.body)
    ):
        return inline(proc)
    params = {param.name for param in proc.params}
    modes = (stmt.mode for stmt in walk(proc.body) if isinstance(stmt, ir.For))
    if any(isinstance(mode, ir.Loaded) and mode.source.name not in params for mode in modes):
        return inline(proc)
    return proc


def _callees(proc: ir.Proc) -> Iterator[ir.Proc]:
    """The procedures that one calls, directly or not."""
    for stmt in walk(proc.body):
        if isinstance(stmt, ir.CallProc):
            yield stmt.proc
            yield from _callees(stmt.proc)


def without_loads(proc: ir.Proc, sizes: Mapping[Sym, int], arrays: Mapping[Sym, Array]) -> ir.Proc:
    """The procedure, opened, at these sizes and on these arrays without values from memory; itself
    if it has none.

    Raises ExoGpuError where a contract does not hold (X933), or a value is not in its range or read
    outside of its array (X932).
    """
    for contract in proc.contracts:
        if broken := breach(contract, arrays[contract.array]):
            remedy = "sort out the array before the call, or leave out the contract"
            raise ExoGpuError([Diagnostic("X933", broken, contract.span, remedy)])
    if not any(_loads(stmt) for stmt in walk(proc.body)):
        return proc
    return replace(proc, body=tuple(_Loading(arrays).block(proc.body, dict(sizes))))


def breach(contract: ir.Contract, array: Array) -> str:
    """Describes the place at which a contract does not hold of an array; empty if it holds."""
    name, elements = contract.array.name, np.asarray(array, np.int64).reshape(-1)
    if contract.kind == "monotone":
        below = np.flatnonzero(elements[1:] < elements[:-1])
        if not len(below):
            return ""
        first, second = int(below[0]), int(below[0]) + 1
    else:
        order = np.argsort(elements, kind="stable")
        same = np.flatnonzero(elements[order][1:] == elements[order][:-1])
        if not len(same):
            return ""
        first, second = int(order[same[0]]), int(order[same[0] + 1])
    what = [f"{name}[{at}] = {int(elements[at])}" for at in (first, second)]
    return f"{contract.kind}({name}) does not hold: {' and '.join(what)}"


def _loads(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.Loaded)


@dataclass(frozen=True, slots=True)
class _Loading:
    arrays: Mapping[Sym, Array]

    def block(self, block: ir.Block, values: dict[Sym, int]) -> Iterator[ir.Stmt]:
        """The statements of a block, with the iterators around it known."""
        for stmt in block:
            if not any(map(_loads, walk((stmt,)))):
                yield stmt
                continue
            match stmt:
                case ir.For(mode=ir.Loaded() as mode):
                    value = self.value(stmt, mode, values)
                    yield self.one_iteration(stmt, value, values)
                case ir.For():
                    for value in range(evaluate(stmt.lo, values), evaluate(stmt.hi, values)):
                        yield self.one_iteration(stmt, value, values)
                case ir.If():
                    taken = stmt.body if holds(stmt.condition, values) else stmt.orelse
                    yield ir.If(ir.Truth(True), tuple(self.block(taken, values)), span=stmt.span)
                case _:
                    yield map_blocks(stmt, lambda inner: tuple(self.block(inner, values)))

    def one_iteration(self, stmt: ir.For, value: int, values: dict[Sym, int]) -> ir.For:
        """One iteration of a loop."""
        values[stmt.iterator] = value
        body = tuple(self.block(stmt.body, values))
        return replace(stmt, lo=ir.Int(value), hi=ir.Int(value + 1), mode=ir.Seq(), body=body)

    def value(self, stmt: ir.For, mode: ir.Loaded, values: Mapping[Sym, int]) -> int:
        """Returns the element's value. Raises ExoGpuError (X932)."""
        return load_value(stmt, mode, self.arrays[mode.source.name], values)


def load_value(stmt: ir.For, mode: ir.Loaded, array: Array, values: Mapping[Sym, int]) -> int:
    """Returns the value that a load finds in an array. Raises ExoGpuError (X932) where the kernel
    would trap."""
    name = mode.source.name.name
    at = tuple(evaluate(c.at, values) for c in mode.source.coords if isinstance(c, ir.Point))
    element = f"{name}[{', '.join(map(str, at))}]"
    remedy = f"let {name} have what the kernel expects, or load it in another range"
    if not all(0 <= index < extent for index, extent in zip(at, array.shape, strict=True)):
        what = f"{element} is loaded, which is outside of the array"
        raise ExoGpuError([Diagnostic("X932", what, stmt.span, remedy)])
    value = int(array[at])
    lo, hi = evaluate(stmt.lo, values), evaluate(stmt.hi, values)
    if not lo <= value < hi:
        what = f"{element} is {value}, which is not in {lo} .. {hi - 1}: the kernel traps"
        raise ExoGpuError([Diagnostic("X932", what, stmt.span, remedy)])
    return value


# A procedure at given sizes without slots: their iterators are expressions of the others.


def without_slots(proc: ir.Proc, sizes: Mapping[Sym, int]) -> ir.Proc:
    """The procedure at these sizes without slots; itself if it has none.

    Raises ExoGpuError (X931) where a slot is no expression of the iterators within a task.
    """
    if not _slots(proc.body):
        return proc
    try:
        return _count_slots(proc, sizes)
    except analysis_slots.UncountedError:
        proc = replace(proc, body=tuple(_tasks_apart(proc.body, {**sizes})))
    try:
        return _count_slots(proc, sizes)
    except analysis_slots.UncountedError:
        message = "how many Arrives come before this slot depends on the iteration"
        remedy = "p.check_at(...) runs it; p.run does not"
        raise ExoGpuError(
            [Diagnostic("X931", message, _slots(proc.body)[0].span, remedy)]
        ) from None


def _slots(block: ir.Block) -> list[ir.For]:
    """The loops that bind slots."""
    return [s for s in walk(block) if isinstance(s, ir.For) and isinstance(s.mode, ir.Slot)]


def _tasks_apart(block: ir.Block, values: dict[Sym, int]) -> Iterator[ir.Stmt]:
    """Yields the statements of a block with each task that binds slots as a loop of its own: tasks
    may have unequal numbers of steps."""
    for stmt in block:
        if not _slots((stmt,)):
            yield stmt
        elif isinstance(stmt, ir.For) and stmt.mode == ir.CudaTasks():
            for value in range(evaluate(stmt.lo, values), evaluate(stmt.hi, values)):
                values[stmt.iterator] = value
                body = tuple(_tasks_apart(stmt.body, values))
                yield replace(stmt, lo=ir.Int(value), hi=ir.Int(value + 1), body=body)
        elif isinstance(stmt, ir.DeviceFunction | ir.If):
            yield map_blocks(stmt, lambda inner: tuple(_tasks_apart(inner, values)))
        else:
            yield stmt


def _count_slots(proc: ir.Proc, sizes: Mapping[Sym, int]) -> ir.Proc:
    """Raises UncountedError."""
    barriers = {s.name: len(s.shape) for s in walk(proc.body) if isinstance(s, ir.BarrierAlloc)}
    counts = analysis_slots.counts([*_parts(proc.body, barriers, {})], sizes)
    return replace(proc, body=_without_slots(proc.body, counts))


def _parts(
    block: ir.Block, barriers: Mapping[Sym, int], known: Mapping[Sym, ir.CExpr]
) -> Iterator[analysis_slots.Part]:
    """Yields the parts of a block that count; an iterator with one value, as one from memory, is
    replaced by it."""
    for stmt in block:
        match stmt:
            case ir.For(mode=ir.Slot(barrier)):
                yield analysis_slots.Place((barrier, (0,) * barriers[barrier]))
                # One statement may read two slots.
                yield from _parts(stmt.body, barriers, known)
            case ir.For(lo=ir.Int(only), hi=ir.Int(end)) if end == only + 1:
                yield from _parts(stmt.body, barriers, {**known, stmt.iterator: ir.Int(only)})
            case ir.For():
                lo, hi = substitute(stmt.lo, known), substitute(stmt.hi, known)
                body = [*_parts(stmt.body, barriers, known)]
                yield analysis_slots.Repeated(stmt.iterator, lo, hi, body)
            case ir.If():
                condition = substitute_bool(stmt.condition, known)
                yield analysis_slots.Guarded(condition, [*_parts(stmt.body, barriers, known)])
                yield analysis_slots.Guarded(
                    ir.Not(condition), [*_parts(stmt.orelse, barriers, known)]
                )
            case ir.DeviceFunction() | ir.Warps():
                yield from _parts(stmt.body, barriers, known)
            case ir.BarrierAlloc():
                yield analysis_slots.Fresh(stmt.name)
            case ir.Arrive():
                home = first_home(stmt.targets)
                at = (c.at if isinstance(c, ir.Point) else c.lo for c in home.coords)
                yield analysis_slots.Arrival(home.name, tuple(substitute(e, known) for e in at))
            case _:
                pass


def _without_slots(block: ir.Block, counts: Iterator[ir.CExpr]) -> ir.Block:
    def replace_slot(stmt: ir.Stmt) -> ir.Stmt:
        if (
            isinstance(stmt, ir.For)
            and isinstance(stmt.mode, ir.Slot)
            and isinstance(stmt.hi, ir.Int)
        ):
            at = ir.Mod(next(counts), stmt.hi.value)
            body = _without_slots(stmt.body, counts)
            return replace(stmt, lo=at, hi=ir.Add(at, ir.Int(1)), body=body, mode=ir.Seq())
        return map_blocks(stmt, lambda inner: _without_slots(inner, counts))

    return tuple(replace_slot(stmt) for stmt in block)
