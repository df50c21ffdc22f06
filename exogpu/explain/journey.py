"""Follows one access: the syncs that pass its visibility on, and those that do not, with the
reason.

An observer of the machine, which records this one access alone: from there to the check that
fails, with the syncs between.  Of the tasks it runs those of the two sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.amir.walk import (
    begins_tasks,
    loops_of,
    operations,
    path_to,
    rewritten,
    select_operations,
)
from exogpu.ir.nodes import Int, Point
from exogpu.ir.types import QualSet, QualTL, Sym
from exogpu.machine import literal_records, observer
from exogpu.machine.literal import execute

PATIENCE: Final = 500_000
"""Steps of records and syncs after which a journey is given up: a few seconds."""


class Why(Enum):
    """A reason why a sync does not pass an access on."""

    UNSEEN = "none of its threads has seen the access by then"
    TIMELINE = "they have seen it, on no timeline of its first set"
    NOT_TRANSITIVE = "it is not transitive, and they see it on other timelines than its own"
    RANK = "the Await waits for another arrival than the one that carries the access"
    ELEMENT = "the access is carried by other elements of the barrier"
    EARLIER = "the arrivals that the Await waits for come before the access"


@dataclass(frozen=True, slots=True, eq=False)
class PassedOn:
    """A sync that passes the access on."""

    op: observer.Sync
    iteration: observer.Iteration
    threads: literal_records.Threads
    grant: literal_records.Grant
    after: PassedOn | None
    """The one that made it visible to this one's threads; None where the access itself did."""
    carried: QualSet = frozenset()
    """The timelines of the async proxy on which it is passed on in full (decision
    `proxy-fence-anywhere`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Missed:
    """A sync that does not pass the access on."""

    op: observer.Sync
    iteration: observer.Iteration
    threads: literal_records.Threads
    why: Why
    seen: QualSet = frozenset()
    """The timelines on which the threads of this sync have seen it."""
    tag: tuple[literal_records.Element, int] | None = None
    """The arrival that carries the access instead, or that an Await waits for."""
    arrive: Missed | None = None
    """The Arrive that should have passed the access on to an Await."""
    bound: int = -1
    """For an Await: its Max, the last arrival that it waits for."""


@dataclass(slots=True, eq=False)
class Journey:
    """A visibility record on its way, in program order."""

    record: literal_records.VisibilityRecord
    passed: list[PassedOn] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    carried: dict[tuple[literal_records.Element, int], PassedOn | None] = field(
        default_factory=dict
    )
    """By element and rank, the Arrive that tagged it; None for the access's trailing barrier."""
    uncarried: dict[literal_records.Element, list[tuple[int, Missed]]] = field(default_factory=dict)
    """By element, the Arrives that did not, with their ranks."""


@dataclass(frozen=True, slots=True, eq=False)
class Unseen:
    """The journey that ends at a failing check, and the threads that do not see the access."""

    journey: Journey
    blind: literal_records.Threads


def follow(
    program: amir.Program, sizes: Mapping[str, int], violation: observer.Violation
) -> Unseen | None:
    """The journey of the access that a violation names, up to its check.

    None where the access has no instance, or the way is too long.
    """
    if violation.record_iteration is None or not isinstance(violation.check, amir.Check):
        return None
    needed = _slice_program(program, violation)
    way = _Way(*needed, most=1)
    execute(way.program, sizes, way)
    if way.failure is None and way.others:
        way = _Way(*needed)
        execute(way.program, sizes, way)
    return way.failure


def counts_at(
    program: amir.Program, sizes: Mapping[str, int], violation: observer.Violation, barrier: Sym
) -> tuple[int, int] | None:
    """Counts arrivals and awaits on the violation's element of a barrier before the operation that
    fails; None if the way there is too long."""
    way = _Way(*_slice_program(program, violation))
    state = execute(way.program, sizes, way).barriers.get(barrier)
    if state is None or way.left < 0:
        return None
    return state.arrives.get(violation.index, 0), state.awaits.get(violation.index, 0)


def _slice_program(
    program: amir.Program, violation: observer.Violation
) -> tuple[amir.Program, observer.Violation]:
    """The program without what cannot matter to a journey: other accesses, other elements, and
    data."""
    barriers = {v.name for v in program.variables if v.mechanism is not None}
    element = tuple(Point(Int(at)) for at in violation.index)
    sides: dict[amir.Op, amir.Op] = {}
    for op in (violation.check, violation.record):
        if isinstance(op, amir.Check | amir.Record):
            sides[op] = replace(op, access=replace(op.access, coords=element))
        elif op is not None:
            sides[op] = op

    def matters(op: amir.Op) -> bool:
        match op:
            case amir.Alloc() | amir.Release():
                return op.name in barriers
            case amir.Record() | amir.Check() | amir.Clear() | amir.CheckBarrier():
                return op in sides
            case amir.Initialise() | amir.CheckInitialised():
                return False
            case amir.Require():
                return False
            case _:
                return True

    body = rewritten(
        select_operations(program.body, matters), {op: (new,) for op, new in sides.items()}
    )
    check, record = sides[violation.check], violation.record
    about = replace(violation, check=check, record=None if record is None else sides[record])
    return replace(program, body=body), about


class _Way(observer.Observer):
    """A run over the tasks of the access and of the check, up to the check."""

    def __init__(
        self, program: amir.Program, violation: observer.Violation, most: int | None = None
    ) -> None:
        super().__init__()
        self.program = program
        self.violation = violation
        self.most = most
        """The number of the access's records that are followed; the first that fails is all it
        takes."""
        self.others = False
        """More records than these exist."""
        self.journeys: dict[literal_records.VisibilityRecord, Journey] = {}
        self.left = PATIENCE
        self.failure: Unseen | None = None
        self._over = False
        self._signal: observer.Arrival | observer.Waiting | None = None
        # Tasks of neither side order nothing between the two, unless barriers reside.
        loops = [op for op in operations(program.body) if isinstance(op, amir.Loop)]
        apart = not any(variable.resident for variable in program.variables)
        tasks = [op for op in loops if apart and begins_tasks(op.body)]
        self._only: dict[amir.Loop, set[int]] = {op: set() for op in tasks}
        for side, iteration in (
            (violation.check, violation.iteration),
            (violation.record, violation.record_iteration),
        ):
            around = () if side is None else loops_of(path_to(program.body, side))
            for loop, (_, value) in zip(around, iteration or (), strict=False):
                syncs = any(isinstance(op, observer.Sync) for op in operations(loop.body))
                if loop in self._only or not syncs:
                    self._only.setdefault(loop, set()).add(value)

    def step(self, at: observer.Moment) -> bool:
        """Up to the check, and not after it."""
        self.left -= 1 + len(self.journeys)
        if self._over or self.left < 0:
            return False
        self._over = at.op is self.violation.check and at.iteration == self.violation.iteration
        return not (self._over and isinstance(at.op, amir.CheckBarrier | amir.Await))

    def iterations(self, loop: amir.Loop, values: range) -> Iterable[int]:
        """Selects the iterations on the way from the access to the check."""
        only = self._only.get(loop)
        return values if only is None else sorted(only & set(values))

    def asks(self, at: observer.Moment) -> bool:
        """The instances of the two accesses."""
        if isinstance(at.op, amir.Record):
            return at.iteration == self.violation.record_iteration
        return self._over and isinstance(at.op, amir.Check)

    def recorded(
        self, at: observer.Moment, made: list[literal_records.VisibilityRecord]
    ) -> list[literal_records.VisibilityRecord]:
        """The journeys begin."""
        self.others = self.most is not None and len(made) > self.most
        for record in made[: self.most]:
            journey = self.journeys[record] = Journey(record)
            for element, tags in record.tags.items():
                journey.carried |= dict.fromkeys((element, rank) for rank, *_ in tags)
        return made[: self.most]

    def on_arrive(self, at: observer.Moment, arrival: observer.Arrival) -> None:
        """Notes the arrival that an Arrive may pass on next."""
        self._signal = arrival

    def on_await(self, at: observer.Moment, waiting: observer.Waiting) -> None:
        """Notes the wait that an Await may pass on next."""
        self._signal = waiting

    def on_meeting(
        self,
        at: observer.Moment,
        record: literal_records.VisibilityRecord,
        given: literal_records.Given,
    ) -> None:
        """One more step of a journey."""
        journey, signal = self.journeys[record], self._signal
        assert isinstance(at.op, observer.Sync)
        if isinstance(at.op, amir.Await):
            assert isinstance(signal, observer.Waiting)
            _note_wait(journey, at.op, at, given, signal)
            return
        arrival = (
            signal
            if isinstance(at.op, amir.Arrive) and isinstance(signal, observer.Arrival)
            else None
        )
        targets = () if arrival is None else arrival.targets
        rank = -1 if arrival is None else arrival.rank
        if given.grant is literal_records.Grant.NOTHING:
            missed = _missed(record, at.op, at)
            for target in targets:
                journey.uncarried.setdefault(target, []).append((rank, missed))
            if arrival is None:
                journey.missed.append(missed)
            return
        after = _parent(journey, at.op, at.threads)
        passed = PassedOn(at.op, at.iteration, at.threads, given.grant, after, given.carried)
        journey.passed.append(passed)
        for target in targets:
            journey.carried.setdefault((target, rank), passed)

    def on_check(
        self,
        at: observer.Moment,
        record: observer.Moment,
        unseen: list[literal_records.VisibilityRecord],
    ) -> None:
        """The journey's end."""
        op = at.op
        if unseen and self.failure is None and isinstance(op, amir.Check):
            seen = (
                frozenset()
                if op.convergent
                else literal_records.seeing(unseen[0], op.level, op.timelines)
            )
            self.failure = Unseen(self.journeys[unseen[0]], at.threads - seen)


def _note_wait(
    journey: Journey,
    op: amir.Await,
    at: observer.Moment,
    given: literal_records.Given,
    waiting: observer.Waiting,
) -> None:
    element, bound = waiting.element, waiting.bound
    if given.rank is None:
        why, tag, arrive = _unreleased(journey, element, bound)
        missed = Missed(op, at.iteration, at.threads, why, frozenset(), tag, arrive, bound)
        journey.missed.append(missed)
        return
    after = journey.carried.get((element, given.rank))
    passed = PassedOn(op, at.iteration, at.threads, given.grant, after, given.carried)
    journey.passed.append(passed)


def _missed(
    record: literal_records.VisibilityRecord, op: amir.Fence | amir.Arrive, at: observer.Moment
) -> Missed:
    seen = seen_on(record, at.threads)
    why = Why.UNSEEN
    if seen:
        why = Why.TIMELINE if op.transitive or not seen & op.pre else Why.NOT_TRANSITIVE
    return Missed(op, at.iteration, at.threads, why, seen)


def seen_on(record: literal_records.VisibilityRecord, threads: literal_records.Threads) -> QualSet:
    """The timelines on which some of the threads have seen the access."""
    found: set[QualTL] = set()
    if record.timeline is not None and literal_records.shares(record.own, threads):
        found.add(record.timeline)
    for level in (record.full, record.temporal):
        found |= {
            timeline
            for timeline, seeing in level.items()
            if literal_records.shares(seeing, threads)
        }
    return frozenset(found)


def granted_timelines(passed: PassedOn) -> QualSet:
    """The timelines on which a sync makes the access visible, or orders it in time."""
    op = passed.op
    return frozenset() if isinstance(op, amir.Arrive) else op.full | op.temporal


def _parent(
    journey: Journey, op: amir.Fence | amir.Arrive, threads: literal_records.Threads
) -> PassedOn | None:
    """The first sync that made the access visible to these threads; None where they made it."""
    record = journey.record
    pre = literal_records.taken_timelines(op.transitive, op.pre, record)
    if record.timeline in pre and literal_records.shares(record.own, threads):
        return None
    for passed in journey.passed:
        if literal_records.shares(passed.threads, threads) and granted_timelines(passed) & pre:
            return passed
    return None


def _unreleased(
    journey: Journey, element: literal_records.Element, bound: int
) -> tuple[Why, tuple[literal_records.Element, int] | None, Missed | None]:
    """Explains why an Await on this element, up to this rank, finds no tag of the access."""
    here = [rank for rank, *_ in journey.record.tags.get(element, ())]
    waited = [missed for rank, missed in journey.uncarried.get(element, ()) if rank <= bound]
    best = max(waited, key=lambda missed: bool(missed.seen), default=None)
    if here:
        return Why.RANK, (element, min(here, key=lambda rank: abs(rank - bound))), best
    signalled = [at for at, arrive in journey.carried.items() if arrive is None]
    if signalled and signalled[0][0][0] is element[0]:
        return Why.ELEMENT, signalled[0], None
    if best is not None:
        return best.why, (element, bound), best
    for (name, index), tags in journey.record.tags.items():
        if name == element[0] and tags:
            return Why.ELEMENT, ((name, index), min(rank for rank, *_ in tags)), None
    return Why.EARLIER, (element, bound), None


# Roles that have a loop each, one after the other, as the branches of a CUDA kernel have.


def loops_apart(
    program: amir.Program | None, wait: amir.Await, arrives: Sequence[amir.Arrive]
) -> tuple[amir.Loop, amir.Loop] | None:
    """The loop of an Await and that of the first Arrive which it waits for, if the one is over, in
    program order, before that of any of the Arrives begins."""
    if program is None:
        return None
    order = {op: at for at, op in enumerate(operations(program.body))}
    found = [
        _separate_loops(program, wait, op)
        for op in sorted(arrives, key=lambda op: order.get(op, -1))
    ]
    if not found or None in found or any(order.get(op, -1) < order[wait] for op in arrives):
        return None
    return found[0]


def advice_of(loops: tuple[amir.Loop, amir.Loop]) -> str:
    """Returns advice on what to write instead."""
    first, second = (loop.origin.span.line for loop in loops)
    return (
        f"a kernel is read in sequence, and the loop at line {first} is over before that at line "
        f"{second} begins: write one loop with the steps of both roles, each in its own `with "
        "CudaWarps(...)`"
    )


def _separate_loops(
    program: amir.Program, wait: amir.Await, arrive: amir.Arrive
) -> tuple[amir.Loop, amir.Loop] | None:
    mine, theirs = (list(path_to(program.body, op)) for op in (wait, arrive))
    while mine and theirs and mine[0][1] is theirs[0][1]:
        mine, theirs = mine[1:], theirs[1:]
    first, second = (
        next((o for _, o in rest if isinstance(o, amir.Loop) and not o.threads), None)
        for rest in (mine, theirs)
    )
    return None if first is None or second is None else (first, second)
