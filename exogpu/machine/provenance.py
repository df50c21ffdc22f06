"""Which instance of a record it is that a check fails against.

Interpreters know the record's operation, not its iteration.  Candidates are found by walking
control flow alone; the fast machine then confirms one: with only that instance recorded, the
check must still fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, And, BExpr, Compare, CVar, Int, Point, Truth
from exogpu.ir.walk import evaluate, holds
from exogpu.machine import fast
from exogpu.machine.amir import Block, Check, Clear, Guard, IncTaskID, Loop, Op, Program, Record
from exogpu.machine.violation import Violation

STEPS: Final = 300_000
"""Control steps after which a walk gives up."""

TRIES: Final = 3
"""Candidates that are confirmed at most, the latest first."""

Iteration: TypeAlias = tuple[tuple[Sym, int], ...]


@dataclass(frozen=True, slots=True)
class _Instance:
    op: Op
    iteration: Iteration
    task: int


class _GaveUp(Exception):
    pass


def locate(program: Program, sizes: Mapping[str, int], violation: Violation) -> Violation:
    """The violation with `record_iteration` and `record_task`, where an instance is confirmed."""
    record = violation.record
    if not isinstance(record, Record):
        return violation
    try:
        candidates = _uncleared(program, sizes, violation, record)
    except _GaveUp:
        return violation
    for instance in islice(reversed(candidates), TRIES):
        narrowed = replace(program, body=_only(program.body, record, instance.iteration))
        outcome = fast.run(narrowed, sizes, report=fast.Report.PAIRS)
        if violation in outcome.violations:
            named = tuple((name.name, value) for name, value in instance.iteration)
            return replace(violation, record_iteration=named, record_task=instance.task)
    return violation


def _uncleared(
    program: Program, sizes: Mapping[str, int], violation: Violation, record: Record
) -> list[_Instance]:
    """The instances of the record on the element that are not cleared before the check."""
    found: list[_Instance] = []
    sigma = {p.name: sizes[p.name.name] for p in program.params}
    for instance, env in _walk(program, sigma, record):
        op = instance.op
        if op is violation.check and _named(instance.iteration) == violation.iteration:
            break
        match op:
            case Record() if op is record and _touches(op.access, violation.index, env):
                found.append(instance)
            case Clear() if (
                op.mutates == record.mutate
                and op.access.name == record.access.name
                and _touches(op.access, violation.index, env)
            ):
                found.clear()
            case _:
                pass
    return found


def _named(iteration: Iteration) -> tuple[tuple[str, int], ...]:
    return tuple((name.name, value) for name, value in iteration)


def _touches(access: Access, index: tuple[int, ...], env: Mapping[Sym, int]) -> bool:
    for coord, at in zip(access.coords, index, strict=True):
        if isinstance(coord, Point):
            if evaluate(coord.at, env) != at:
                return False
        elif not evaluate(coord.lo, env) <= at < evaluate(coord.hi, env):
            return False
    return True


def _walk(
    program: Program, sigma: dict[Sym, int], record: Record
) -> Iterator[tuple[_Instance, Mapping[Sym, int]]]:
    """Instances of operations in program order, parts without the record's variable left out."""
    steps, task = 0, 0
    name = record.access.name

    def block(body: Block, around: Iteration) -> Iterator[tuple[_Instance, Mapping[Sym, int]]]:
        nonlocal steps, task
        for op in body:
            steps += 1
            if steps > STEPS:
                raise _GaveUp
            match op:
                case Loop() if _concerns(op.body, name):
                    for y in range(evaluate(op.lo, sigma), evaluate(op.hi, sigma)):
                        sigma[op.iterator] = y
                        yield from block(op.body, (*around, (op.iterator, y)))
                case Guard() if _concerns(op.body, name):
                    if holds(op.condition, sigma):
                        yield from block(op.body, around)
                case IncTaskID():
                    task += 1
                case Loop() | Guard():
                    pass
                case _:
                    yield _Instance(op, around, task), sigma

    yield from block(program.body, ())


@lru_cache(maxsize=4096)
def _concerns(body: Block, name: Sym) -> bool:
    """Whether a block begins tasks, or accesses a variable."""
    for op in body:
        match op:
            case Loop() | Guard():
                if _concerns(op.body, name):
                    return True
            case IncTaskID():
                return True
            case _:
                if name in _accessed(op):
                    return True
    return False


def _accessed(op: Op) -> tuple[Sym, ...]:
    match op:
        case Record() | Clear() | Check():  # checks too: the walk has to reach the one that failed
            return (op.access.name,)
        case _:
            return ()


def _only(body: Block, record: Record, iteration: Iteration) -> Block:
    """The block with the record guarded: only this instance is recorded."""
    condition: BExpr = Truth(True)
    for name, value in iteration:
        condition = And(condition, Compare("==", CVar(name), Int(value)))
    changed: list[Op] = []
    for op in body:
        match op:
            case Loop() | Guard():
                changed.append(replace(op, body=_only(op.body, record, iteration)))
            case _ if op is record:
                changed.append(Guard(condition, (record,), record.origin))
            case _:
                changed.append(op)
    return tuple(changed)
