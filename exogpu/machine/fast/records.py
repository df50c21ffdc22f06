"""Visibility records of the fast interpreter: families, states, and what accesses do to them.

A set of threads is an integer: bit t + 1 is thread t of the running task, bit 0 some thread of
another task, and -1 is everyone (CPU scope).  A family stands for all records that one Record
made and that agree but for the thread that owns them; a state is what one element has.  Both are
interned: they are named by numbers, and equal ones have equal numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from exogpu.amir.nodes import Await, Check, Fence, Op, Record
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.ir.types import Level, QualSet, QualTL
from exogpu.machine.literal_records import entries

Threads: TypeAlias = int
EVERYONE: Final[Threads] = -1
ANOTHER_TASK: Final[Threads] = 1

Crossings: TypeAlias = tuple[tuple[int, int], ...]
"""By position of a timeline in the Record's list, the least count that carries it."""

Tags: TypeAlias = tuple[tuple[int, int, int, int, Crossings], ...]
"""By barrier element and arrival: the element's number, the arrival's, the least count that grants
anything, the least that grants full visibility, and those that carry it on timelines of the async
proxy (decision `proxy-fence-anywhere`).  Arrivals and counts are relative to the least bound that
an Await may still have.

Decision `await-own-arrival`: where each arrival is awaited by itself, an element has one tag for
each that may still be awaited, with counts of 0.  Elsewhere it has one tag, with the arrival
`UP_TO`, and a count is 0 if below the least bound: such a tag serves every Await to come."""

UP_TO: Final = -1
"""As an arrival: an Await receives all tags up to its bound."""

NEVER: Final = 1 << 60
"""As a count: no such tag."""

Family: TypeAlias = tuple[int, Threads, tuple[Threads, ...], tuple[Threads, ...], Tags]
"""Number of the Record; owners; by timeline of the Record's own list, the threads with full and
with temporal visibility; tags."""

FamilyId: TypeAlias = int
StateId: TypeAlias = int
State: TypeAlias = tuple[tuple[FamilyId, ...], tuple[FamilyId, ...], bool]
"""Read records, mutate records, and whether it has been written since its allocation."""

EMPTY: Final[StateId] = 0
FAILS: Final[StateId] = -1


@dataclass(frozen=True, slots=True, eq=False)
class RecordFacts:
    """Facts that all records of one Record share."""

    number: int
    op: Op | None
    """None for the records of execution order that PHASE uses: see `fast.phase_rule`."""
    each: bool
    """One record an owner; else one record that all owners share."""
    own: Level
    """The level of owners on `timeline`; INVISIBLE if they have none."""
    timeline: QualTL | None
    atomic: QualSet
    timelines: tuple[QualTL | None, ...]
    """The timelines on which visibility can make a difference."""
    gains: tuple[int, ...]
    """The numbers of `timelines` that a sync of the program can grant."""
    full: tuple[int, ...]
    """The numbers of those that a sync within a task can grant in full, or carry on;"""
    temporal: tuple[int, ...]
    """and which it can grant temporally at most."""
    most: Threads
    """The threads to which syncs within a task can grant; see `Tables.most`."""
    resident: bool = False
    """The memory resides from task to task (decision `resident-memory`), and so do the threads."""
    young: int | None = None
    """A place beside the timelines for writes that a read may meet there: what is full on it was
    made in the running task."""


@dataclass(frozen=True, slots=True)
class Grants:
    """A sync's timelines, as positions in a Record's list; `own`: owners witness it."""

    own: bool
    pre: tuple[int, ...]
    full: tuple[int, ...]
    temporal: tuple[int, ...]
    carried: tuple[int, ...] = ()
    """The numbers of the async proxy's timelines on which it carries full visibility on, if at
    all;"""
    onward: frozenset[int] = frozenset()
    """and those on which it gives what is carried to it (decision `proxy-fence-anywhere`)."""


@dataclass(frozen=True, slots=True, eq=False)
class SyncFacts:
    """The timelines of a Fence, an Arrive or an Await."""

    policy: Policy
    transitive: bool
    pre: QualSet
    full: QualSet
    temporal: QualSet
    joins: bool = True
    """Threads wait for others, so that it passes execution order on."""

    def grants_for(self, facts: RecordFacts) -> Grants:
        """Returns the timelines that the sync looks at and grants, for the records of one Record
        (decision `policies`)."""
        if facts.op is None:
            return Grants(True, (0,), (0,), ()) if self.joins else Grants(False, (), (), ())
        temporal = entries(self.policy, facts.timeline, self.full, self.temporal)
        proxy = ASYNC_PROXY if self.policy is Policy.PTX else frozenset()
        pre = self.pre if self.transitive else self.pre & {facts.timeline}
        places = list(enumerate(facts.timelines))
        return Grants(
            facts.timeline in pre and facts.own is not Level.INVISIBLE,
            tuple(i for i, timeline in places if timeline in pre),
            tuple(i for i, timeline in places if timeline in self.full),
            tuple(i for i, timeline in places if timeline in temporal),
            tuple(i for i, timeline in places if timeline in proxy),
            frozenset(i for i, timeline in places if timeline in proxy & self.temporal),
        )


def record_facts(
    number: int,
    op: Record,
    checks: Iterable[Check],
    syncs: Iterable[tuple[SyncFacts, bool]],
    most: Threads,
    resident: bool = False,
) -> RecordFacts:
    """The facts of one Record: `checks` are those that its records can meet, `syncs` every sync
    of the program, each with whether it is at CPU scope; `resident` where its memory is."""
    checks = tuple(checks)
    cpu = op.origin.threads is None
    own = op.level if op.timeline is not None and op.level >= Level.UNORDERED else Level.INVISIBLE
    relevant: set[QualTL] = set()
    for check in checks:
        relevant |= check.timelines
    gains: set[QualTL] = set()
    in_full: set[QualTL] = set()
    temporally: set[QualTL] = set()
    for sync, everyone in syncs:
        # At CPU scope a record with owners is witnessed by these, whatever else sees it.
        witnessed = everyone and op.timeline in sync.pre and own is not Level.INVISIBLE
        if not witnessed:
            relevant |= sync.pre if sync.transitive else sync.pre & {op.timeline}
        temporal = entries(sync.policy, op.timeline, sync.full, sync.temporal)
        gains |= sync.full | temporal
        if not everyone:
            in_full |= sync.full
            temporally |= sync.full | temporal
    timelines: tuple[QualTL | None, ...] = tuple(q for q in QualTL if q in relevant)
    young = None
    if resident and op.mutate and any(check.reads for check in checks):
        young, timelines = len(timelines), (*timelines, None)
    return RecordFacts(
        number,
        op,
        not (op.convergent or cpu or own is Level.INVISIBLE),
        own,
        op.timeline,
        op.atomic,
        timelines,
        tuple(i for i, q in enumerate(timelines) if q in gains),
        tuple(i for i, q in enumerate(timelines) if q in in_full),
        tuple(i for i, q in enumerate(timelines) if q in temporally - in_full),
        most,
        resident,
        young,
    )


def order_facts(number: int, most: Threads, resident: bool = False) -> RecordFacts:
    """Records of execution order: a timeline of their own, on which every sync is transitive."""
    nothing = frozenset[QualTL]()
    return RecordFacts(
        number, None, True, Level.UNORDERED, None, nothing, (None,), (0,), (0,), (), most, resident
    )


def sync_facts(op: Fence | Await, policy: Policy) -> SyncFacts:
    """The facts of a Fence or an Await."""
    if isinstance(op, Fence):
        return SyncFacts(policy, op.transitive, op.pre, op.full, op.temporal, op.joins)
    return SyncFacts(policy, False, frozenset(), op.full, op.temporal)


class Tables:
    """The families and states met so far."""

    def __init__(self) -> None:
        self.facts: list[RecordFacts] = []
        self.families: list[Family] = []
        self.states: list[State] = []
        self._family_ids: dict[Family, FamilyId] = {}
        self._state_ids: dict[State, StateId] = {}
        self._inert: dict[StateId, bool] = {}
        self._reach: dict[StateId, tuple[Threads, int]] = {}
        self.state([], [])

    def family(self, family: Family) -> FamilyId:
        """The number of a family."""
        found = self._family_ids.get(family)
        if found is None:
            found = self._family_ids[family] = len(self.families)
            self.families.append(family)
        return found

    def state(
        self, reads: Iterable[FamilyId], mutates: Iterable[FamilyId], written: bool = False
    ) -> StateId:
        """The number of the state with these families."""
        state = (self._normal(reads), self._normal(mutates), written)
        found = self._state_ids.get(state)
        if found is None:
            found = self._state_ids[state] = len(self.states)
            self.states.append(state)
        return found

    def _normal(self, ids: Iterable[FamilyId]) -> tuple[FamilyId, ...]:
        """Families that differ in their owners alone become one; implied ones are left out."""
        distinct = set(ids)
        if len(distinct) < 2:
            return tuple(distinct)
        by_record: dict[int, list[Family]] = {}
        for family in (self.families[i] for i in distinct):
            by_record.setdefault(family[0], []).append(family)
        kept: list[FamilyId] = []
        for number, families in by_record.items():
            facts = self.facts[number]
            if facts.each and len(families) > 1:
                families = _joined(families)
            if facts.op is not None and len(families) > 1:
                families = _least(facts, families)
            kept += [self.family(f) for f in families]
        return tuple(sorted(kept))

    def reach(self, state: StateId) -> tuple[Threads, int]:
        """The threads that see some record, and the barrier elements with tags, both as bits."""
        found = self._reach.get(state)
        if found is None:
            seen, elements = 0, 0
            reads, mutates, _ = self.states[state]
            for _, owners, full, temporal, tags in map(self.families.__getitem__, reads + mutates):
                seen |= owners
                for mask in (*full, *temporal):
                    seen |= mask
                for element, *_ in tags:
                    elements |= 1 << element
            found = self._reach[state] = (seen, elements)
        return found

    def inert(self, state: StateId) -> bool:
        """Tests whether no sync of a running task, nor the next task, can change the state: each
        record is visible wherever that matters, or to no thread of the task."""
        found = self._inert.get(state)
        if found is None:
            reads, mutates, _ = self.states[state]
            found = self._inert[state] = all(self._still(f) for f in reads + mutates)
        return found

    def _still(self, family: FamilyId) -> bool:
        number, owners, full, temporal, tags = self.families[family]
        masks = {owners, *full, *temporal}
        if complete(self.facts[number], full):
            return masks <= {0, ANOTHER_TASK, EVERYONE}
        return not tags and masks <= {0, ANOTHER_TASK}


def _joined(families: list[Family]) -> list[Family]:
    owners: dict[tuple[object, ...], Threads] = {}
    by_rest: dict[tuple[object, ...], Family] = {}
    for family in families:
        rest = family[2:]
        owners[rest] = owners.get(rest, 0) | family[1]
        by_rest[rest] = family
    return [(f[0], owners[rest], f[2], f[3], f[4]) for rest, f in by_rest.items()]


def _least(facts: RecordFacts, families: list[Family]) -> list[Family]:
    """Without the families that are at least as visible as another one of the same Record.

    Checks and syncs are monotone, so that wherever one of these fails the other one does.
    """
    kept: list[Family] = []
    for family in families:
        if any(_implied(facts, family, other) for other in kept):
            continue
        kept = [other for other in kept if not _implied(facts, other, family)]
        kept.append(family)
    return kept


def _implied(facts: RecordFacts, family: Family, by: Family) -> bool:
    _, owners, full, temporal, tags = family
    _, by_owners, by_full, by_temporal, by_tags = by
    if (owners & ~by_owners) if facts.each else (by_owners & ~owners):
        return False
    for mine, theirs in zip(full, by_full, strict=True):
        if theirs & ~mine:
            return False
    for mine, also, theirs in zip(temporal, full, by_temporal, strict=True):
        if theirs & ~(mine | also):
            return False
    if by_tags and not saturated(facts, full, temporal):
        found = {tag[:2]: tag for tag in tags}
        for element, arrival, some, most, crossings in by_tags:
            tag = found.get((element, arrival))
            if tag is None or tag[2] > some or tag[3] > most:
                return False
            least = dict(tag[4])
            if any(least.get(i, NEVER) > count for i, count in crossings):
                return False
    return True


def complete(facts: RecordFacts, full: tuple[Threads, ...]) -> bool:
    """Tests whether no sync at all can add to the visibility."""
    return all(full[i] == EVERYONE for i in facts.gains)


def saturated(facts: RecordFacts, full: tuple[Threads, ...], temporal: tuple[Threads, ...]) -> bool:
    """Tests whether no sync within a task can add to the visibility; then tags are of no use."""
    most = facts.most
    return not any(most & ~full[i] for i in facts.full) and not any(
        most & ~(full[i] | temporal[i]) for i in facts.temporal
    )


def family_of(
    facts: RecordFacts,
    owners: Threads,
    full: tuple[Threads, ...],
    temporal: tuple[Threads, ...],
    tags: Tags,
) -> Family:
    """The family in normal form: full visibility contains temporal, and a record that cannot
    become more visible needs no tags."""
    if any(temporal):
        temporal = tuple(
            t if t == EVERYONE and f != EVERYONE else t & ~f
            for t, f in zip(temporal, full, strict=True)
        )
    if tags and saturated(facts, full, temporal):
        tags = ()
    return (facts.number, owners, full, temporal, tags)


def new_family(facts: RecordFacts, threads: Threads, tags: Tags) -> Family:
    """The records that a Record makes when `threads` execute it."""
    nobody = (0,) * len(facts.timelines)
    owners = threads if facts.own is not Level.INVISIBLE else 0
    return family_of(facts, owners, aged(facts, nobody, ANOTHER_TASK), nobody, tags)


def aged(facts: RecordFacts, full: tuple[Threads, ...], young: Threads) -> tuple[Threads, ...]:
    """With this at the place that tells whether a record was made in the running task."""
    at = facts.young
    return full if at is None else (*full[:at], young, *full[at + 1 :])


def leaks(facts: RecordFacts, family: Family) -> bool:
    """Tests whether a read that meets these records finds a value of another task."""
    return facts.young is not None and not family[2][facts.young]


# --- checks ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CheckFacts:
    level: Level
    convergent: bool
    timelines: QualSet


def visible(check: CheckFacts, threads: Threads, facts: RecordFacts, family: Family) -> bool:
    """Tests whether every record of the family passes the check by these threads."""
    if check.level is Level.INVISIBLE:
        return True
    level = check.level
    if level is Level.ATOMIC_ONLY:  # decision `atomic-operations`
        if check.timelines & facts.atomic:
            return True
        level = Level.FULLY_ORDERED
    _, owners, full, temporal, _ = family
    seen = 0
    for i, timeline in enumerate(facts.timelines):
        if timeline in check.timelines:
            seen |= full[i]
            if level is not Level.FULLY_ORDERED:
                seen |= temporal[i]
    own = (
        facts.timeline in check.timelines
        and facts.own is not Level.INVISIBLE
        and facts.own >= level
    )
    if own and not facts.each:
        seen |= owners
    if check.convergent:
        return bool(seen & threads) or (own and facts.each and not owners & ~threads)
    rest = threads & ~seen
    # An owner sees its own record, and nobody else's.
    return not rest or (own and facts.each and rest == owners and rest & (rest - 1) == 0)
