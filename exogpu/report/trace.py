"""A run of the abstract machine's program at small sizes, as events for drawings.

Operations execute in program order.  Barriers count as the machine's rules say, so that each
Await knows the arrivals that release it; visibility is not looked at: the checks do that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Literal

from exogpu.amir.nodes import (
    Alloc,
    Arrive,
    Await,
    Block,
    Check,
    CheckBarrier,
    Clear,
    Fence,
    Guard,
    IncTaskID,
    Loop,
    Op,
    Program,
    Record,
    Release,
)
from exogpu.analysis.threadmap import ThreadMap, threads_of
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Interval, Point
from exogpu.ir.walk import control_variables, evaluate, holds
from exogpu.result.errors import Span

LIMIT: Final = 60_000
"""Operations after which a run is cut off."""

Kind = Literal["access", "fence", "arrive", "await", "free"]
Element = tuple[str, tuple[int, ...]]
Iteration = tuple[tuple[str, int], ...]


@dataclass(slots=True, eq=False)
class Event:
    """One statement, executed once by some threads."""

    kind: Kind
    span: Span
    text: str
    task: int
    threads: frozenset[int]
    iteration: Iteration
    """Values of all enclosing iterators, those inside an instruction aside."""
    sequential: Iteration
    """The same without those of task loops and thread loops."""
    variables: dict[str, None] = field(default_factory=dict)
    home: Element | None = None
    """Of an Arrive."""
    elements: tuple[Element, ...] = ()
    """On which it arrives or waits."""
    rank: int = 0
    """The number of an arrival; of an Await, the newest that it waits for."""
    released_by: tuple[Event, ...] = ()
    """Of an Await: the arrivals, and the instructions that signal with them."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of a run in program order."""

    events: tuple[Event, ...]
    complete: bool
    """Whether the program ran to its end."""


class _Cut(Exception):
    """The run is long enough."""


def trace(program: Program, sizes: Mapping[str, int], tasks: int | None = None) -> Trace:
    """The events of the first `tasks` tasks, or of all, up to a limit."""
    run = _Run(program, sizes, tasks)
    try:
        run.block(program.body, {p.name: sizes[p.name.name] for p in program.params})
    except _Cut:
        return Trace(tuple(run.events), False)
    return Trace(tuple(run.events), True)


class _Run:
    def __init__(self, program: Program, sizes: Mapping[str, int], tasks: int | None) -> None:
        values = {p.name: sizes[p.name.name] for p in program.params}
        self.shapes = {
            v.name: tuple(evaluate(e, values) for e in v.shape)
            for v in program.variables
            if v.mechanism is not None
        }
        self.events: list[Event] = []
        self.tasks = tasks
        self.task = 0
        self.operations = 0
        self.around: list[Loop] = []
        self.arrives: dict[Element, int] = {}
        self.awaits: dict[Element, int] = {}
        self.arrived: dict[Element, list[tuple[Element, int, Event]]] = {}
        """By element: home, rank and event of what arrives on it."""
        self._names: dict[ThreadMap, list[Sym]] = {}
        self._threads: dict[tuple[ThreadMap, tuple[int, ...]], frozenset[int]] = {}

    def block(self, block: Block, env: dict[Sym, int]) -> None:
        for op in block:
            self.operations += 1
            if self.operations > LIMIT:
                raise _Cut
            self.step(op, env)

    def step(self, op: Op, env: dict[Sym, int]) -> None:
        match op:
            case Loop():
                self.around.append(op)
                for value in range(evaluate(op.lo, env), evaluate(op.hi, env)):
                    env[op.iterator] = value
                    self.block(op.body, env)
                self.around.pop()
            case Guard():
                if holds(op.condition, env):
                    self.block(op.body, env)
            case IncTaskID():
                if self.task == self.tasks:
                    raise _Cut
                self.task += 1
            case Alloc() | Release():
                self.forget(op.name)
            case Record():
                self.record(op, env)
            case Check():
                kind: Kind = "free" if op.free else "access"
                self.event(kind, op, env).variables[op.access.name.name] = None
            case Clear() | CheckBarrier():
                pass
            case Fence():
                self.event("fence", op, env)
            case Arrive():
                self.arrive(op, env)
            case Await():
                self.await_(op, env)

    # --- one event a statement ------------------------------------------------------------

    def event(self, kind: Kind, op: Op, env: Mapping[Sym, int]) -> Event:
        """The event of an operation: that of the statement, if it has begun already."""
        span = op.origin.span
        loops = [loop for loop in self.around if loop.origin.span != span]
        iteration = tuple((loop.iterator.name, env[loop.iterator]) for loop in loops)
        threads = self.threads(op.origin.threads, env)
        if self.events:
            last = self.events[-1]
            if (last.span, last.iteration, last.task) == (span, iteration, self.task):
                last.threads |= threads
                if kind != "access":
                    last.kind = kind
                return last
        plain = tuple(
            (loop.iterator.name, env[loop.iterator])
            for loop in loops
            if not loop.threads and not loop.tasks
        )
        task = self.task if threads else 0
        made = Event(kind, span, op.origin.text, task, threads, iteration, plain)
        self.events.append(made)
        return made

    def threads(self, mapping: ThreadMap | None, env: Mapping[Sym, int]) -> frozenset[int]:
        """The executing threads; none at CPU scope."""
        if mapping is None:
            return frozenset()
        names = self._names.get(mapping)
        if names is None:
            found = {name for axis in mapping.axes for name in control_variables(axis.offset)}
            names = self._names[mapping] = sorted(found, key=lambda name: name.number)
        key = (mapping, tuple(env[name] for name in names))
        if key not in self._threads:
            self._threads[key] = frozenset(threads_of(mapping, env))
        return self._threads[key]

    # --- barriers -------------------------------------------------------------------------

    def forget(self, name: Sym) -> None:
        for table in (self.arrives, self.awaits, self.arrived):
            for element in [e for e in table if e[0] == name.name]:
                del table[element]

    def record(self, op: Record, env: Mapping[Sym, int]) -> None:
        event = self.event("access", op, env)
        if op.access.name not in self.shapes:
            event.variables[op.access.name.name] = None
        if op.trailing is not None:
            (home,) = self.elements(op.trailing.home, env)
            targets = [e for t in op.trailing.targets for e in self.elements(t, env)]
            rank = self.arrives.get(home, 0)
            event.elements = tuple(dict.fromkeys((*event.elements, *targets)))
            event.rank = rank
            self.note(event, home, targets, rank)

    def arrive(self, op: Arrive, env: Mapping[Sym, int]) -> None:
        event = self.event("arrive", op, env)
        (event.home,) = self.elements(op.home, env)
        targets = [e for target in op.targets for e in self.elements(target, env)]
        event.elements = tuple(dict.fromkeys(targets))
        event.rank = self.arrives.get(event.home, 0)
        self.note(event, event.home, targets, event.rank)
        self.arrives[event.home] = event.rank + 1

    def note(self, event: Event, home: Element, targets: list[Element], rank: int) -> None:
        for target in targets:
            self.arrived.setdefault(target, []).append((home, rank, event))

    def await_(self, op: Await, env: Mapping[Sym, int]) -> None:
        event = self.event("await", op, env)
        (element,) = self.elements(op.barrier, env)
        a, w = self.arrives.get(element, 0), self.awaits.get(element, 0)
        bound = a - (op.n + 1) if op.n >= 0 else w + op.n + 1
        event.elements, event.rank = (element,), bound
        found = (e for _, rank, e in self.arrived.get(element, ()) if rank == bound)
        event.released_by = tuple(dict.fromkeys(found))
        self.awaits[element] = max(w, bound + 1) if op.n >= 0 else w + 1

    def elements(self, access: Access, env: Mapping[Sym, int]) -> Iterator[Element]:
        axes: list[range] = []
        for coord, extent in zip(access.coords, self.shapes[access.name], strict=True):
            match coord:
                case Point(at):
                    value = evaluate(at, env)
                    axes.append(range(value, value + 1))
                case Interval(lo, hi):
                    axes.append(range(max(evaluate(lo, env), 0), min(evaluate(hi, env), extent)))
        for index in product(*axes):
            yield access.name.name, index
