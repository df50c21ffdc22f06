"""Visibility records (paper, definition "Synchronization Environment") and what syncs do to them.

A set of threads is a set of pairs (task, natural thread index).  The set of all global threads,
G of the paper, is infinite: it is written `{EVERYONE}`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias, assert_never

from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import ASYNC_PROXY, TEMPORAL_FROM
from exogpu.ir.types import Level, QualSet, QualTL, Sym

Thread: TypeAlias = tuple[int, int]
Threads: TypeAlias = frozenset[Thread]
Index: TypeAlias = tuple[int, ...]
Element: TypeAlias = tuple[Sym, Index]

EVERYONE: Final[Thread] = (-1, -1)
"""Stands for every thread of every task (definition "Global Threads Collective", CPU scope)."""


NOBODY: Final[Threads] = frozenset()


def join(members: Threads, threads: Threads) -> Threads:
    """The union; one of the two where it holds the other, so that equal sets share memory."""
    if members <= threads:
        return threads
    return members if threads <= members else members | threads


def shares(members: Threads, threads: Threads) -> bool:
    """Tests whether some thread of `threads` is a member: the paper's `exists g`."""
    if not members:
        return False
    return EVERYONE in members or EVERYONE in threads or not members.isdisjoint(threads)


def meet(members: Threads, threads: Threads) -> Threads:
    """The intersection."""
    if EVERYONE in members:
        return threads
    return members if EVERYONE in threads else members & threads


def covers(members: Threads, threads: Threads) -> bool:
    """Tests whether every thread of `threads` is a member: the paper's `for all g`."""
    return EVERYONE in members or threads <= members


class Grant(IntEnum):
    """The grant that a witness lets a sync give (decision `temporal-no-witness`); tags carry it
    from Arrive to Await."""

    NOTHING = 0
    TEMPORAL = 1
    FULL = 2


Tag: TypeAlias = tuple[int, Grant, QualSet]
"""An arrive count, what it may give, and the timelines that it carries (decision
`proxy-fence-anywhere`)."""


class Given(NamedTuple):
    """A sync's gift to a record."""

    grant: Grant
    carried: QualSet = frozenset()
    """The timelines of the async proxy on which it is carried on in full (decision
    `proxy-fence-anywhere`)."""
    rank: int | None = None
    """The first arrival with a tag of this grant, of an Await."""


NOTHING: Final = Given(Grant.NOTHING)


@dataclass(slots=True, eq=False)
class VisibilityRecord:
    """`(q, s, p)`: original timeline, visibility levels, observed arrive counts.

    The level s(g, q) is kept as three separate bits (decision `temporal-no-witness`), each a set of
    threads: own-access (on the original timeline, at `level`), and what syncs gave, temporal and
    full.
    """

    timeline: QualTL | None
    atomic: QualSet
    """Timelines on which every thread sees the record as `atomic_only`."""
    level: Level = Level.INVISIBLE
    own: Threads = NOBODY
    temporal: dict[QualTL, Threads] = field(default_factory=dict)
    full: dict[QualTL, Threads] = field(default_factory=dict)
    tags: dict[Element, set[Tag]] = field(default_factory=dict)


def new_record(
    level: Level, timeline: QualTL | None, atomic: QualSet, threads: Threads
) -> VisibilityRecord:
    """`S_H(g', q') = max(atomic_only if q' in atomic, level if g' in H and q' = q)`.

    Decision `arrive-counts`: a record without a timeline is visible to nobody.
    """
    if timeline is None or level < Level.UNORDERED:
        return VisibilityRecord(timeline, atomic)
    return VisibilityRecord(timeline, atomic, level, threads)


def at_least(record: VisibilityRecord, level: Level, timeline: QualTL) -> Threads:
    """The threads g with `s(g, timeline) >= level`.

    Decision `atomic-operations`: an atomic operation reads what it changes, so that `atomic_only`
    is asked of records of such operations alone, and full order of all others.
    """
    everyone = frozenset({EVERYONE})
    full = record.full.get(timeline, NOBODY)
    temporal = record.temporal.get(timeline, NOBODY)
    asked = Level.FULLY_ORDERED if level is Level.ATOMIC_ONLY else level
    own = record.own if timeline is record.timeline and record.level >= asked else NOBODY
    match level:
        case Level.INVISIBLE:
            return everyone
        case Level.ATOMIC_ONLY:
            return everyone if timeline in record.atomic else join(full, own)
        case Level.UNORDERED | Level.TEMPORALLY_ORDERED:
            return join(join(full, temporal), own)
        case Level.FULLY_ORDERED:
            return join(full, own)
        case _:
            assert_never(level)


def check_visible(
    record: VisibilityRecord,
    level: Level,
    convergent: bool,
    timelines: QualSet,
    threads: Threads,
) -> bool:
    """CheckReads, CheckMutates: the negation of
    `(t = false and exists g. for all q in q*: not s(g, q) >= level)
    or (t = true and for all g. for all q in q*: not s(g, q) >= level)`.

    Decision `check-any-timeline`: one timeline of the set is enough.
    """
    seen = seeing(record, level, timelines)
    return shares(seen, threads) if convergent else covers(seen, threads)


def seeing(record: VisibilityRecord, level: Level, timelines: QualSet) -> Threads:
    """The threads that see a record at this level on one of the timelines."""
    seen = NOBODY
    for timeline in timelines:
        seen = join(seen, at_least(record, level, timeline))
    return seen


def taken_timelines(transitive: bool, pre: QualSet, record: VisibilityRecord) -> QualSet:
    """The timelines on which a sync takes a record: of its own one alone where not transitive."""
    return pre if transitive else pre & {record.timeline}


def witness(
    policy: Policy,
    transitive: bool,
    threads: Threads,
    pre: QualSet,
    record: VisibilityRecord,
) -> Grant:
    """`W(t, g*, pre, r)`: `exists g, q in pre: s(g, q) >= unordered` if t; else
    `q_orig in pre and exists g: s(g, q_orig) >= unordered`.

    Decision `temporal-no-witness`, ptx: own access or full visibility witness a full grant,
    visibility that is only temporal a temporal one.
    """
    grant = Grant.NOTHING
    for timeline in taken_timelines(transitive, pre, record):
        if shares(at_least(record, Level.FULLY_ORDERED, timeline), threads):
            return Grant.FULL
        if timeline is record.timeline and shares(record.own, threads):
            return Grant.FULL
        if shares(record.temporal.get(timeline, NOBODY), threads):
            grant = Grant.FULL if policy is Policy.PAPER else Grant.TEMPORAL
        if grant is Grant.FULL:
            return grant
    return grant


def carried_timelines(
    policy: Policy,
    transitive: bool,
    threads: Threads,
    pre: QualSet,
    record: VisibilityRecord,
) -> QualSet:
    """Decision `proxy-fence-anywhere`, ptx: the timelines of the async proxy on which a thread that
    lets a sync fire sees the record in full, by a sync before: a proxy fence stands on the way."""
    if policy is Policy.PAPER:
        return frozenset()
    firing = NOBODY
    for timeline in taken_timelines(transitive, pre, record):
        firing = join(firing, meet(at_least(record, Level.UNORDERED, timeline), threads))
    return frozenset(q for q in ASYNC_PROXY if shares(record.full.get(q, NOBODY), firing))


def entries(policy: Policy, original: QualTL | None, full: QualSet, temporal: QualSet) -> QualSet:
    """The timelines on which a sync grants temporal visibility at most.

    Decisions `temporal-async-proxy`, `temporal-wgmma`, ptx: on some timelines such an entry holds
    only for records whose original access was of the same kind.
    """
    found = temporal - full
    if policy is Policy.PAPER:
        return found
    return frozenset(q for q in found if original in TEMPORAL_FROM.get(q, {original}))


def augment(
    policy: Policy,
    record: VisibilityRecord,
    threads: Threads,
    full: QualSet,
    temporal: QualSet,
    grant: Grant,
    carried: QualSet = frozenset(),
) -> None:
    """`A(r, g*, full, temp)`: `s_aug(g, q) = fully_ordered` for q in full, `temporally_ordered`
    for q in temp minus full, for g in g*; s joined with it.

    Decision `temporal-no-witness`: a temporal grant makes the full entries temporal; they stay full
    entries for decision `temporal-async-proxy`. Decision `proxy-fence-anywhere`: what is carried is
    full wherever the post side has the timeline at all.
    """
    if grant is Grant.NOTHING:
        return
    for timeline in full:
        level = record.full if grant is Grant.FULL else record.temporal
        level[timeline] = join(level.get(timeline, NOBODY), threads)
    for timeline in entries(policy, record.timeline, full, temporal):
        record.temporal[timeline] = join(record.temporal.get(timeline, NOBODY), threads)
    for timeline in carried & temporal:
        record.full[timeline] = join(record.full.get(timeline, NOBODY), threads)


def own_arrival(policy: Policy, n: int) -> bool:
    """Tests whether an Await with skip count `n` receives the tags of its own arrival alone.

    Decision `await-own-arrival`, ptx: so it does on an mbarrier (n < 0), since arrival i completes
    one phase of one hardware mbarrier, whatever else has arrived.  Commit groups, cluster syncs
    and flags (n >= 0) complete in order.
    """
    return policy is Policy.PTX and n < 0


def receives(policy: Policy, n: int, rank: int, bound: int) -> bool:
    """Tests whether an Await with skip count `n` and this Max receives a tag of this rank: `i <=
    Max`, as in the figure, or `i = Max` (`own_arrival`)."""
    return rank == bound if own_arrival(policy, n) else rank <= bound


def best_tag(
    policy: Policy, record: VisibilityRecord, barrier: Element, n: int, bound: int
) -> Given:
    """Returns what an Await of this Max gives by the tags that it receives: of several tags the
    best (decision `temporal-no-witness`), and what any of them carries (decision
    `proxy-fence-anywhere`)."""
    tags = [t for t in record.tags.get(barrier, ()) if receives(policy, n, t[0], bound)]
    if not tags:
        return NOTHING
    grant = max(grant for _, grant, _ in tags)
    across = frozenset[QualTL]().union(*(carried for _, _, carried in tags))
    return Given(grant, across, min(rank for rank, g, _ in tags if g is grant))


def drop_tags(record: VisibilityRecord, name: Sym) -> None:
    """Decision `task-order`: the tags of a barrier's earlier allocation match nothing later."""
    for element in [e for e in record.tags if e[0] == name]:
        del record.tags[element]
