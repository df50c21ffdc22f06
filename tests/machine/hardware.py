"""A program of the abstract machine in random orders of its threads, on what the hardware counts.

Of a task's threads each has its own operations in program order.  An arrival is counted on the
hardware mbarrier of its number, and an Await tests a parity; a copy completes at any time after it
was issued.  Timelines are left out, so that more is ordered here than by the machine: what it
accepts must be right here in every order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import TypeAlias

from exogpu.amir import nodes as amir
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import Access, Interval
from exogpu.ir.types import BarrierMechanism, Level, QualTL, Sym
from exogpu.ir.walk import evaluate
from exogpu.machine.literal import execute, run
from exogpu.machine.literal_records import Element
from exogpu.machine.observer import Arrival, Moment, Observer, Waiting

Thread: TypeAlias = tuple[int, int]
"""Its task, and its number there."""

DEEPEST = 8
"""The deepest ring that is tried where the depth must be found."""


@dataclass(frozen=True)
class Event:
    """What some threads do: an access or its check, a Fence, an Arrive or an Await."""

    at: Moment
    elements: tuple[Element, ...] = ()
    arrival: Arrival | None = None
    """Of an Arrive, or of a copy that completes on an mbarrier."""
    bound: int = -1
    """The arrival that an Await waits for; below 0 for none."""
    after: tuple[int, ...] = ()
    """Of a check, the accesses that have to be over, by their numbers."""


@dataclass(slots=True, eq=False)
class _Recorder(Observer):
    """The operations of a run in program order."""

    program: amir.Program = field(kw_only=True)
    sizes: Mapping[str, int] = field(kw_only=True)
    events: list[Event] = field(default_factory=list)
    alive: dict[tuple[bool, Element], list[int]] = field(default_factory=dict)
    """The writes, and the reads, of an element that are not cleared."""
    allocated: list[Sym] = field(default_factory=list)

    def step(self, at: Moment) -> bool:
        match at.op:
            case amir.Record(mutate=mutate, access=access):
                touched = tuple(self._elements(at, access))
                for element in touched:
                    self.alive.setdefault((mutate, element), []).append(len(self.events))
                self.events.append(Event(at, touched))
            case amir.Check(level=Level.FULLY_ORDERED | Level.TEMPORALLY_ORDERED) as op:
                keys = [(op.mutates, element) for element in self._elements(at, op.access)]
                after = sorted({n for key in keys for n in self.alive.get(key, ())})
                if not (op.convergent and len(at.threads) > 1):
                    self.events.append(Event(at, after=tuple(after)))
            case amir.Clear(mutates=mutates, access=access):
                for element in self._elements(at, access):
                    self.alive.pop((mutates, element), None)
            case amir.Alloc(name=name):
                self.allocated.append(name)
            case amir.Fence() | amir.Arrive() | amir.Await():
                self.events.append(Event(at))
            case _:
                pass
        return True

    def on_arrive(self, at: Moment, arrival: Arrival) -> None:
        self.events[-1] = replace(self.events[-1], arrival=arrival)

    def on_await(self, at: Moment, waiting: Waiting) -> None:
        element = (waiting.element,)
        self.events[-1] = replace(self.events[-1], elements=element, bound=waiting.bound)

    def _elements(self, at: Moment, access: Access) -> Iterator[Element]:
        sigma = {p.name: self.sizes[p.name.name] for p in self.program.params}
        sigma |= {loop.iterator: value for loop, value in at.loops_around}
        ranges = []
        for coord in access.coords:
            if isinstance(coord, Interval):
                ranges.append(range(evaluate(coord.lo, sigma), evaluate(coord.hi, sigma)))
            else:
                ranges.append(range(first := evaluate(coord.at, sigma), first + 1))
        for index in product(*ranges):
            yield access.name, index


def depths(program: amir.Program, sizes: Mapping[str, int]) -> dict[Sym, int] | None:
    """The depth of each mbarrier, the smallest where it must be found; None where none holds."""
    found: dict[Sym, int] = {}
    for variable in program.variables:
        if variable.mechanism is not BarrierMechanism.MBARRIER:
            continue
        tried = [variable.depth] if variable.depth else range(1, DEEPEST + 1)
        found[variable.name] = next((d for d in tried if _keeps(program, sizes, variable, d)), 0)
    return found if all(found.values()) else None


def _keeps(
    program: amir.Program, sizes: Mapping[str, int], variable: amir.Variable, depth: int
) -> bool:
    """Whether no PHASE hazard is on the variable at a depth."""
    deep = replace(variable, depth=depth)
    others = [deep if v.name == variable.name else v for v in program.variables]
    violations = run(replace(program, variables=tuple(others)), sizes, collect=True)
    phase = [v for v in violations if v.kind is HazardKind.PHASE]
    return not any(v.variable == variable.name.name for v in phase)


@dataclass(slots=True, eq=False)
class _Mbarrier:
    """One hardware mbarrier: arrivals and bytes still missing, phases that are over."""

    count: int
    missing: int
    copies: int = 0
    phase: int = 0
    clock: int = 0
    over: list[int] = field(default_factory=list)
    """Of each phase that is over, the accesses that are ordered before its end."""

    def end(self) -> None:
        if self.missing == 0 and self.copies == 0:
            self.over.append(self.clock)
            self.phase, self.missing, self.clock = self.phase + 1, self.count, 0


class SkippedError(Exception):
    """The program has what is not modelled here."""


@dataclass(slots=True, eq=False)
class Run:
    """One execution; `wrong` says what went wrong in it."""

    events: Sequence[Event]
    depth: Mapping[Sym, int]
    random: Random
    wrong: str = ""
    clocks: dict[Thread, int] = field(default_factory=dict)
    mbarriers: dict[tuple[Element, int], _Mbarrier] = field(default_factory=dict)
    flying: list[tuple[int, Thread, int]] = field(default_factory=list)
    """Copies on their way: event, thread and what is ordered before each."""
    bits: dict[tuple[int, Thread], int] = field(default_factory=dict)
    copies: dict[tuple[Element, int], int] = field(default_factory=dict)
    """Those that complete on an arrival of an element."""
    expects: set[tuple[Element, int]] = field(default_factory=set)
    """The arrivals that have said how many copies they wait for."""

    def _expected(self) -> tuple[dict[tuple[Element, int], int], dict[tuple[Element, int], int]]:
        """Of each arrival of an element, its threads and its copies."""
        threads: dict[tuple[Element, int], int] = {}
        copies: dict[tuple[Element, int], int] = {}
        for event in self.events:
            if event.arrival is None or event.arrival.home[0] not in self.depth:
                continue
            found = threads if isinstance(event.at.op, amir.Arrive) else copies
            for target in event.arrival.targets:
                key = (target, event.arrival.rank)
                found[key] = found.get(key, 0) + len(event.at.threads)
        return threads, copies

    def go(self) -> str:
        """Executes all; what goes wrong, or nothing."""
        threads, self.copies = self._expected()
        copied = [e.arrival for e in self.events if _lands(e) and e.arrival is not None]
        if any(len(one.targets) > 1 for one in copied):
            raise SkippedError("a copy into one element that completes on several mbarriers")
        if not self.copies.keys() <= threads.keys():
            raise SkippedError("a copy that completes where nobody arrives")
        for element in {element for element, _ in threads}:
            counts = {n for (e, _), n in threads.items() if e == element}
            if len(counts) > 1:
                raise SkippedError("an element has arrivals of several numbers of threads")
            for slot in range(self.depth[element[0]]):
                count = min(counts)
                self.mbarriers[element, slot] = _Mbarrier(count, count)
        streams: dict[Thread, list[int]] = {}
        for number, event in enumerate(self.events):
            for thread in event.at.threads:
                streams.setdefault(thread, []).append(number)
                if isinstance(event.at.op, amir.Record):
                    self.bits[number, thread] = 1 << len(self.bits)
        self.clocks = dict.fromkeys(streams, 0)
        while not self.wrong and (any(streams.values()) or self.flying):
            ready = [one for one in streams if streams[one] and self._may(streams, one)]
            landing = len(self.flying)
            if not ready and not landing:
                return "deadlock"
            chosen = self.random.randrange(len(ready) + landing)
            if chosen < len(ready):
                self._step(streams, ready[chosen])
            else:
                self._land(*self.flying.pop(chosen - len(ready)))
        return self.wrong

    def _may(self, streams: dict[Thread, list[int]], thread: Thread) -> bool:
        number = streams[thread][0]
        event = self.events[number]
        if isinstance(event.at.op, amir.Fence) and event.at.op.joins:
            return all(streams[other][:1] == [number] for other in event.at.threads)
        if isinstance(event.at.op, amir.Await) and event.bound >= 0:
            one, phase = self._at(event.elements[0], event.bound)
            return one.phase % 2 != phase % 2
        return True

    def _at(self, element: Element, rank: int) -> tuple[_Mbarrier, int]:
        depth = self.depth[element[0]]
        return self.mbarriers[element, rank % depth], rank // depth

    def _step(self, streams: dict[Thread, list[int]], thread: Thread) -> None:
        number = streams[thread][0]
        event = self.events[number]
        match event.at.op:
            case amir.Fence(joins=True):
                together = 0
                for other in event.at.threads:
                    together |= self._known(number, other)
                for other in event.at.threads:
                    self.clocks[other] = together
                    streams[other].pop(0)
                return
            case amir.Arrive():
                self._arrive(number, thread)
            case amir.Await() if event.bound >= 0:
                one, phase = self._at(event.elements[0], event.bound)
                if one.phase != phase + 1:
                    self.wrong = f"line {_line(event)}: passes for {phase}, {one.phase} are over"
                else:
                    self.clocks[thread] |= one.over[phase]
            case amir.Record() if event.elements:
                self._access(number, thread)
            case amir.Check():
                self._check(event, thread)
        streams[thread].pop(0)

    def _known(self, number: int, thread: Thread) -> int:
        """What is ordered before a thread's Fence or Arrive: of its own copies, which no lowering
        waits for, those of a timeline on the first side, as the machine has it."""
        sync, clock = self.events[number].at.op, self.clocks[thread]
        assert isinstance(sync, amir.Fence | amir.Arrive)
        if QualTL.TMA_S not in sync.pre:
            return clock
        for (copy, issuer), bit in self.bits.items():
            op = self.events[copy].at.op
            if issuer == thread and copy < number and self.events[copy].arrival is not None:
                assert isinstance(op, amir.Record)
                clock |= bit if op.timeline in sync.pre else 0
        return clock

    def _arrive(self, number: int, thread: Thread) -> None:
        event = self.events[number]
        assert event.arrival is not None
        for target in event.arrival.targets:
            one, phase = self._at(target, event.arrival.rank)
            if one.phase != phase or one.missing == 0:
                self.wrong = f"line {_line(event)}: counted in phase {one.phase}, not {phase}"
                return
            one.missing -= 1
            one.clock |= self._known(number, thread)
            if (key := (target, event.arrival.rank)) not in self.expects:
                self.expects.add(key)
                one.copies += self.copies.get(key, 0)
            one.end()

    def _check(self, event: Event, thread: Thread) -> None:
        for number in event.after:
            before = self.events[number]
            assert isinstance(before.at.op, amir.Record)
            if before.at.op.convergent:
                continue
            own = {thread} if before.at.op.level >= Level.TEMPORALLY_ORDERED else set[Thread]()
            for one in before.at.threads - own:
                if not self.bits[number, one] & self.clocks[thread]:
                    self.wrong = f"line {_line(event)} is not after line {_line(before)}"

    def _access(self, number: int, thread: Thread) -> None:
        event = self.events[number]
        if event.arrival is not None:
            self.flying.append((number, thread, self.clocks[thread]))
        else:
            self.clocks[thread] |= self.bits[number, thread]

    def _land(self, number: int, thread: Thread, before: int) -> None:
        event = self.events[number]
        assert event.arrival is not None
        for target in event.arrival.targets:
            one, phase = self._at(target, event.arrival.rank)
            if one.phase != phase:
                self.wrong = f"line {_line(event)}: lands in phase {one.phase}, not {phase}"
                return
            one.copies -= 1
            one.clock |= before | self.bits[number, thread]
            one.end()


def _lands(event: Event) -> bool:
    return isinstance(event.at.op, amir.Record) and event.at.op.mutate


def _line(event: Event) -> int:
    return event.at.op.origin.span.line


def went_wrong(program: amir.Program, sizes: Mapping[str, int], orders: int, seed: int) -> set[str]:
    """What goes wrong in some of so many orders; raises SkippedError for what is not modelled."""
    if any(v.mechanism not in (None, BarrierMechanism.MBARRIER) for v in program.variables):
        raise SkippedError("a barrier that is no mbarrier")
    recorder = _Recorder(program=program, sizes=sizes)
    execute(program, sizes, recorder)
    tasks = {event.at.task for event in recorder.events if event.at.threads}
    if len(tasks) > 1 or recorder.found:
        raise SkippedError("several tasks, or a violation")
    if len(set(recorder.allocated)) < len(recorder.allocated):
        raise SkippedError("a variable that is allocated again")
    deep = depths(program, sizes)
    if deep is None:
        raise SkippedError("no depth")
    found = {Run(recorder.events, deep, Random(seed + n)).go() for n in range(orders)}
    return found - {""}
