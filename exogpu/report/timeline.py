"""A timeline of a kernel's first task: what each role does, and who waits for whom.

Time runs downwards.  An event stands below what came before it in its lanes and below the
arrivals that release it, so that what overlaps in a run stands side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from exogpu.amir.nodes import Program
from exogpu.analysis.facts import Facts
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import Hazard, Occurrence
from exogpu.ir.nodes import DeviceFunction, Proc
from exogpu.ir.walk import walk
from exogpu.report.memory_use import main_loop, sizes_for_trips
from exogpu.report.report_data import Arrow, Bond, Box, Lane, Signal, Timeline
from exogpu.report.theorem import sizes_text
from exogpu.report.thread_table import Role, lanes_of, roles
from exogpu.report.trace import BarrierElement, Event, trace

ROW: Final = 24.0
TALL: Final = 18.0
HEAD: Final = 8.0
WIDTH: Final = 930.0
"""Pixels that the lanes share, as long as each has at least `NARROW`."""
NARROW, BROAD = 118.0, 220.0

MOST: Final = 400
"""Boxes that are drawn."""
LONGEST: Final = 20_000
"""Events that are looked at."""
NEAR: Final = 40
"""Boxes drawn before and after each of the two statements of a refutation."""


@dataclass(slots=True, eq=False)
class _Cell:
    """An event as it is drawn: one box for statements of several threads or iterations."""

    event: Event
    lanes: tuple[int, ...]
    row: int = 0
    times: int = 1
    events: int = 1
    failing: str = ""
    sources: list[_Cell] = field(default_factory=list)
    signals: list[tuple[BarrierElement, int]] = field(default_factory=list)
    """The elements of an Arrive or Await, with their ranks."""


def timeline(
    facts: Facts,
    program: Program,
    hazard: Hazard | None,
    given: Mapping[str, int] | None = None,
) -> Timeline | None:
    """The first events at the sizes given, else those around a refutation, or at small sizes; None
    without a kernel."""
    sizes = dict(given) if given is not None else drawn_sizes(facts, program, hazard)
    if sizes is None:
        return None
    run = trace(program, sizes, tasks=1 if hazard is None else hazard.task)
    wanted = _task(run.events, hazard)
    events = [e for e in run.events if e.threads and e.task == wanted]
    launch = _launch(facts.proc, events)
    if launch is None:
        return None
    first, second = _failing(events, hazard)
    looked_at = events[:LONGEST]
    lanes = roles(looked_at, launch)
    cells = _window(_cells(looked_at, lanes, first, second))
    _place(cells, len(lanes))
    left_out = len(events) - sum(cell.events for cell in cells)
    at = sizes_text(sizes)
    caption = f"Task {wanted}{f' at {at}' if at else ''}, as the abstract machine executes it"
    if left_out:
        caption += f"; {left_out} of {len(events)} statements are left out"
    return _draw_timeline(cells, lanes, caption + ".")


def drawn_sizes(facts: Facts, program: Program, hazard: Hazard | None) -> dict[str, int] | None:
    """Returns the sizes of a refutation, or the smallest at which the rings of a kernel go
    round."""
    if hazard is not None and all(p.name.name in hazard.sizes for p in program.params):
        return dict(hazard.sizes)
    proc = facts.proc
    main = main_loop(proc)
    deepest = max((depth or 1 for depth in facts.ring_depths.values()), default=1)
    for trips in (max(min(deepest + 1, 6), 3), 2, 1):
        found = sizes_for_trips(proc, main, trips)
        if found is not None:
            return found
    return sizes_for_trips(proc, None, 1)


def _task(events: Sequence[Event], hazard: Hazard | None) -> int:
    """The task to draw: a refutation's, or the first."""
    if hazard is None:
        return 1
    if hazard.task is not None:
        return hazard.task
    second = _instance(events, hazard.second)
    return 1 if second is None else max(second.task, 1)


def _launch(proc: Proc, events: Sequence[Event]) -> DeviceFunction | None:
    """The launch that the events belong to."""
    for stmt in walk(proc.body):
        if isinstance(stmt, DeviceFunction):
            inside = {inner.span for inner in walk(stmt.body)}
            if any(event.span in inside for event in events):
                return stmt
    return None


# --- a refutation's statements --------------------------------------------------------------


def _failing(events: Sequence[Event], hazard: Hazard | None) -> tuple[Event | None, Event | None]:
    """The instances of a refutation's two statements; none where it is not known which."""
    if hazard is None:
        return None, None
    second = _instance(events, hazard.second)
    first = hazard.first
    if first is None:
        return None, second
    if not first.iteration and sum(_covers(event.span, first.span) for event in events) > 1:
        return None, second
    until = events[: events.index(second)] if second is not None else events
    return _instance(until[::-1], first) or _instance(events, first), second


def _instance(events: Iterable[Event], site: Occurrence) -> Event | None:
    wanted = set(site.iteration)
    for event in events:
        if _covers(event.span, site.span) and (not wanted or set(event.iteration) <= wanted):
            return event
    return None


def _covers(statement: Span, place: Span) -> bool:
    """Tests whether a place, such as one access, is in a statement."""
    if statement == place:
        return True
    start, end = (place.line, place.column), (place.end_line, place.end_column)
    return (
        statement.file == place.file
        and (statement.line, statement.column) <= start
        and end <= (statement.end_line, statement.end_column)
    )


# --- layout ---------------------------------------------------------------------------------


def _cells(
    events: Iterable[Event], lanes: tuple[Role, ...], first: Event | None, second: Event | None
) -> list[_Cell]:
    """The boxes of the events, not yet placed."""
    cells: list[_Cell] = []
    cell_of: dict[Event, _Cell] = {}
    known: dict[tuple[object, ...], _Cell] = {}
    seen: dict[tuple[object, ...], int] = {}
    last: list[_Cell | None] = [None] * len(lanes)
    for event in events:
        mine = lanes_of(event, lanes)
        instance = (event.span, event.iteration)
        seen[instance] = seen.get(instance, 0) + 1
        key = (event.span, event.sequential, mine, seen[instance])
        cell = known.get(key)
        if cell is not None:
            cell.events += 1
        elif event.kind == "access" and (again := _repeated_box(last, mine, event)):
            cell = again
            cell.times, cell.events = cell.times + 1, cell.events + 1
        else:
            cell = _Cell(event, mine)
            cells.append(cell)
            for lane in mine:
                last[lane] = cell
        known[key] = cell_of[event] = cell
        if event.kind in ("arrive", "await"):
            cell.signals += [(element, event.rank) for element in event.elements]
        sources = [cell_of[e] for e in _releasing(event) if e in cell_of]
        cell.sources += [s for s in dict.fromkeys(sources) if s not in (*cell.sources, cell)]
        if event is first or event is second:
            cell.failing = "second" if event is second else "first"
    return cells


def _window(cells: list[_Cell]) -> list[_Cell]:
    """The boxes to draw: the first ones, or those near the failing ones."""
    failing = [at for at, cell in enumerate(cells) if cell.failing]
    if len(cells) <= MOST or not failing:
        return cells[:MOST]
    return [c for at, c in enumerate(cells) if any(abs(at - place) <= NEAR for place in failing)]


def _place(cells: list[_Cell], lanes: int) -> None:
    """Rows: below what came before in the same lanes, and below what releases it."""
    free = [0] * lanes
    shown = set(map(id, cells))
    for cell in cells:
        cell.sources = [source for source in cell.sources if id(source) in shown]
        below = [source.row + 1 for source in cell.sources]
        cell.row = max([*(free[lane] for lane in cell.lanes), *below])
        for lane in cell.lanes:
            free[lane] = cell.row + 1


def _releasing(event: Event) -> list[Event]:
    """The arrivals of an Await; instructions that signal only where nothing else arrives."""
    arrives = [e for e in event.released_by if e.kind == "arrive"]
    return arrives or list(event.released_by)


def _repeated_box(last: list[_Cell | None], lanes: tuple[int, ...], event: Event) -> _Cell | None:
    """The last box in all these lanes, if it is the same access one iteration before."""
    cell = last[lanes[0]]
    if cell is None or cell.event.span != event.span or cell.lanes != lanes:
        return None
    same = not event.elements and cell.event.sequential[:-1] == event.sequential[:-1]
    return cell if same and all(last[lane] is cell for lane in lanes) else None


def _draw_timeline(cells: list[_Cell], lanes: tuple[Role, ...], caption: str) -> Timeline:
    width = min(max(WIDTH / len(lanes), NARROW), BROAD)
    boxes = tuple(_box(cell, run, width) for cell in cells for run in _runs(cell.lanes))
    bonds = tuple(bond for cell in cells for bond in _bonds(cell, width))
    arrows = [Arrow(_path(source, cell, width), False) for cell in cells for source in cell.sources]
    failing = {cell.failing: cell for cell in cells if cell.failing}
    if "first" in failing and "second" in failing:
        arrows.append(Arrow(_path(failing["first"], failing["second"], width), True))
    return Timeline(
        caption=caption,
        lanes=tuple(Lane(r.cta, r.group, r.within, i * width) for i, r in enumerate(lanes)),
        lane_width=width,
        boxes=boxes,
        bonds=bonds,
        arrows=tuple(arrows),
        signals=tuple(_signals(cells)),
        width=width * len(lanes) + 14,
        height=HEAD + ROW * (1 + max((cell.row for cell in cells), default=0)),
    )


def _signals(cells: Iterable[_Cell]) -> Iterator[Signal]:
    for cell in sorted(cells, key=lambda cell: cell.row):
        for (name, index), rank in dict.fromkeys(cell.signals):
            at = f"[{', '.join(map(str, index))}]" if index else ""
            y = HEAD + ROW * cell.row
            yield Signal(y, cell.event.kind == "arrive", f"{name}{at}", rank)


def _runs(lanes: tuple[int, ...]) -> list[tuple[int, int]]:
    """First and last of each run of neighbouring lanes."""
    runs: list[tuple[int, int]] = []
    for lane in lanes:
        if runs and runs[-1][1] == lane - 1:
            runs[-1] = (runs[-1][0], lane)
        else:
            runs.append((lane, lane))
    return runs


def _bonds(cell: _Cell, width: float) -> Iterator[Bond]:
    y = HEAD + ROW * cell.row + TALL / 2
    for (_, last), (first, _) in pairwise(_runs(cell.lanes)):
        yield Bond(round(width * (last + 1) - 4, 1), y, round(width * (first - last - 1) + 8, 1))


def _box(cell: _Cell, run: tuple[int, int], width: float) -> Box:
    event = cell.event
    inner = event.sequential[-1:] if cell.times == 1 else event.sequential[:-1][-1:]
    note = ", ".join(f"{name}={value}" for name, value in inner)
    across = width * (run[1] - run[0] + 1) - 8
    room = int((across - 10) / 6.3) - len(note) - 1
    label = _label(event) + (f" ×{cell.times}" if cell.times > 1 else "")
    where = ", ".join(f"{name} = {value}" for name, value in event.sequential)
    title = f"line {event.span.line}: {event.text}" + (f" ({where})" if where else "")
    if event.kind == "await":
        number = event.rank
        title += f", waits for arrival {number}" if number >= 0 else ", does not wait"
    if event.kind == "arrive":
        title += f", arrival {event.rank}"
    kind = "signal" if event.kind == "access" and event.elements else event.kind
    return Box(
        x=round(width * run[0] + 4, 1),
        y=HEAD + ROW * cell.row,
        width=round(across, 1),
        height=TALL,
        kind=kind,
        label=label if len(label) <= room else label[: max(room - 1, 3)] + "…",
        note=note,
        title=title,
        line=event.span.line,
        failing=cell.failing,
    )


def _label(event: Event) -> str:
    names = list(dict.fromkeys(name for name, _ in event.elements))
    match event.kind:
        case "await" | "arrive":
            return f"{event.kind} {', '.join(names)}"
        case "fence":
            return "launch" if event.launch else "fence"
        case "free":
            return event.text
        case "access":
            call = event.text.partition("(")[0]
            simple = call.isidentifier()
            return call.removeprefix("Sm90_").removeprefix("Sm80_") if simple else event.text


def _path(source: _Cell, target: _Cell, width: float) -> str:
    """A curve from one box to another, between the lanes that are nearest to each other."""
    y1, y2 = (HEAD + ROW * cell.row + TALL / 2 for cell in (source, target))
    pairs = ((a, b) for a in _runs(source.lanes) for b in _runs(target.lanes))
    mine, other = min(pairs, key=lambda pair: max(pair[1][0] - pair[0][1], pair[0][0] - pair[1][1]))
    low, high = width * mine[0] + 4, width * (mine[1] + 1) - 4
    left, right = width * other[0] + 4, width * (other[1] + 1) - 4
    if high <= left:
        x1, x2, bend = high, left, 18.0
    elif right <= low:
        x1, x2, bend = low, right, -18.0
    else:  # they share a lane: along its right edge
        x1 = x2 = min(high, right)
        return f"M{x1:.1f} {y1:.1f}C{x1 + 14:.1f} {y1:.1f} {x2 + 14:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
