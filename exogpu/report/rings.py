"""The rings of barriers: which arrival uses which slot, and who waits for it, by trip count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from exogpu.amir.nodes import (
    Alloc,
    Arrive,
    Await,
    IncTaskID,
    Op,
    Program,
    Record,
    Release,
)
from exogpu.amir.walk import only
from exogpu.analysis.facts import Facts
from exogpu.ir.nodes import BarrierAlloc, Proc
from exogpu.ir.walk import walk
from exogpu.report.instance import main_loop, sizes_for_trips
from exogpu.report.model import Ring, Trip, Turn
from exogpu.report.theorem import sizes_text
from exogpu.report.trace import BarrierElement, Event, trace

TRIPS: Final = 8
"""The largest trip count that is offered."""


def rings_of(facts: Facts, program: Program) -> tuple[Ring, ...]:
    """Every barrier of a kernel, at one element that stands for all."""
    runs = dict(_runs(facts.proc, program))
    if not runs:
        return ()
    found: list[Ring] = []
    for stmt in walk(facts.proc.body):
        if isinstance(stmt, BarrierAlloc):
            depth = facts.ring_depths.get(stmt.name) or 0
            element = _element(stmt.name.name, runs[max(runs)][1])
            if element is None:
                continue
            trips = tuple(
                Trip(count, sizes, _turns(element, events))
                for count, (sizes, events) in runs.items()
            )
            shown = ", ".join(map(str, element[1]))
            found.append(
                Ring(
                    stmt.name.name,
                    f"{stmt.name.name}[{shown}]" if shown else stmt.name.name,
                    stmt.mechanism.value,
                    stmt.span.line,
                    depth,
                    trips,
                )
            )
    return tuple(found)


def _runs(proc: Proc, program: Program) -> Iterator[tuple[int, tuple[str, tuple[Event, ...]]]]:
    """By trip count, the sizes and the events of the first task."""
    if not any(isinstance(stmt, BarrierAlloc) for stmt in walk(proc.body)):
        return
    main = main_loop(proc)
    program = replace(program, body=only(program.body, _of_barriers))
    for trips in range(1, (TRIPS if main is not None else 1) + 1):
        sizes = sizes_for_trips(proc, main, trips)
        if sizes is not None:
            yield trips, (sizes_text(sizes), trace(program, sizes, tasks=1).events)


def _of_barriers(op: Op) -> bool:
    """Tests whether an operation is on barriers, or begins a task."""
    if isinstance(op, Record):
        return op.trailing is not None
    return isinstance(op, Arrive | Await | Alloc | Release | IncTaskID)


def _element(name: str, events: tuple[Event, ...]) -> BarrierElement | None:
    """The element of a barrier that is awaited first."""
    return next(
        (e for event in events if event.kind == "await" for e in event.elements if e[0] == name),
        None,
    )


def _turns(element: BarrierElement, events: tuple[Event, ...]) -> tuple[Turn, ...]:
    found: dict[int, tuple[str, list[str]]] = {}
    for event in events:
        if event.kind == "arrive" and event.home == element:
            found.setdefault(event.rank, (_where(event), []))
    for event in events:
        if event.kind == "await" and event.elements == (element,) and event.rank in found:
            found[event.rank][1].append(_where(event))
    return tuple(Turn(rank, at, tuple(waits)) for rank, (at, waits) in sorted(found.items()))


def _where(event: Event) -> str:
    """`line 63, k = 4`: with the innermost sequential iterator of the task."""
    inner = event.sequential[-1:]
    return f"line {event.span.line}" + "".join(f", {name} = {value}" for name, value in inner)
