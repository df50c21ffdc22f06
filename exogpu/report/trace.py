"""A run of the abstract machine at small sizes, as events for drawings.

The machine counts what arrives, so that each Await knows the arrivals that release it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from exogpu.amir import nodes as amir
from exogpu.diagnostics.errors import Span
from exogpu.machine.literal import execute
from exogpu.machine.literal_records import EVERYONE, Threads
from exogpu.machine.observer import Arrival, Iteration, Moment, Observer, Waiting

LIMIT: Final = 60_000
"""Operations after which a run is cut off."""

Kind = Literal["access", "fence", "arrive", "await", "free"]
BarrierElement = tuple[str, tuple[int, ...]]


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
    launch: bool = False
    """The fence is one of those around a kernel."""
    home: BarrierElement | None = None
    """The home of an Arrive."""
    elements: tuple[BarrierElement, ...] = ()
    """On which it arrives or waits."""
    rank: int = 0
    """The number of an arrival; of an Await, the newest that it waits for."""
    released_by: tuple[Event, ...] = ()
    """The arrivals that release an Await, and the instructions that signal with them."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of a run in program order."""

    events: tuple[Event, ...]
    complete: bool
    """The program ran to its end."""


def trace(program: amir.Program, sizes: Mapping[str, int], tasks: int | None = None) -> Trace:
    """The events of the first `tasks` tasks, or of all, up to a limit."""
    tracer = _Tracer(program, tasks)
    execute(program, sizes, tracer)
    return Trace(tuple(tracer.events), tracer.complete)


class _Tracer(Observer):
    """One event a statement, of a run that asks no access."""

    def __init__(self, program: amir.Program, tasks: int | None) -> None:
        super().__init__()
        self.barriers = {v.name for v in program.variables if v.mechanism is not None}
        self.tasks = tasks
        self.task = 0
        self.operations = 0
        self.complete = True
        self.events: list[Event] = []
        self.arrived_on: dict[BarrierElement, list[tuple[int, Event]]] = {}
        """By element, rank and event of what arrives on it."""
        self._threads: dict[Threads, frozenset[int]] = {}

    def asks(self, at: Moment) -> bool:
        """Visibility is not looked at: the checks do that."""
        return False

    def step(self, at: Moment) -> bool:
        """The event of an operation, up to the limit."""
        self.operations += 1
        match at.op:
            case amir.IncTaskID():
                self.complete = self.task != self.tasks
                self.task += 1
            case amir.Alloc() | amir.Release():
                for element in [e for e in self.arrived_on if e[0] == at.op.name.name]:
                    del self.arrived_on[element]
            case amir.Record() if at.op.access.name in self.barriers:
                self.event("access", at)
            case amir.Record() | amir.Check():
                free = isinstance(at.op, amir.Check) and at.op.free
                event = self.event("free" if free else "access", at)
                event.variables[at.op.access.name.name] = None
            case amir.Fence():
                self.event("fence", at).launch = at.op.launch
            case amir.Arrive():
                self.event("arrive", at)
            case amir.Await():
                self.event("await", at)
            case _:
                pass
        self.complete = self.complete and self.operations <= LIMIT
        return self.complete

    def event(self, kind: Kind, at: Moment) -> Event:
        """The event of an operation: that of the statement, if it has begun already."""
        span = at.op.origin.span
        around = [(loop, n) for loop, n in at.loops_around if loop.origin.span != span]
        iteration = tuple((loop.iterator.name, n) for loop, n in around)
        if at.threads not in self._threads:
            found = frozenset(t for _, t in at.threads - {EVERYONE})
            self._threads[at.threads] = found
        threads = self._threads[at.threads]
        if self.events:
            last = self.events[-1]
            if (last.span, last.iteration, last.task) == (span, iteration, self.task):
                last.threads |= threads
                if kind != "access":
                    last.kind = kind
                return last
        plain = tuple(
            (loop.iterator.name, n) for loop, n in around if not loop.threads and not loop.tasks
        )
        task = self.task if threads else 0
        made = Event(kind, span, at.op.origin.text, task, threads, iteration, plain)
        self.events.append(made)
        return made

    def on_arrive(self, at: Moment, arrival: Arrival) -> None:
        """Notes the targets of the last event's arrival."""
        event = self.events[-1]
        targets = [(name.name, index) for name, index in arrival.targets]
        if isinstance(at.op, amir.Arrive):
            name, index = arrival.home
            event.home = (name.name, index)
        event.elements = tuple(dict.fromkeys((*event.elements, *targets)))
        event.rank = arrival.rank
        for target in targets:
            self.arrived_on.setdefault(target, []).append((arrival.rank, event))

    def on_await(self, at: Moment, waiting: Waiting) -> None:
        """Notes the events that release the last event."""
        event, (name, index) = self.events[-1], waiting.element
        element = (name.name, index)
        event.elements, event.rank = (element,), waiting.bound
        arrived = self.arrived_on.get(element, ())
        released = (other for rank, other in arrived if rank == waiting.bound)
        event.released_by = tuple(dict.fromkeys(released))
