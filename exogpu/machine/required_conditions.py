"""Demands of operations beside the order of accesses: windows lie inside their variables, and each
Require holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final

from exogpu.amir.nodes import Arrive, Await, Loop, Op, Program, Record, Require, Variable
from exogpu.amir.walk import operations
from exogpu.analysis.quantifiers import Each, parts, within_extents
from exogpu.analysis.threadmap import Digit, ThreadMap, left_behind, threads_of
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import Access, BExpr
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, evaluate, holds

NOBODY: Final = Sym("")
"""The subject of a demand that is about no variable."""

Variables = Mapping[Sym, Variable]


@dataclass(frozen=True, slots=True)
class Demand:
    """For all values of `each`, all conditions hold."""

    kind: HazardKind
    variable: Sym
    each: tuple[Each, ...]
    conditions: tuple[BExpr, ...]
    threads: ThreadMap | None = None
    together: tuple[Digit, ...] = ()
    """All threads alike in these digits execute it, or none does."""


def demands(op: Op, variables: Variables) -> tuple[Demand, ...]:
    """Returns an operation's demands, without those that always hold."""
    if isinstance(op, Require):
        name, threads = op.variable or NOBODY, op.origin.threads
        return (Demand(op.kind, name, op.each, op.conditions, threads, op.together),)
    found: list[Demand] = []
    for access in bounded_windows(op):
        shape = variables[access.name].shape
        if conditions := parts(within_extents(access.coords, shape)):
            found.append(Demand(HazardKind.BOUNDS, access.name, (), conditions))
    return tuple(found)


def slots_of(program: Program) -> frozenset[Sym]:
    """The iterators of the slots of a program."""
    every = operations(program.body)
    return frozenset(op.iterator for op in every if isinstance(op, Loop) and op.slot is not None)


def is_told_by_slots(op: Require, slots: Set[Sym]) -> bool:
    """Tests whether a Require depends on these iterators of slots: a run tells, as it counts."""
    if op.each or op.together:
        return False
    return any(control_variables(condition) & slots for condition in op.conditions)


def bounded_windows(op: Op) -> Iterator[Access]:
    """The windows of an operation that lie inside their variables."""
    match op:
        case Record():
            if op.inside:
                yield op.access
            if op.trailing is not None:
                yield op.trailing.home
                yield from op.trailing.targets
        case Arrive():
            yield op.home
            yield from op.targets
        case Await():
            yield op.barrier
        case _:
            return


def is_met(demand: Demand, sigma: Mapping[Sym, int]) -> bool:
    """Tests whether a demand is met at these values of sizes and iterators."""
    if demand.threads is not None and demand.together:
        executing = threads_of(demand.threads, sigma)
        if left_behind(demand.together, executing):
            return False
    return all(
        holds(condition, values)
        for values in _values(demand.each, sigma)
        for condition in demand.conditions
    )


def _values(each: tuple[Each, ...], sigma: Mapping[Sym, int]) -> Iterator[Mapping[Sym, int]]:
    if not each:
        yield sigma
        return
    one, *rest = each
    for value in range(evaluate(one.lo, sigma), evaluate(one.hi, sigma)):
        yield from _values(tuple(rest), {**sigma, one.name: value})
