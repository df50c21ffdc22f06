"""What becomes of one access: which syncs pass its visibility on, and which do not, and why.

The literal rules are applied to the records of one execution of one Record, from there to the
check that fails; everything else is counted only as far as barriers need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, assert_never

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
from exogpu.ir.names import Sym
from exogpu.ir.types import Level, QualSet, QualTL
from exogpu.ir.walk import evaluate, holds
from exogpu.machine.literal_records import (
    EVERYONE,
    Element,
    Grant,
    Threads,
    VisibilityRecord,
    at_least,
    augment,
    best_tag,
    carried,
    check_visible,
    drop_tags,
    new_record,
    shares,
    witness,
)
from exogpu.machine.literal_state import (
    Iteration,
    Machine,
    allocate,
    elements_of,
    executing,
    new_machine,
    now,
    the_element,
)
from exogpu.machine.violation import Violation

Sync = Fence | Arrive | Await

PATIENCE: Final = 1_000_000
"""Steps of records and syncs after which a journey is given up: about a second."""


class Why(Enum):
    """Why a sync does not pass an access on."""

    UNSEEN = "none of its threads has seen the access by then"
    TIMELINE = "they have seen it, on no timeline of its first set"
    NOT_TRANSITIVE = "it is not transitive, and they see it on other timelines than its own"
    RANK = "the Await waits for an earlier arrival than the one that carries the access"
    ELEMENT = "the access is carried by other elements of the barrier"
    EARLIER = "the arrivals that the Await waits for come before the access"


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """A sync that passes the access on."""

    op: Sync
    iteration: Iteration
    threads: Threads
    grant: Grant
    after: Passed | None
    """The one that made it visible to this one's threads; None where the access itself did."""
    carried: QualSet = frozenset()
    """The timelines of the async proxy on which it is passed on in full (decision 7d)."""


@dataclass(frozen=True, slots=True, eq=False)
class Missed:
    """A sync that does not pass the access on."""

    op: Sync
    iteration: Iteration
    threads: Threads
    why: Why
    seen: QualSet = frozenset()
    """The timelines on which the threads of this sync have seen it."""
    tag: tuple[Element, int] | None = None
    """Of an Await: what carries the access instead, or the arrival that it waits for."""
    arrive: Missed | None = None
    """Of an Await: the Arrive that should have passed it on."""
    bound: int = -1
    """Of an Await: the last arrival that it waits for."""


@dataclass(slots=True, eq=False)
class Journey:
    """A visibility record on its way, in program order; one of each of `threads`, where they have
    each their own and nothing has told them apart yet."""

    record: VisibilityRecord
    threads: Threads
    passed: list[Passed] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    carried: dict[tuple[Element, int], Passed | None] = field(default_factory=dict)
    """By element and rank, the Arrive that tagged it; None for the access's trailing barrier."""
    uncarried: dict[Element, list[tuple[int, Missed]]] = field(default_factory=dict)
    """By element, the Arrives that did not, with their ranks."""


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """The journey that ends at a failing check, and the threads that do not see the access."""

    journey: Journey
    blind: Threads


class _GiveUp(Exception):
    pass


def follow(program: Program, sizes: Mapping[str, int], violation: Violation) -> Failure | None:
    """The journey of the access that a violation names, up to its check.

    None where the access has no instance, or the way is too long.
    """
    if violation.record_iteration is None or not isinstance(violation.check, Check):
        return None
    try:
        return _Walk(program, sizes, violation).run()
    except _GiveUp:
        return None


def counts_at(
    program: Program, sizes: Mapping[str, int], violation: Violation, barrier: Sym
) -> tuple[int, int] | None:
    """How often the violation's element of a barrier has been arrived on and awaited before the
    operation that fails; None where the way there is too long."""
    walk = _Walk(program, sizes, violation)
    try:
        walk.run()
    except _GiveUp:
        return None
    if (state := walk.machine.barriers.get(barrier)) is None:
        return None
    return state.arrives.get(violation.index, 0), state.awaits.get(violation.index, 0)


class _Walk:
    """One run over the tasks of the access and of the check."""

    def __init__(self, program: Program, sizes: Mapping[str, int], violation: Violation) -> None:
        sigma = {parameter.name: sizes[parameter.name.name] for parameter in program.params}
        program = replace(program, body=_needed(program, violation))
        self.machine: Machine = new_machine(program, sigma, collect=False)
        self.policy = program.policy
        self.violation = violation
        self.journeys: list[Journey] = []
        self.each = False
        self.left = PATIENCE
        self.found: Failure | None = None
        self._only: dict[Loop, set[int]] = {}
        for op, iteration in (
            (violation.check, violation.iteration),
            (violation.record, violation.record_iteration or ()),
        ):
            around = _around(program.body, op) or ()
            for loop, (_, value) in zip(around, iteration, strict=True):
                if begins_task(loop.body) or not _has_sync(loop.body):
                    self._only.setdefault(loop, set()).add(value)

    def run(self) -> Failure | None:
        self.block(self.machine.program.body)
        return self.found

    def block(self, block: Block) -> bool:
        return all(self.step(op) for op in block)

    def step(self, op: Op) -> bool:
        """False once the check is reached."""
        self.left -= 1 + len(self.journeys)
        if self.left < 0:
            raise _GiveUp
        machine = self.machine
        ends = isinstance(op, CheckBarrier | Await) and op is self.violation.check
        if ends and self.here(op, self.violation.iteration):
            return False
        match op:
            case Loop():
                return self.loop(op)
            case Guard():
                return not holds(op.condition, machine.sigma) or self.block(op.body)
            case IncTaskID():
                machine.task += 1
            case Alloc() | Release():
                for journey in self.journeys:
                    drop_tags(journey.record, op.name)
                machine.barriers.pop(op.name, None)
                if isinstance(op, Alloc):
                    allocate(machine, machine.variables[op.name])
            case Record():
                if op is self.violation.record and self.here(op, self.violation.record_iteration):
                    self.begin(op)
            case Check():
                if op is self.violation.check and self.here(op, self.violation.iteration):
                    self.end(op)
                    return False
            case Fence():
                self.fence(op)
            case Arrive():
                self.arrive(op)
            case Await():
                self.await_(op)
            case Clear() | CheckBarrier():
                pass
            case _:
                assert_never(op)
        return True

    def here(self, op: Op, iteration: Iteration | None) -> bool:
        return now(self.machine, op).iteration == iteration

    def loop(self, op: Loop) -> bool:
        sigma = self.machine.sigma
        values = range(evaluate(op.lo, sigma), evaluate(op.hi, sigma))
        # Tasks of neither side order nothing between the two.
        wanted = self._only.get(op, set() if begins_task(op.body) else None)
        self.machine.iterators.append((op.iterator, op.iterator.name))
        for y in values if wanted is None else sorted(wanted & set(values)):
            sigma[op.iterator] = y
            if not self.block(op.body):
                return False
        self.machine.iterators.pop()
        return True

    def begin(self, op: Record) -> None:
        threads = executing(self.machine, op.origin)
        one = op.convergent or op.timeline is None or EVERYONE in threads
        self.each = not one and op.level is Level.UNORDERED
        for holder in [threads] if one or self.each else [frozenset({g}) for g in sorted(threads)]:
            journey = Journey(new_record(op.level, op.timeline, op.atomic, holder), holder)
            if op.trailing is not None:
                barrier = self.machine.barriers[op.trailing.home.name]
                rank = barrier.arrives.get(the_element(self.machine, op.trailing.home), 0)
                for target in elements_of(self.machine, op.trailing.targets):
                    journey.record.tags.setdefault(target, set()).add(
                        (rank, Grant.FULL, frozenset())
                    )
                    journey.carried[target, rank] = None
            self.journeys.append(journey)

    def end(self, op: Check) -> None:
        threads = executing(self.machine, op.origin)
        if self.each:
            # A record is its owner's own, and nobody else's.
            owners = sorted((g, j) for j in self.journeys for g in j.threads)
            self.journeys = [_owned(j, frozenset({g})) for g, j in owners]
        for journey in self.journeys:
            if not check_visible(journey.record, op.level, op.convergent, op.timelines, threads):
                seeing: Threads = frozenset()
                for timeline in op.timelines:
                    seeing |= at_least(journey.record, op.level, timeline)
                self.found = Failure(journey, threads if op.convergent else threads - seeing)
                return

    # --- synchronisation ------------------------------------------------------------------

    def tell_apart(self, threads: Threads) -> None:
        """Records whose owners take part in a sync go their own way from those of the others."""
        if not self.each:
            return
        for journey in list(self.journeys):
            others = journey.threads - threads
            if others and others != journey.threads:
                self.journeys.append(_owned(journey, others))
                journey.threads = journey.record.own = journey.threads & threads

    def fence(self, op: Fence) -> None:
        threads = executing(self.machine, op.origin)
        self.tell_apart(threads)
        for journey in self.journeys:
            result = self.witnessed(journey, op, threads)
            if isinstance(result, Missed):
                journey.missed.append(result)
            else:
                journey.passed.append(result)
                post = (op.full, op.temporal)
                augment(self.policy, journey.record, threads, *post, result.grant, result.carried)

    def arrive(self, op: Arrive) -> None:
        barrier = self.machine.barriers[op.home.name]
        home = the_element(self.machine, op.home)
        rank = barrier.arrives.get(home, 0)
        barrier.arrives[home] = rank + 1
        if not self.journeys:
            return
        threads = executing(self.machine, op.origin)
        targets = elements_of(self.machine, op.targets)
        self.tell_apart(threads)
        for journey in self.journeys:
            result = self.witnessed(journey, op, threads)
            for target in targets:
                if isinstance(result, Missed):
                    journey.uncarried.setdefault(target, []).append((rank, result))
                else:
                    journey.record.tags.setdefault(target, set()).add(
                        (rank, result.grant, result.carried)
                    )
                    journey.carried.setdefault((target, rank), result)
            if isinstance(result, Passed):
                journey.passed.append(result)

    def await_(self, op: Await) -> None:
        barrier = self.machine.barriers[op.barrier.name]
        index = the_element(self.machine, op.barrier)
        element = (op.barrier.name, index)
        a, w = barrier.arrives.get(index, 0), barrier.awaits.get(index, 0)
        bound = a - (op.n + 1) if op.n >= 0 else w + op.n + 1
        barrier.awaits[index] = max(w, bound + 1) if op.n >= 0 else w + 1
        if not self.journeys:
            return
        threads = executing(self.machine, op.origin)
        iteration = now(self.machine, op).iteration
        for journey in self.journeys:
            grant, onward = best_tag(journey.record, element, bound)
            if grant is Grant.NOTHING:
                why, tag, arrive = _unreleased(journey, element, bound)
                missed = Missed(op, iteration, threads, why, frozenset(), tag, arrive, bound)
                journey.missed.append(missed)
                continue
            augment(self.policy, journey.record, threads, op.full, op.temporal, grant, onward)
            rank = min(i for i, g, _ in journey.record.tags[element] if i <= bound and g is grant)
            after = journey.carried.get((element, rank))
            journey.passed.append(Passed(op, iteration, threads, grant, after, onward))

    def witnessed(self, journey: Journey, op: Fence | Arrive, threads: Threads) -> Passed | Missed:
        iteration = now(self.machine, op).iteration
        record = journey.record
        grant = witness(self.policy, op.transitive, threads, op.pre, record)
        if grant is not Grant.NOTHING:
            onward = carried(self.policy, op.transitive, threads, op.pre, record)
            return Passed(op, iteration, threads, grant, _parent(journey, op, threads), onward)
        seen = seen_on(record, threads)
        why = Why.UNSEEN
        if seen:
            why = Why.TIMELINE if op.transitive or not seen & op.pre else Why.NOT_TRANSITIVE
        return Missed(op, iteration, threads, why, seen)


def _owned(journey: Journey, owners: Threads) -> Journey:
    """The journey so far of the records of these owners."""
    return Journey(
        _copied(journey.record, owners),
        owners,
        list(journey.passed),
        list(journey.missed),
        dict(journey.carried),
        {element: list(missed) for element, missed in journey.uncarried.items()},
    )


def _copied(record: VisibilityRecord, owners: Threads) -> VisibilityRecord:
    tags = {element: set(found) for element, found in record.tags.items()}
    full, temporal = dict(record.full), dict(record.temporal)
    return replace(record, own=owners, full=full, temporal=temporal, tags=tags)


def seen_on(record: VisibilityRecord, threads: Threads) -> QualSet:
    """The timelines on which some of the threads have seen the access."""
    found: set[QualTL] = set()
    if record.timeline is not None and shares(record.own, threads):
        found.add(record.timeline)
    for level in (record.full, record.temporal):
        found |= {timeline for timeline, seeing in level.items() if shares(seeing, threads)}
    return frozenset(found)


def granted(passed: Passed) -> QualSet:
    """The timelines on which a sync makes the access visible, or orders it in time."""
    op = passed.op
    return frozenset() if isinstance(op, Arrive) else op.full | op.temporal


def _parent(journey: Journey, op: Fence | Arrive, threads: Threads) -> Passed | None:
    """The first sync that made the access visible to these threads; None where they made it."""
    record = journey.record
    pre = op.pre if op.transitive else op.pre & {record.timeline}
    if record.timeline in pre and shares(record.own, threads):
        return None
    for passed in journey.passed:
        if shares(passed.threads, threads) and granted(passed) & pre:
            return passed
    return None


def _unreleased(
    journey: Journey, element: Element, bound: int
) -> tuple[Why, tuple[Element, int] | None, Missed | None]:
    """Why an Await on this element, up to this rank, finds no tag of the access."""
    here = [rank for rank, *_ in journey.record.tags.get(element, ())]
    waited = [missed for rank, missed in journey.uncarried.get(element, ()) if rank <= bound]
    best = max(waited, key=lambda missed: bool(missed.seen), default=None)
    if here:
        return Why.RANK, (element, min(here)), best
    signalled = [at for at, arrive in journey.carried.items() if arrive is None]
    if signalled and signalled[0][0][0] is element[0]:
        return Why.ELEMENT, signalled[0], None
    if best is not None:
        return best.why, (element, bound), best
    for (name, index), tags in journey.record.tags.items():
        if name == element[0] and tags:
            return Why.ELEMENT, ((name, index), min(rank for rank, *_ in tags)), None
    return Why.EARLIER, (element, bound), None


# --- the program text ---------------------------------------------------------------------------


def _needed(program: Program, violation: Violation) -> Block:
    """The program without what cannot matter to a journey: other accesses, and data."""
    barriers = {v.name for v in program.variables if v.mechanism is not None}

    def needed(block: Block) -> Block:
        return tuple(kept for op in block if (kept := one(op)) is not None)

    def one(op: Op) -> Op | None:
        match op:
            case Loop() | Guard():
                body = needed(op.body)
                return replace(op, body=body) if body else None
            case Alloc() | Release():
                return op if op.name in barriers else None
            case Record() | Check() | Clear() | CheckBarrier():
                return op if op in (violation.check, violation.record) else None
            case _:
                return op

    return needed(program.body)


def begins_task(block: Block) -> bool:
    """Whether tasks begin in a block."""
    return any(
        isinstance(op, IncTaskID) or (isinstance(op, Loop | Guard) and begins_task(op.body))
        for op in block
    )


def _has_sync(block: Block) -> bool:
    return any(
        isinstance(op, Sync) or (isinstance(op, Loop | Guard) and _has_sync(op.body))
        for op in block
    )


def _around(block: Block, wanted: Op | None) -> tuple[Loop, ...] | None:
    """The loops around an operation, outermost first; None where it is not in the block."""
    for op in block:
        if op is wanted:
            return ()
        if isinstance(op, Loop | Guard):
            inner = _around(op.body, wanted)
            if inner is not None:
                return (op, *inner) if isinstance(op, Loop) else inner
    return None
