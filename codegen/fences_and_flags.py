"""Fences of a kernel as text, and how the threads of a statement meet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from exogpu.analysis.barriers import flags_of, uses
from exogpu.analysis.tiling import Tiling
from exogpu.codegen import proxies, sync
from exogpu.codegen.arrival_rows import Scope
from exogpu.codegen.control_text import c_atom, c_condition, c_control
from exogpu.codegen.hardware_barriers import LAST, adjacent_lanes, lanes_of
from exogpu.codegen.names import Lines, unsupported
from exogpu.codegen.proxies import Where
from exogpu.codegen.task_order import Lexicographic, TaskOrder
from exogpu.codegen.threads import first_thread
from exogpu.hw.timelines import AFTER_FLAG, ORDINARY, SYNC_TIMELINES
from exogpu.ir import nodes as ir
from exogpu.ir.expression_json import condition_of, control_of
from exogpu.ir.types import Sym
from exogpu.ir.walk import blocks

if TYPE_CHECKING:
    from exogpu.codegen.device import Device


def fence(device: Device, stmt: ir.Fence) -> Lines:
    """A Fence: what its timelines ask for, then the barrier of its scope."""
    if stmt.launches:
        return sync.emit(sync.launch_row(stmt.post, tma=bool(device.maps)))
    tiling = device.facts.scope[stmt]
    assert tiling is not None
    reason = sync.unkept(stmt.pre, stmt.post)
    if reason is not None:
        raise unsupported(f"a Fence whose {reason.what}", stmt.span, reason.help, "G803")
    scope = sync.scope_of(tiling)
    lines: Lines = []
    if stmt in device.barriers.turns.waiting:
        lines += sync.emit("await cluster")
    rows = sync.fence_rows(stmt.pre, stmt.post, scope, by_role=device.path.by_role)
    if _others_fence(device, scope, tiling):
        rows = [row for row in rows if row != "proxy fence"]
    return [*lines, *joined(device, stmt, rows)]


def joined(device: Device, stmt: ir.Stmt, rows: Iterable[str]) -> Lines:
    """The rows of a Fence, by the threads of a statement."""
    place_of = rows_place(device, stmt)
    tiling = place_of.tiling
    lines: Lines = []
    for key in rows:
        match key:
            case "fence warps" if (found := device.named.barrier_of(tiling)) is not None:
                number = c_control(found.number, device.control)
                lines += sync.emit(key, id=number, threads=found.threads)
            case "fence lanes" if (lanes := adjacent_lanes(tiling)) is not None:
                lines += sync.emit(key, mask=hex((1 << lanes) - 1), lanes=lanes)
            case "fence lanes":
                some = lanes_of(tiling)
                first = c_atom(some.first, device.control)
                lines += sync.emit("fence some lanes", mask=hex(some.pattern), first=first)
            case "fence warps":
                raise unsupported(
                    f"the Fences of this kernel, each of some warps of the CTA, need more than the "
                    f"{LAST} named barriers that there are",
                    stmt.span,
                    "fence at warp or CTA scope, or signal mbarriers",
                    "G803",
                )
            case _:
                lines += proxies.emit(key, place_of)
    return lines


def _others_fence(device: Device, scope: Scope, tiling: Tiling) -> bool:
    """Tests whether every thread with accesses of the generic proxy executes the Fence on another
    path: in a CTA alone, all of its threads do."""
    alone = scope is Scope.CTA and tiling.cluster_dim == 1
    return alone and device.path.by_role and device.path.group not in device.proxies.groups


def rows_place(device: Device, stmt: ir.Stmt) -> Where:
    """Returns the place at which the rows of a statement are emitted."""
    tiling = device.facts.scope[stmt]
    assert tiling is not None
    path = device.path
    warps = (path.first, path.first + path.count) if path.by_role else None
    return Where(tiling, warps, device.proxies)


# Flags as text: counts in global memory, which one thread raises for all, or polls (decision
# `flags`).
#
# An Await waits for as many arrivals as a proof has counted. Its count is then all that there
# ever are, so that no later arrival is taken for an earlier one.

Wait: TypeAlias = tuple[tuple[ir.BExpr, ir.CExpr], ...]
"""A number of arrivals: the first value whose condition holds, or the last."""


def waits_of(proc: ir.Proc, counted: Sequence[str]) -> Mapping[ir.Await, Wait]:
    """The numbers that a proof has found (`Proof.waits`), by Await of a flag.

    Raises ExoGpuError (G803) where there are none.
    """
    flags = frozenset(flag.name for flag in flags_of(proc))
    sizes = {p.name.name: ir.CVar(p.name) for p in proc.params if isinstance(p, ir.ControlParam)}
    awaits = [stmt for stmt in uses(proc.body, flags) if isinstance(stmt, ir.Await)]
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
        own: dict[str, ir.CExpr] = {f"@{at}": ir.CVar(name) for at, name in enumerate(around[stmt])}
        names: dict[str, ir.CExpr] = {**sizes, **own}
        found[stmt] = tuple(
            (condition_of(where, names), control_of(value, names))
            for where, value in json.loads(text)
        )
    return found


def _iterators(
    block: ir.Block, around: tuple[Sym, ...]
) -> Iterator[tuple[ir.Stmt, tuple[Sym, ...]]]:
    """Each statement with the iterators around it, outermost first."""
    for stmt in block:
        yield stmt, around
        inner = (*around, stmt.iterator) if isinstance(stmt, ir.For) else around
        for inside in blocks(stmt):
            yield from _iterators(inside, inner)


def increasing(
    order: TaskOrder | None, launch: ir.DeviceFunction, flags: frozenset[Sym]
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


def is_flag(device: Device, access: ir.Access) -> bool:
    """Tests whether a barrier is a flag."""
    return access.name in device.storage


def arrive(device: Device, stmt: ir.Arrive) -> Lines:
    """All threads meet, then one raises the count."""
    _ordinary(stmt, frozenset({ORDINARY}))
    pointer = f"&{device.access.first_element(stmt.targets[0])}"
    return [*_meeting(device, stmt), *_by_one(device, stmt, "arrive flag", flag=pointer)]


def wait(device: Device, stmt: ir.Await) -> Lines:
    """One thread polls, then all meet; each fences the proxies where TMA is to see it."""
    _ordinary(stmt, AFTER_FLAG)
    *cases, (_, text) = [
        (c_condition(where, device.control), c_control(value, device.control))
        for where, value in device.waits[stmt]
    ]
    for condition, value in reversed(cases):
        text = f"({condition}) ? {value} : ({text})"
    pointer = f"&{device.access.first_element(stmt.barrier)}"
    waited = _by_one(device, stmt, "await flag", flag=pointer, count=text)
    place = rows_place(device, stmt)
    rows = sync.after_await(sync.full(SYNC_TIMELINES[ORDINARY]), stmt.timeline)
    told = [line for row in rows for line in proxies.emit(row, place)]
    return [*waited, *_meeting(device, stmt), *(told or proxies.after_others(place))]


def _ordinary(stmt: ir.Arrive | ir.Await, allowed: frozenset[str]) -> None:
    """Raises ExoGpuError (G803) for what the rows do not wait for; so does the front end."""
    if stmt.timeline.name not in allowed or (isinstance(stmt, ir.Await) and stmt.n != 0):
        raise unsupported(
            f"a flag on {stmt.timeline.name}",
            stmt.span,
            f"use {' or '.join(sorted(allowed))}, and n = 0",
            "G803",
        )


def _meeting(device: Device, stmt: ir.Stmt) -> Lines:
    """Emits a Fence of ordinary accesses."""
    ordinary = SYNC_TIMELINES[ORDINARY]
    scope = sync.scope_of(rows_place(device, stmt).tiling)
    rows = sync.fence_rows(ordinary, ordinary, scope, by_role=device.path.by_role)
    return joined(device, stmt, rows)


def _by_one(device: Device, stmt: ir.Stmt, row: str, **fields: str) -> Lines:
    """A row by the first of the threads."""
    tiling = rows_place(device, stmt).tiling
    lines = sync.emit(row, **fields)
    if sync.scope_of(tiling) is Scope.THREAD:
        return lines
    first = c_control(first_thread(tiling), device.control)
    return [f"if (thread == {first})", *(f"    {line}" for line in lines)]
