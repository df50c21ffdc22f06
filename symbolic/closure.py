"""Which syncs make a record visible to whom: the witness relation, closed under its step.

A sync *fires* for a record where the record is a witness of its pre side (rule W), and *grants*
where it augments the record: a Fence at once, an Arrive at each Await that its tag releases.  Two
relations are kept under policy strict, of full and of temporal grants (decision 7b); under
`paper` every grant is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.ir.types import Level, Policy, QualSet, QualTL
from exogpu.machine.amir import Arrive, Await, Check, Fence, Record
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.frames import Frame
from exogpu.symbolic.ranks import Ranks
from exogpu.symbolic.sites import Site, UndecidedError, home_of


class Syncs:
    """The synchronisation operations of a frame, and from each grant to the next."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.ranks = Ranks(frame)
        self.fences = [site for site in frame.sites if isinstance(site.op, Fence)]
        self.arrives = [site for site in frame.sites if isinstance(site.op, Arrive)]
        self.awaits = [site for site in frame.sites if isinstance(site.op, Await)]
        self.trailing = [
            site
            for site in frame.sites
            if isinstance(site.op, Record) and site.op.trailing is not None
        ]
        self._sites = {site.number: site for site in frame.sites}
        self.missing: dict[tuple[int, int], UndecidedError] = {}
        self._edges: dict[tuple[int, int], isl.Map] = {}
        self._hops: dict[tuple[int, int, int], isl.Map] = {}

    @property
    def firing(self) -> list[Site]:
        return [*self.fences, *self.arrives]

    @property
    def granting(self) -> list[Site]:
        return [*self.fences, *self.awaits]

    def site(self, number: int) -> Site:
        """The site of a number."""
        return self._sites[number]

    def edge(self, site: Site, await_: Site) -> isl.Map:
        """From an Arrive or trailing Record to an Await (`Ranks.edge`); nothing, and a note in
        `missing`, where it is undecided."""
        key = (site.number, await_.number)
        if key not in self._edges:
            try:
                self._edges[key] = self.ranks.edge(site, await_)
            except UndecidedError as reason:
                self.missing[key] = reason
                self._edges[key] = rel.empty_like(self.frame.before(site, await_))
        return self._edges[key]

    def released(self, site: Site) -> Iterator[tuple[Site, isl.Map]]:
        """The Awaits that a barrier's tags release, with the edges."""
        name = home_of(site).name
        for await_ in self.awaits:
            assert isinstance(await_.op, Await)
            if await_.op.barrier.name == name:
                edge = self.edge(site, await_)
                if not isl.is_empty(edge):
                    yield await_, edge

    def grants(self, fired: isl.Map, site: Site) -> Iterator[tuple[Site, isl.Map]]:
        """What the firing of a Fence or Arrive leads to: the granting sites."""
        if isl.is_empty(fired):
            return
        if isinstance(site.op, Fence):
            yield site, fired
            return
        for await_, edge in self.released(site):
            yield await_, isl.compose(fired, edge)

    def hops(self, granted: Site, site: Site) -> Iterator[tuple[Site, isl.Map]]:
        """From an instance that granted, over a later one of `site` with a shared thread, to what
        that one's firing grants."""
        if isinstance(site.op, Fence):
            reached = [site]
        else:
            reached = [await_ for await_, _ in self.released(site)]
        for next_ in reached:
            found = self.hop(granted, site, next_)
            if not isl.is_empty(found):
                yield next_, found

    def hop(self, granted: Site, site: Site, next_: Site) -> isl.Map:
        """The part of `hops` that leads to `next_`."""
        shared = self.frame.shared(granted, site)
        if isinstance(site.op, Fence):
            return shared
        key = (granted.number, site.number, next_.number)
        if key not in self._hops:
            self._hops[key] = rel.coalesce(isl.compose(shared, self.edge(site, next_)))
        return self._hops[key]


# --- timelines ----------------------------------------------------------------------------------


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
    """The timelines that are temporal only; decision 7a: those of the async proxy hold only for
    records whose original access was in it."""
    assert isinstance(site.op, Fence | Await)
    entries = site.op.temporal - site.op.full
    if policy is Policy.STRICT and original not in ASYNC_PROXY:
        entries -= ASYNC_PROXY
    return entries


@dataclass(frozen=True, slots=True)
class Passes:
    """How a grant of one sync can make a later one fire: full from full, temporal from full,
    temporal from temporal."""

    full: bool
    lowered: bool
    temporal: bool


def passes(granted: Site, site: Site, original: QualTL | None, policy: Policy) -> Passes:
    """Whether the post side of one sync meets the pre side of another (decision 7b)."""
    pre = pre_side(site, original)
    full = bool(pre & full_side(granted))
    entries = bool(pre & temporal_side(granted, original, policy))
    if policy is Policy.PAPER:
        return Passes(full or entries, False, False)
    return Passes(full, entries, full or entries)


# --- closure ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """How pairs came to be granted: `via` fired, for what was granted before it."""

    granted: Site
    full: bool
    via: Site
    """The Fence or Arrive; the Record itself, where its trailing barrier grants."""
    before: Site | None
    """The granting site that `via` fires after; None where it fires for the record's own
    threads."""
    before_full: bool
    base: isl.Map
    """`record -> before`, or `record -> via` where there is none before."""
    pairs: isl.Map
    """`record -> granted`"""


@dataclass(slots=True)
class Grants:
    """By granting site, the pairs (record, instance) where it makes the record visible."""

    full: dict[int, isl.Map] = field(default_factory=dict)
    temporal: dict[int, isl.Map] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    """In the order in which they were found: what a step starts from was found before it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Records of one site as the closure sees them.

    Of a record per thread, either each thread is a coordinate (`members`), or the instance
    stands for all its threads at once: then what is found holds for every one of them, and
    something may be missed.
    """

    site: Site
    each: bool
    """One record a thread."""
    exact: bool

    @property
    def op(self) -> Record:
        assert isinstance(self.site.op, Record)
        return self.site.op

    @property
    def with_members(self) -> bool:
        return self.each and self.exact

    @property
    def name(self) -> str:
        return f"{self.site.tuple_name}t"


def holder(frame: Frame, site: Site, *, exact: bool) -> Holder:
    """The records of a Record: one a thread, unless convergent, without timeline or at CPU
    scope."""
    op = site.op
    assert isinstance(op, Record)
    one = op.convergent or op.timeline is None or frame.everyone(site)
    return Holder(site, not one, exact)


def members(frame: Frame, records: Holder) -> isl.Map:
    """`S7h[k, t] -> T[t]`: the thread of a record."""
    return rel.output_of_extended(frame.threads(records.site), records.name)


def instances(frame: Frame, records: Holder) -> isl.Map:
    """`S7h[k, t] -> S7[k]`, or the identity where members are no coordinates."""
    if not records.with_members:
        return rel.identity(frame.domain(records.site))
    return isl.inverse(rel.extend_input(frame.threads(records.site), records.name))


def first_seen(frame: Frame, records: Holder, site: Site) -> isl.Map:
    """The records and the later instances of `site` executed by a thread that made the record:
    by every one, where the instance stands for all its threads."""
    if not records.each:
        return frame.shared(records.site, site)
    if not records.exact:
        return frame.covers(records.site, site)
    later = frame.same_task(frame.before(records.site, site), records.site, site)
    later = isl.compose(instances(frame, records), later)
    if frame.everyone(site):
        return later
    return isl.intersect_map(later, rel.pairs(members(frame, records), frame.threads(site)))


def close(syncs: Syncs, records: Holder, policy: Policy) -> Iterator[Grants]:
    """The grants of the records, after each round of the closure; the last is the fixed point."""
    frame, op = syncs.frame, records.op
    grants = Grants()
    fresh = Grants()
    if op.trailing is not None:
        made = instances(frame, records)
        for await_, edge in syncs.released(records.site):
            found = isl.compose(made, edge)
            _add(grants, fresh, Step(await_, True, records.site, None, False, made, found))
    if op.timeline is not None and op.level >= Level.UNORDERED:
        for site in syncs.firing:
            assert isinstance(site.op, Fence | Arrive)
            if op.timeline in site.op.pre:
                fired = first_seen(frame, records, site)
                for granted, pairs in syncs.grants(fired, site):
                    _add(grants, fresh, Step(granted, True, site, None, False, fired, pairs))
    yield grants
    original = op.timeline

    def hop(from_full: bool, number: int, base: isl.Map, site: Site, full: bool) -> None:
        before = syncs.site(number)
        for granted, pairs in syncs.hops(before, site):
            found = isl.compose(base, pairs)
            _add(grants, fresh, Step(granted, full, site, before, from_full, base, found))

    while fresh.full or fresh.temporal:
        current, fresh = fresh, Grants()
        for number, base in current.full.items():
            for site in syncs.firing:
                how = passes(syncs.site(number), site, original, policy)
                if how.full or how.lowered:
                    hop(True, number, base, site, how.full)
        for number, base in current.temporal.items():
            for site in syncs.firing:
                if passes(syncs.site(number), site, original, policy).temporal:
                    hop(False, number, base, site, False)
        yield grants


def close_order(syncs: Syncs, waiter: Holder) -> Grants:
    """By granting site, the pairs (Await, instance) whose threads are ordered after the Await in
    execution order: every sync passes it on, and so does a trailing barrier, whatever the
    timelines (decision 12).  All are full."""
    grants = Grants()
    fresh = Grants()
    firing = [*syncs.firing, *syncs.trailing]
    for site in firing:
        fired = first_seen(syncs.frame, waiter, site)
        for granted, pairs in syncs.grants(fired, site):
            _add(grants, fresh, Step(granted, True, site, None, False, fired, pairs))
    while fresh.full:
        current, fresh = fresh, Grants()
        for number, base in current.full.items():
            before = syncs.site(number)
            for site in firing:
                for granted, pairs in syncs.hops(before, site):
                    found = isl.compose(base, pairs)
                    _add(grants, fresh, Step(granted, True, site, before, True, base, found))
    return grants


def _add(grants: Grants, fresh: Grants, step: Step) -> None:
    """Adds the pairs of a step to what is known, and to what the next round starts from, if any
    is new."""
    found = rel.coalesce(step.pairs)
    if isl.is_empty(found):
        return
    number = step.granted.number
    known, new = (grants.full, fresh.full) if step.full else (grants.temporal, fresh.temporal)
    if number in known:
        if isl.is_subset_map(found, known[number]):
            return
        known[number] = isl.union_map(known[number], found)
    else:
        known[number] = found
    new[number] = isl.union_map(new[number], found) if number in new else found
    grants.steps.append(replace(step, pairs=found))


# --- visibility ---------------------------------------------------------------------------------


def granted_at(
    site: Site, check: Check, original: QualTL | None, policy: Policy
) -> tuple[bool, bool]:
    """Whether a full grant, and a temporal grant, of `site` reach the level that a check asks
    for, on one of its timelines (decision 17)."""
    post = full_side(site)
    full = bool(check.timelines & post)
    wide = bool(check.timelines & (post | temporal_side(site, original, policy)))
    if check.level is Level.FULLY_ORDERED:
        return full, False
    return wide, wide


def granted_from_start(records: Record, check: Check) -> bool:
    """Whether the threads that make a record see it at the level that a check asks for."""
    if records.timeline is None or records.timeline not in check.timelines:
        return False
    return records.level >= Level.UNORDERED and records.level >= check.level


def always_visible(records: Record, check: Check) -> bool:
    """Whether every thread sees the record at the check's level: atomics among themselves."""
    if check.level is Level.INVISIBLE:
        return bool(check.timelines)
    return check.level is Level.ATOMIC_ONLY and bool(records.atomic & check.timelines)
