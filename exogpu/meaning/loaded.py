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

from exogpu.analysis.inline import inline
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Block,
    CallProc,
    Contract,
    For,
    If,
    Int,
    Loaded,
    Point,
    Proc,
    Seq,
    Slot,
    Stmt,
    Truth,
)
from exogpu.ir.walk import evaluate, holds, map_blocks, walk
from exogpu.meaning.values import Array
from exogpu.result.errors import Diagnostic, ExoGpuError


def opened(proc: Proc) -> Proc:
    """The procedure without calls of procedures and windows, where one that it calls binds what
    only a run tells, slots and values from memory, or it loads through a window itself."""
    found = list(_called(proc))
    bound = (Slot, Loaded)
    if any(isinstance(s, For) and isinstance(s.mode, bound) for p in found for s in walk(p.body)):
        return inline(proc)
    params = {param.name for param in proc.params}
    modes = (stmt.mode for stmt in walk(proc.body) if isinstance(stmt, For))
    if any(isinstance(mode, Loaded) and mode.source.name not in params for mode in modes):
        return inline(proc)
    return proc


def _called(proc: Proc) -> Iterator[Proc]:
    """The procedures that one calls, directly or not."""
    for stmt in walk(proc.body):
        if isinstance(stmt, CallProc):
            yield stmt.proc
            yield from _called(stmt.proc)


def resolved(proc: Proc, sizes: Mapping[Sym, int], arrays: Mapping[Sym, Array]) -> Proc:
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


def breach(contract: Contract, array: Array) -> str:
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


def _loads(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and isinstance(stmt.mode, Loaded)


@dataclass(frozen=True, slots=True)
class _Loading:
    arrays: Mapping[Sym, Array]

    def block(self, block: Block, values: dict[Sym, int]) -> Iterator[Stmt]:
        """The statements of a block, with the iterators around it known."""
        for stmt in block:
            if not any(map(_loads, walk((stmt,)))):
                yield stmt
                continue
            match stmt:
                case For(mode=Loaded() as mode):
                    value = self.value(stmt, mode, values)
                    yield self.once(stmt, value, values)
                case For():
                    for value in range(evaluate(stmt.lo, values), evaluate(stmt.hi, values)):
                        yield self.once(stmt, value, values)
                case If():
                    taken = stmt.body if holds(stmt.condition, values) else stmt.orelse
                    yield If(Truth(True), tuple(self.block(taken, values)), span=stmt.span)
                case _:
                    yield map_blocks(stmt, lambda inner: tuple(self.block(inner, values)))

    def once(self, stmt: For, value: int, values: dict[Sym, int]) -> For:
        """One iteration of a loop."""
        values[stmt.iterator] = value
        body = tuple(self.block(stmt.body, values))
        return replace(stmt, lo=Int(value), hi=Int(value + 1), mode=Seq(), body=body)

    def value(self, stmt: For, mode: Loaded, values: Mapping[Sym, int]) -> int:
        """Returns the element's value. Raises ExoGpuError (X932)."""
        return loaded(stmt, mode, self.arrays[mode.source.name], values)


def loaded(stmt: For, mode: Loaded, array: Array, values: Mapping[Sym, int]) -> int:
    """Returns the value that a load finds in an array. Raises ExoGpuError (X932) where the kernel
    would trap."""
    name = mode.source.name.name
    at = tuple(evaluate(c.at, values) for c in mode.source.coords if isinstance(c, Point))
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
