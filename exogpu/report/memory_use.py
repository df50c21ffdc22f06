"""The shared memory of a CTA over program order: which bytes hold which variable, and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.amir.lower_arguments import statement_text
from exogpu.amir.walk import select_operations
from exogpu.analysis.domain import Domain, entry, smallest, within_loop
from exogpu.analysis.facts import Facts
from exogpu.codegen.control_text import SIZE_OF
from exogpu.codegen.mbarriers import barrier_bytes, rings
from exogpu.codegen.storage import SharedLayout, Storage, layout, storages
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.ir import affine
from exogpu.ir import nodes as ir
from exogpu.ir.render import isl_expr
from exogpu.ir.types import Space, Sym
from exogpu.ir.walk import accesses, blocks, walk
from exogpu.report.report_data import Ring, SharedMemory, Slab, Trip, Turn
from exogpu.report.theorem import sizes_text
from exogpu.report.trace import BarrierElement, Event, trace

WIDTH: Final = 640.0
HEIGHT: Final = 240.0
LEAST: Final = 16.0
"""Height of the smallest slab, in pixels, so that its name can be read."""


def shared_memory_pictures(facts: Facts, depths: Mapping[str, int]) -> tuple[SharedMemory, ...]:
    """A picture for each launch with shared memory; none where no layout can be made.

    `depths` are ring depths that a proof found, by mbarrier.
    """
    try:
        storage, all_rings = storages(facts), rings(facts, depths)
    except ExoGpuError:  # a kernel that code generation does not know how to lay out
        return ()
    pictures = []
    for launch in walk(facts.proc.body):
        if isinstance(launch, ir.DeviceFunction):
            _, reserved = barrier_bytes(launch, all_rings)
            made = layout(launch, storage, reserved)
            if made.size:
                pictures.append(_picture(launch, storage, made, reserved))
    return tuple(pictures)


def _picture(
    launch: ir.DeviceFunction, storage: Mapping[Sym, Storage], made: SharedLayout, reserved: int
) -> SharedMemory:
    order = [stmt for stmt in walk(launch.body)]
    step = WIDTH / max(len(order), 1)
    slabs: list[Slab] = []
    if reserved:
        lines = launch.span.line, max(stmt.span.end_line for stmt in order)
        slabs.append(Slab("mbarriers", "", 0, reserved, *lines, 1, 0, 0, WIDTH, 0))
    for begin, stmt in enumerate(order):
        if isinstance(stmt, ir.Alloc) and stmt.memory.space is Space.SHARED:
            ends = (
                i for i, s in enumerate(order) if isinstance(s, ir.Free) and s.name == stmt.name
            )
            end = next(ends, len(order))
            variable = storage[stmt.name]
            slabs.append(
                Slab(
                    stmt.name.name,
                    statement_text(stmt),
                    made.offsets[stmt.name],
                    variable.elements * SIZE_OF[variable.dtype],
                    stmt.span.line,
                    max(s.span.end_line for s in order[begin : max(end, begin + 1)]),
                    _slots(launch, stmt),
                    begin * step,
                    0,
                    (end - begin) * step,
                    0,
                )
            )
    return SharedMemory(
        tuple(_place_slabs(slabs, made.size)), made.size, WIDTH, _y(slabs, made.size)
    )


def _place_slabs(slabs: list[Slab], size: int) -> Iterator[Slab]:
    """The slabs with their heights: in proportion to bytes, but for the smallest."""
    for slab in slabs:
        top, bottom = _y(slabs, slab.offset), _y(slabs, slab.offset + slab.size)
        yield Slab(
            slab.variable,
            slab.declared,
            slab.offset,
            slab.size,
            slab.first_line,
            slab.last_line,
            slab.slots,
            round(slab.x, 1),
            round(top, 1),
            round(slab.width, 1),
            round(bottom - top, 1),
        )


def _y(slabs: list[Slab], offset: int) -> float:
    """Returns the height at which an offset is drawn: every stretch between two edges of slabs has
    a least height."""
    edges = sorted({0, *(s.offset for s in slabs), *(s.offset + s.size for s in slabs)})
    whole, at = max(edges[-1], 1), 0.0
    for low, high in pairwise(edges):
        if offset <= low:
            break
        at += max(HEIGHT * (high - low) / whole, LEAST if high - low > 8 else 0.0)
    return at


def _slots(launch: ir.DeviceFunction, alloc: ir.Alloc) -> int:
    """Slots of a ring: the extent n of a dimension that is indexed modulo n."""
    for stmt in walk(launch.body):
        for access in accesses(stmt):
            if access.name == alloc.name:
                for coord, extent in zip(access.coords, alloc.shape, strict=True):
                    match coord:
                        case ir.Point(ir.Mod(_, divisor)) if divisor == affine.constant(extent):
                            return divisor
                        case _:
                            pass
    return 1


# Small sizes for the drawings: the smallest at which a kernel's main loop runs so often.


@dataclass(frozen=True, slots=True)
class MainLoop:
    """The sequential loop of a kernel that has most statements and runs as often as sizes say."""

    loop: ir.For
    domain: Domain
    """The instances of the place it stands at."""


def main_loop(proc: ir.Proc) -> MainLoop | None:
    """The main loop of the first kernel that has one."""
    found = [
        candidate
        for launch in walk(proc.body)
        if isinstance(launch, ir.DeviceFunction)
        for candidate in _loops(launch.body, entry(proc))
    ]
    return max(found, key=lambda f: sum(1 for _ in walk(f.loop.body)), default=None)


def _loops(block: ir.Block, domain: Domain) -> Iterator[MainLoop]:
    for stmt in block:
        inner = domain
        if isinstance(stmt, ir.For):
            constant = isinstance(stmt.lo, ir.Int) and isinstance(stmt.hi, ir.Int)
            if isinstance(stmt.mode, ir.Seq) and not constant:
                yield MainLoop(stmt, domain)
                continue
            if not isinstance(stmt.mode, ir.CudaThreads) or not constant:
                inner = within_loop(domain, stmt.iterator, stmt.lo, stmt.hi)
        for inside in blocks(stmt):
            yield from _loops(inside, inner)


def sizes_for_trips(proc: ir.Proc, main: MainLoop | None, trips: int) -> dict[str, int] | None:
    """The smallest sizes at which the main loop runs exactly `trips` times, if there are any;
    without a main loop, the smallest sizes."""
    if main is None:
        domain, condition = entry(proc), "true"
    else:
        domain = main.domain
        condition = f"({isl_expr(main.loop.hi)}) - ({isl_expr(main.loop.lo)}) = {trips}"
    found = smallest(domain, condition)
    if found is None:
        return None
    return {p.name.name: found[p.name] for p in domain.params}


# The rings of barriers: which arrival uses which slot, and who waits for it, by trip count.

TRIPS: Final = 8
"""The largest trip count that is offered."""


def rings_of(facts: Facts, program: amir.Program) -> tuple[Ring, ...]:
    """Every barrier of a kernel, at one element that stands for all."""
    runs = dict(_runs(facts.proc, program))
    if not runs:
        return ()
    found: list[Ring] = []
    for stmt in walk(facts.proc.body):
        if isinstance(stmt, ir.BarrierAlloc):
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


def _runs(
    proc: ir.Proc, program: amir.Program
) -> Iterator[tuple[int, tuple[str, tuple[Event, ...]]]]:
    """By trip count, the sizes and the events of the first task."""
    if not any(isinstance(stmt, ir.BarrierAlloc) for stmt in walk(proc.body)):
        return
    main = main_loop(proc)
    program = replace(program, body=select_operations(program.body, _of_barriers))
    for trips in range(1, (TRIPS if main is not None else 1) + 1):
        sizes = sizes_for_trips(proc, main, trips)
        if sizes is not None:
            yield trips, (sizes_text(sizes), trace(program, sizes, tasks=1).events)


def _of_barriers(op: amir.Op) -> bool:
    """Tests whether an operation is on barriers, or begins a task."""
    if isinstance(op, amir.Record):
        return op.trailing is not None
    return isinstance(op, amir.Arrive | amir.Await | amir.Alloc | amir.Release | amir.IncTaskID)


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
            found.setdefault(event.rank, (_event_text(event), []))
    for event in events:
        if event.kind == "await" and event.elements == (element,) and event.rank in found:
            found[event.rank][1].append(_event_text(event))
    return tuple(Turn(rank, at, tuple(waits)) for rank, (at, waits) in sorted(found.items()))


def _event_text(event: Event) -> str:
    """`line 63, k = 4`: with the innermost sequential iterator of the task."""
    inner = event.sequential[-1:]
    return f"line {event.span.line}" + "".join(f", {name} = {value}" for name, value in inner)
