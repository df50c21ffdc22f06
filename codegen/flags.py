"""Flags as text: counts in global memory, which one thread raises for all, or polls (decision
`flags`).

An Await waits for as many arrivals as a proof has counted.  Its count is then all that there ever
are, so that no later arrival is taken for an earlier one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from exogpu.analysis.flags import flags_of, uses
from exogpu.codegen import fences, sync
from exogpu.codegen import where as place
from exogpu.codegen.errors import unsupported
from exogpu.codegen.expressions import c_condition, c_control
from exogpu.codegen.lines import Lines
from exogpu.codegen.parts import first_thread
from exogpu.codegen.row import Scope
from exogpu.codegen.task_order import Lexicographic, TaskOrder
from exogpu.hw.timelines import AFTER_FLAG, ORDINARY, SYNC_TIMELINES
from exogpu.ir.listed import condition_of, control_of
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Arrive,
    Await,
    BExpr,
    Block,
    CExpr,
    ControlParam,
    CVar,
    DeviceFunction,
    For,
    Proc,
    Stmt,
)
from exogpu.ir.walk import blocks

if TYPE_CHECKING:
    from exogpu.codegen.device import Device

Wait: TypeAlias = tuple[tuple[BExpr, CExpr], ...]
"""A number of arrivals: the first value whose condition holds, or the last."""


def waits_of(proc: Proc, counted: Sequence[str]) -> Mapping[Await, Wait]:
    """The numbers that a proof has found (`Proof.waits`), by Await of a flag.

    Raises ExoGpuError (G803) where there are none.
    """
    flags = frozenset(flag.name for flag in flags_of(proc))
    sizes = {p.name.name: CVar(p.name) for p in proc.params if isinstance(p, ControlParam)}
    awaits = [stmt for stmt in uses(proc.body, flags) if isinstance(stmt, Await)]
    around = dict(_iterators(proc.body, ()))
    found = {}
    texts = counted or [""] * len(awaits)
    for stmt, text in zip(awaits, texts, strict=True):
        if not text:
            raise unsupported(
                f"how many arrivals this Await of {stmt.barrier.name} waits for is no expression "
                "that was proved",
                stmt.span,
                "check the procedure for all sizes; let Arrives on an element be those of one loop",
                "G803",
            )
        own: dict[str, CExpr] = {f"@{at}": CVar(name) for at, name in enumerate(around[stmt])}
        names: dict[str, CExpr] = {**sizes, **own}
        found[stmt] = tuple(
            (condition_of(where, names), control_of(value, names))
            for where, value in json.loads(text)
        )
    return found


def _iterators(block: Block, around: tuple[Sym, ...]) -> Iterator[tuple[Stmt, tuple[Sym, ...]]]:
    """Each statement with the iterators around it, outermost first."""
    for stmt in block:
        yield stmt, around
        inner = (*around, stmt.iterator) if isinstance(stmt, For) else around
        for inside in blocks(stmt):
            yield from _iterators(inside, inner)


def increasing(
    order: TaskOrder | None, launch: DeviceFunction, flags: frozenset[Sym]
) -> TaskOrder | None:
    """The order in which a launch takes its tasks: with flags that of the program, in which no
    Await waits for a later task.

    Raises ExoGpuError (G803, G808) for another order, and where not all CTAs would be there.
    """
    if not flags:
        return order
    if order is not None and order != Lexicographic():
        raise unsupported(
            "this task order is not that of the program, and tasks wait for earlier ones by flags",
            launch.span,
            "take the lexicographic order",
            "G808",
        )
    refused = "clusters of several CTAs" if launch.cluster_dim > 1 else "a dependent launch"
    if launch.cluster_dim > 1 or launch.dependent:
        raise unsupported(
            f"flags in {refused}: that all of its CTAs are on the device at a time is asked for "
            "by a cooperative launch",
            launch.span,
            "launch single CTAs, and not dependent=True",
            "G803",
        )
    return Lexicographic()


def is_flag(device: Device, access: Access) -> bool:
    """Tests whether a barrier is a flag."""
    return access.name in device.storage


def arrive(device: Device, stmt: Arrive) -> Lines:
    """All threads meet, then one raises the count."""
    _ordinary(stmt, frozenset({ORDINARY}))
    pointer = f"&{device.access.first(stmt.targets[0])}"
    return [*_meeting(device, stmt), *_by_one(device, stmt, "arrive flag", flag=pointer)]


def wait(device: Device, stmt: Await) -> Lines:
    """One thread polls, then all meet."""
    _ordinary(stmt, AFTER_FLAG)
    *cases, (_, text) = [
        (c_condition(where, device.control), c_control(value, device.control))
        for where, value in device.waits[stmt]
    ]
    for condition, value in reversed(cases):
        text = f"({condition}) ? {value} : ({text})"
    pointer = f"&{device.access.first(stmt.barrier)}"
    waited = _by_one(device, stmt, "await flag", flag=pointer, count=text)
    told = place.after_others(fences.where(device, stmt))
    return [*waited, *_meeting(device, stmt), *told]


def _ordinary(stmt: Arrive | Await, allowed: frozenset[str]) -> None:
    """Raises ExoGpuError (G803) for what the rows do not wait for; so does the front end."""
    if stmt.timeline.name not in allowed or (isinstance(stmt, Await) and stmt.n != 0):
        raise unsupported(
            f"a flag on {stmt.timeline.name}",
            stmt.span,
            f"use {' or '.join(sorted(allowed))}, and n = 0",
            "G803",
        )


def _meeting(device: Device, stmt: Stmt) -> Lines:
    """Emits a Fence of ordinary accesses."""
    ordinary = SYNC_TIMELINES[ORDINARY]
    scope = sync.scope_of(fences.where(device, stmt).tiling)
    rows = sync.fence_rows(ordinary, ordinary, scope, by_role=device.path.by_role)
    return fences.joined(device, stmt, rows)


def _by_one(device: Device, stmt: Stmt, row: str, **fields: str) -> Lines:
    """A row by the first of the threads."""
    tiling = fences.where(device, stmt).tiling
    lines = sync.emit(row, **fields)
    if sync.scope_of(tiling) is Scope.THREAD:
        return lines
    first = c_control(first_thread(tiling), device.control)
    return [f"if (thread == {first})", *(f"    {line}" for line in lines)]
