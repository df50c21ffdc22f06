"""Computes which syncs make a record visible, and to which threads: the witness relation, closed
under its step.

A sync *fires* for a record where the record is a witness of its pre side (rule W), and *grants*
where it augments the record: a Fence at once, an Arrive at each Await that its tag releases.  A
relation is kept for each `Label`, a way to be shown a record: under policy `ptx` full and temporal
grants (decision `temporal-no-witness`), and what crosses to the async proxy (decision
`proxy-fence-anywhere`); under `paper` every grant is full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from exogpu.amir.nodes import Arrive, Await, Check, Fence, Record
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.ir.types import Level, QualSet, QualTL, Sym
from exogpu.machine.literal_records import Grant, entries
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode.witness import FULL, Label
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.sync_relations import (
    Holder,
    Later,
    Syncs,
    first_seen,
    instances,
    members,
)
from exogpu.symbolic.sites import Site, UndecidedError


def pre_side(site: Site, original: QualTL | None) -> QualSet:
    """The timelines on which a record of this original timeline may be a witness (rule W): all
    of the pre side if transitive, else its own alone."""
    op = site.op
    assert isinstance(op, Fence | Arrive)
    return op.pre if op.transitive else frozenset(q for q in op.pre if q is original)


def full_side(site: Site) -> QualSet:
    """The full timelines of a granting sync."""
    assert isinstance(site.op, Fence | Await)
    return site.op.full


def temporal_side(site: Site, original: QualTL | None, policy: Policy) -> QualSet:
    """The timelines that are temporal only, for records of this original timeline (decision
    `policies`)."""
    assert isinstance(site.op, Fence | Await)
    return _entries(policy, original, frozenset(site.op.full), frozenset(site.op.temporal))


_entries = lru_cache(maxsize=4096)(entries)


@dataclass(frozen=True, slots=True)
class Sight:
    """The timelines on which threads see a record, by syncs: in full, and temporally."""

    full: QualSet
    temporal: QualSet


def granted_sight(site: Site, label: Label, original: QualTL | None, policy: Policy) -> Sight:
    """Returns the timelines on which the threads of a granting sync see the record."""
    full, temporal = full_side(site), temporal_side(site, original, policy)
    if label.grant is Grant.FULL:
        return Sight(full, temporal)
    assert isinstance(site.op, Fence | Await)
    crossed = frozenset(q for q in site.op.temporal if q is label.carried)
    return Sight(crossed, full | temporal)


def fires(site: Site, sight: Sight, original: QualTL | None, policy: Policy) -> Grant:
    """Returns the grant of a Fence or Arrive that a thread fires with this sight of a record
    (decision `temporal-no-witness`)."""
    pre = pre_side(site, original)
    if pre & sight.full:
        return Grant.FULL
    if not pre & sight.temporal:
        return Grant.NOTHING
    return Grant.FULL if policy is Policy.PAPER else Grant.TEMPORAL


# --- closure ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of the closure: `via` fired for pairs granted before it, and so granted more."""

    granted: Site
    label: Label
    via: Site
    """The Fence or Arrive; the Record itself, where its trailing barrier grants."""
    before: Site | None
    """The granting site that `via` fires after; None where it fires for the record's own
    threads."""
    before_label: Label
    base: isl.Map
    """`record -> before`, or `record -> via` where there is none before."""
    pairs: isl.Map
    """`record -> granted`"""
    crossing: Crossing | None = None
    """Where another sync than the one before shows the record across the proxy."""


@dataclass(frozen=True, slots=True, eq=False)
class Crossing:
    """A sync shows a record across the proxy to threads by which another one fires."""

    site: Site
    label: Label
    base: isl.Map
    """`record -> site`"""
    threads: isl.Map
    """`record -> via[.., t]`: the threads that let `via` fire and have seen `site`."""


@dataclass(slots=True)
class Grants:
    """By label and granting site, the pairs (record, instance) where it makes the record
    visible."""

    pairs: dict[Label, dict[int, isl.Map]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    """In the order in which they were found: what a step starts from was found before it."""

    def pairs_of(self, label: Label) -> dict[int, isl.Map]:
        """Returns the pairs of one label, by site."""
        return self.pairs.setdefault(label, {})

    @property
    def full(self) -> dict[int, isl.Map]:
        """Returns the pairs of full grants, by site."""
        return self.pairs_of(FULL)

    def labelled_pairs(self) -> list[tuple[Label, int, isl.Map]]:
        """All of them, with label and granting site."""
        return [(label, n, p) for label, found in self.pairs.items() for n, p in found.items()]


def close(
    syncs: Syncs,
    records: Holder,
    policy: Policy,
    checks: Iterable[Check],
    among: isl.Set | None = None,
) -> Iterator[Grants]:
    """The grants of the records, after each round of the closure; the last is the fixed point.

    Only records `among` some are followed, where these are given.

    What crosses to the async proxy is followed as far as one of the checks, or a sync, asks.
    """
    op = records.op
    within = partial(_within_record, syncs.frame, op.access.name, records.site, among=among)
    grants = Grants()
    fresh = Grants()
    if op.trailing is not None:
        made = instances(syncs.frame, records)
        for await_, edge in syncs.released_awaits(records.site):
            found = isl.compose(made, edge)
            step = Step(await_, FULL, records.site, None, FULL, made, found)
            _add(grants, fresh, within(step))
    if op.timeline is not None and op.level >= Level.UNORDERED:
        for site in syncs.firing:
            assert isinstance(site.op, Fence | Arrive)
            if op.timeline in site.op.pre:
                fired = first_seen(syncs.frame, records, site)
                for granted, pairs in syncs.grants(fired, site):
                    step = Step(granted, FULL, site, None, FULL, fired, pairs)
                    _add(grants, fresh, within(step))
    yield grants
    later = Later(syncs.frame, records)
    proxy = _proxy(syncs, op, policy, checks)
    while fresh.labelled_pairs():
        current, fresh = fresh, Grants()
        for label, number, base in current.labelled_pairs():
            before = syncs.site(number)
            sight = granted_sight(before, label, op.timeline, policy)
            for site in syncs.firing:
                grant = fires(site, sight, op.timeline, policy)
                if grant is Grant.NOTHING:
                    continue
                for granted, pairs in syncs.hops(before, site):
                    for after in _onward(granted, grant, sight.full & proxy):
                        if later.holds(after, granted, grants.pairs_of(after).get(granted.number)):
                            continue
                        found = isl.compose(base, pairs)
                        step = Step(granted, after, site, before, label, base, found)
                        _add(grants, fresh, within(step))
        if proxy:
            for step in _crossings(syncs, records, policy, proxy, grants):
                _add(grants, fresh, within(step))
        yield grants


def _onward(granted: Site, grant: Grant, carried: QualSet) -> Iterator[Label]:
    """Yields the labels that a sync fired by this grant gives to its granting site."""
    assert isinstance(granted.op, Fence | Await)
    yield Label(grant)
    for timeline in _ordered(carried & granted.op.temporal):
        if grant is not Grant.FULL or timeline not in granted.op.full:
            yield Label(Grant.TEMPORAL, timeline)


def _ordered(timelines: QualSet) -> list[QualTL]:
    return [timeline for timeline in QualTL if timeline in timelines]


# --- across the proxy (decision `proxy-fence-anywhere`) -------------------------------------------


def _proxy(syncs: Syncs, op: Record, policy: Policy, checks: Iterable[Check]) -> QualSet:
    """The timelines of the async proxy on which it matters whether a record crosses to them."""
    if policy is Policy.PAPER:
        return frozenset()
    asked = frozenset[QualTL]().union(*(check.timelines for check in checks))
    for site in syncs.firing:
        if not (syncs.frame.everyone(site) and _witnesses(op, site)):
            asked |= pre_side(site, op.timeline)
    return asked & ASYNC_PROXY


def _witnesses(op: Record, site: Site) -> bool:
    """Tests whether the threads that make a record fire a later sync with it."""
    return op.level >= Level.UNORDERED and op.timeline in pre_side(site, op.timeline)


def _crossings(
    syncs: Syncs, records: Holder, policy: Policy, proxy: QualSet, grants: Grants
) -> Iterator[Step]:
    """The steps where a thread sees the record across the proxy by one sync, and lets the next
    one fire by what it has seen elsewhere."""
    original = records.op.timeline
    seeing = [
        (label, number, base, granted_sight(syncs.site(number), label, original, policy))
        for label, number, base in grants.labelled_pairs()
    ]
    for via in syncs.firing:
        if not pre_side(via, original):
            continue  # nothing makes it fire
        alone = [
            one
            for one in seeing
            if one[3].full & proxy and fires(via, one[3], original, policy) is Grant.NOTHING
        ]
        if not alone:
            continue
        if syncs.frame.everyone(via):
            span = via.op.origin.span
            raise UndecidedError("what crosses to the async proxy at CPU scope", span)
        witnesses: list[tuple[Site | None, Label, isl.Map, isl.Map]] = []
        if _witnesses(records.op, via):
            own = _own_threads(syncs.frame, records, via)
            if own is not None:
                fired = isl.compose(own, isl.inverse(syncs.frame.with_thread(via)))
                witnesses.append((None, FULL, fired, own))
        for label, number, base, sight in seeing:
            if fires(via, sight, original, policy) is not Grant.NOTHING:
                met = isl.compose(base, syncs.frame.thread_after(syncs.site(number), via))
                witnesses.append((syncs.site(number), label, base, met))
        for label, number, crossed, sight in alone:
            there = isl.compose(crossed, syncs.frame.thread_after(syncs.site(number), via))
            for before, before_label, base, met in witnesses:
                threads = isl.intersect_map(met, there)
                if isl.is_empty(threads):
                    continue
                crossing = Crossing(syncs.site(number), label, crossed, threads)
                fired = isl.compose(threads, isl.inverse(syncs.frame.with_thread(via)))
                for granted, pairs in syncs.grants(fired, via):
                    assert isinstance(granted.op, Fence | Await)
                    for timeline in _ordered(sight.full & proxy & granted.op.temporal):
                        after = Label(Grant.TEMPORAL, timeline)
                        way = (granted, after, via, before, before_label, base, pairs, crossing)
                        yield Step(*way)


def _own_threads(frame: Frame, records: Holder, via: Site) -> isl.Map | None:
    """The records and later instances of `via`, with each thread that made the record; None where
    an instance stands for the records of all its threads."""
    if not records.each:
        return frame.thread_after(records.site, via)
    if not records.exact:
        return None
    later = frame.same_task(frame.instances_before(records.site, via), records.site, via)
    later = isl.compose(isl.compose(instances(frame, records), later), frame.with_thread(via))
    return isl.intersect_map(later, rel.pairs(members(frame, records), frame.thread_of(via)))


def first_heard(syncs: Syncs, waiter: Holder) -> tuple[tuple[Site, isl.Map], ...]:
    """The syncs that the threads of an Await execute later and that pass execution order on, with
    the pairs."""
    return tuple((site, first_seen(syncs.frame, waiter, site)) for site in syncs.joining)


def close_order(syncs: Syncs, waiter: Holder, first: Sequence[tuple[Site, isl.Map]]) -> Grants:
    """By granting site, the pairs (Await, instance) whose threads are ordered after the Await in
    execution order: every sync for which threads wait for others passes it on, and so does a
    trailing barrier, whatever the timelines (decision `mbarrier-phase`).  All are full."""
    assert isinstance(waiter.site.op, Await)
    within = partial(_restrict_to_allocation, syncs.frame, waiter.site.op.barrier.name, waiter.site)
    grants = Grants()
    fresh = Grants()
    for site, fired in first:
        for granted, pairs in syncs.grants(fired, site):
            _add(grants, fresh, within(Step(granted, FULL, site, None, FULL, fired, pairs)))
    later = Later(syncs.frame, waiter)
    while fresh.full:
        current, fresh = fresh, Grants()
        for number, base in current.full.items():
            before = syncs.site(number)
            for site, granted, pairs in syncs.onward(before):
                if later.holds(FULL, granted, grants.full.get(granted.number)):
                    continue
                found = isl.compose(base, pairs)
                step = Step(granted, FULL, site, before, FULL, base, found)
                _add(grants, fresh, within(step))
    return grants


def _within_record(
    frame: Frame, name: Sym, record: Site, step: Step, among: isl.Set | None = None
) -> Step:
    """The step without what leaves the allocation of a record's variable, nor its task where the
    variable does not reside: such records lose the tags of what does (decision
    `resident-memory`)."""
    in_tasks = record.task is not None and step.granted.task is not None
    if in_tasks and not frame.model.variables[name].resident:
        step = replace(step, pairs=frame.within_task(step.pairs, record, step.granted))
    return _restrict_to_allocation(frame, name, record, step, among)


def _restrict_to_allocation(
    frame: Frame, name: Sym, record: Site, step: Step, among: isl.Set | None = None
) -> Step:
    """The step without what leaves the allocation of a record's variable, in a frame that is wider
    than that: nothing between two uses of one allocation does.  Of some records `among` all."""
    if among is not None:
        step = replace(step, pairs=isl.restrict_domain(step.pairs, among))
    scope = frame.model.scope(name, record.op.origin.span)
    if len(scope) <= frame.depth:
        return step
    if step.granted.loops[: len(scope)] != scope:
        return replace(step, pairs=rel.empty_like(step.pairs))
    dims = [(at, at) for at in range(len(scope) - frame.depth)]
    return replace(step, pairs=rel.equal_dims(step.pairs, dims))


def _add(grants: Grants, fresh: Grants, step: Step) -> None:
    """Adds the pairs of a step to what is known, and to what the next round starts from, if any
    is new."""
    number = step.granted.number
    known, new = grants.pairs_of(step.label), fresh.pairs_of(step.label)
    if number in known:
        if isl.is_subset_map(step.pairs, known[number]):
            return
    elif isl.is_empty(step.pairs):
        return
    found = rel.coalesce(step.pairs)
    known[number] = isl.union_map(known[number], found) if number in known else found
    new[number] = isl.union_map(new[number], found) if number in new else found
    grants.steps.append(replace(step, pairs=found))


# --- visibility ---------------------------------------------------------------------------------


def granted_at(
    site: Site, label: Label, check: Check, original: QualTL | None, policy: Policy
) -> bool:
    """Tests whether the sight at `site` reaches the level that a check asks for, on one of its
    timelines (decision `check-any-timeline`)."""
    sight = granted_sight(site, label, original, policy)
    if asked_of_others(check) is Level.FULLY_ORDERED:
        return bool(check.timelines & sight.full)
    return bool(check.timelines & (sight.full | sight.temporal))


def granted_from_start(records: Record, check: Check) -> bool:
    """Tests whether the threads that make a record see it at the level that a check asks for."""
    if records.timeline is None or records.timeline not in check.timelines:
        return False
    return records.level >= Level.UNORDERED and records.level >= asked_of_others(check)


def asked_of_others(check: Check) -> Level:
    """The level that a check asks of records that are not atomic with it (decision
    `atomic-operations`)."""
    return Level.FULLY_ORDERED if check.level is Level.ATOMIC_ONLY else check.level
