"""Applies syncs to the visibility records of every element: lambda, lifted (paper, appendix).

A lift is one synchronisation with everything it depends on fixed: executing threads, barrier
elements and relative counts.  It remembers what it made of each family and each state, and in the
steady state of a pipeline the same lifts come again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from exogpu.diagnostics.verdict import Policy
from exogpu.machine.fast import records

Rule: TypeAlias = Callable[[records.RecordFacts, records.Family], tuple[records.Family, ...]]

NOTHING, TEMPORAL, FULL = 0, 1, 2
"""The level that a witness allows (decision `temporal-no-witness`)."""

NewTags: TypeAlias = tuple[tuple[int, int, int], ...]
"""The tags that an arrival adds: by target element, the arrival (`records.Tags`) and the count."""

Passage: TypeAlias = tuple[int, tuple[int, ...]]
"""The visibility that a sync may give of a record: its grant, and the timelines that it carries in
full (decision `proxy-fence-anywhere`), as positions in the Record's list."""


class Lift:
    """`lift(rho, lambda)`, with its results so far.

    It can change a record only if one of `threads` sees it, or if it has a tag at one of
    `elements`, which are bits as threads are.
    """

    __slots__ = ("_elements", "_families", "_rule", "_tables", "_threads", "states", "still")

    def __init__(
        self,
        tables: records.Tables,
        rule: Rule,
        threads: records.Threads = records.EVERYONE,
        elements: int = 0,
    ) -> None:
        self._tables = tables
        self._rule = rule
        self._threads = threads
        self._elements = elements
        self._families: dict[records.FamilyId, tuple[records.FamilyId, ...]] = {}
        self.states: dict[records.StateId, records.StateId] = {}
        """The new states for those that it changes."""
        self.still = 0
        """The states that it is known to leave as they are, as bits."""

    def state(self, state: records.StateId) -> records.StateId:
        """The state that this sync makes of a state."""
        seen, tagged_at = self._tables.reach(state)
        if not (seen & self._threads or tagged_at & self._elements):
            return state
        reads, mutates, written = self._tables.states[state]
        after = self._tables.state(
            [g for f in reads for g in self._family(f)],
            [g for f in mutates for g in self._family(f)],
            written,
        )
        if after != state:
            self.states[state] = after
        return after

    def _family(self, family: records.FamilyId) -> tuple[records.FamilyId, ...]:
        found = self._families.get(family)
        if found is None:
            tables = self._tables
            value = tables.families[family]
            made = self._rule(tables.facts[value[0]], value)
            found = self._families[family] = tuple(tables.family(f) for f in made)
        return found


def fence(sync: records.SyncFacts, threads: records.Threads) -> Rule:
    """Fence: `r -> A(r, g, full, temp) if W(t, g, pre, r) else r`."""
    projections: dict[int, records.Grants] = {}

    def rule(facts: records.RecordFacts, family: records.Family) -> tuple[records.Family, ...]:
        if threads != records.EVERYONE and records.saturated(facts, family[2], family[3]):
            return (family,)
        grants = _project(projections, sync, facts)
        return tuple(
            augment(facts, part, threads, grants, passage)
            for part, passage in passages(sync.policy, grants, threads, facts, family)
        )

    return rule


def arrive(
    sync: records.SyncFacts,
    threads: records.Threads,
    tags: NewTags,
    shift: tuple[int, int] | None,
) -> Rule:
    """Arrive: `lambda` adds the count to `r.p` at every target if `W(t, g, pre, r)`.

    `tags` has each target element with the relative arrival and count; `shift` is the element
    whose counts fall, and by how much, because the arrive count has risen.
    """
    projections: dict[int, records.Grants] = {}

    def rule(facts: records.RecordFacts, family: records.Family) -> tuple[records.Family, ...]:
        if records.saturated(facts, family[2], family[3]):
            return (family,)
        grants = _project(projections, sync, facts)
        return tuple(
            _retagged(facts, part, shifted(tagged(part[4], tags, passage), shift))
            for part, passage in passages(sync.policy, grants, threads, facts, family)
        )

    return rule


def trail(threads: records.Threads, tags: NewTags) -> Rule:
    """A trailing barrier orders execution as an Arrive does."""

    def rule(facts: records.RecordFacts, family: records.Family) -> tuple[records.Family, ...]:
        if facts.op is not None or records.saturated(facts, family[2], family[3]):
            return (family,)
        owners = 0 if family[2][0] & threads else family[1] & threads
        shared = FULL if family[2][0] & threads else NOTHING
        return tuple(
            _retagged(facts, part, tagged(part[4], tags, (grant, ())))
            for part, grant in _parts(family, shared, owners)
            if part[1]
        )

    return rule


def await_(
    sync: records.SyncFacts,
    threads: records.Threads,
    element: int,
    bound: int,
    shift: tuple[int, int] | None,
) -> Rule:
    """Await: `r -> A(r, g, full, temp) if r.p(z, n) has a tag that it receives else r`; `bound` is
    Max, relative."""
    projections: dict[int, records.Grants] = {}

    def rule(facts: records.RecordFacts, family: records.Family) -> tuple[records.Family, ...]:
        if not family[4]:
            return (family,)
        passage = best_tag(family[4], element, bound)
        after = augment(facts, family, threads, _project(projections, sync, facts), passage)
        return (_retagged(facts, after, shifted(after[4], shift)),)

    return rule


def forget(first: int, last: int) -> Rule:
    """Decision `task-order`: the tags of the barrier elements `first .. last - 1` are deleted."""

    def rule(facts: records.RecordFacts, family: records.Family) -> tuple[records.Family, ...]:
        kept = tuple(tag for tag in family[4] if not first <= tag[0] < last)
        return (_retagged(facts, family, kept),)

    return rule


def next_task(resident: frozenset[int]) -> Rule:
    """InctaskID: the threads so far are threads of another task from here on, but for what resides
    (decision `resident-memory`); no other record keeps tags of the barrier elements that reside."""

    def rule(facts: records.RecordFacts, family: records.Family) -> tuple[records.Family, ...]:
        _, owners, full, temporal, tags = family
        if facts.resident:
            return (records.family_of(facts, owners, records.aged(facts, full, 0), temporal, tags),)
        if resident:
            tags = tuple(tag for tag in tags if tag[0] not in resident)
        after = (
            tuple(_remaining_threads(m) for m in full),
            tuple(_remaining_threads(m) for m in temporal),
        )
        return (records.family_of(facts, _remaining_threads(owners), *after, tags),)

    return rule


def _remaining_threads(threads: records.Threads) -> records.Threads:
    return threads if threads == records.EVERYONE else records.ANOTHER_TASK if threads else 0


def _project(
    known: dict[int, records.Grants], sync: records.SyncFacts, facts: records.RecordFacts
) -> records.Grants:
    found = known.get(facts.number)
    if found is None:
        found = known[facts.number] = sync.grants_for(facts)
    return found


def passages(
    policy: Policy,
    grants: records.Grants,
    threads: records.Threads,
    facts: records.RecordFacts,
    family: records.Family,
) -> tuple[tuple[records.Family, Passage], ...]:
    """The family, split by what the sync may give: where only some owners are witnesses, and
    where only some of those see their record across the proxy."""
    shared, owners = witness(policy, grants, threads, facts, family)
    parts = _parts(family, shared, owners)
    crossing = [(i, family[2][i]) for i in grants.carried if family[2][i]]
    if not crossing:
        return tuple((part, (grant, ())) for part, grant in parts)
    _, every, full, temporal, _ = family
    seeing = 0
    for i in grants.pre:
        seeing |= full[i] | temporal[i]
    if grants.own and not facts.each:
        seeing |= every
    everyones = tuple(i for i, crossed in crossing if crossed & seeing & threads)
    found: list[tuple[records.Family, Passage]] = []
    for part, grant in parts:
        own = part[1] & threads if grants.own and facts.each else 0
        for owners, carried in _split(part[1], own, crossing, everyones):
            found.append(((part[0], owners, *part[2:]), (grant, carried)))
    return tuple(found)


def _split(
    owners: records.Threads,
    witnesses: records.Threads,
    crossing: list[tuple[int, records.Threads]],
    everyones: tuple[int, ...],
) -> list[tuple[records.Threads, tuple[int, ...]]]:
    """The owners by what is carried of their records: what any witness sees across the proxy,
    and what each owner that is a witness sees itself."""
    parts: list[tuple[records.Threads, tuple[int, ...]]] = [(owners, everyones)]
    for i, crossed in crossing:
        if i in everyones or not witnesses & crossed:
            continue
        split = []
        for part, carried in parts:
            seen = part & witnesses & crossed
            split += [(seen, (*carried, i))] if seen else []
            split += [(part & ~seen, carried)] if part & ~seen else []
        parts = split
    return parts


def witness(
    policy: Policy,
    grants: records.Grants,
    threads: records.Threads,
    facts: records.RecordFacts,
    family: records.Family,
) -> tuple[int, records.Threads]:
    """`W(t, g, pre, r)`: the grant for all records of the family, and the owners who witness a
    full grant for their own."""
    _, owners, full, temporal, _ = family
    for i in grants.pre:
        if full[i] & threads:
            return FULL, 0
    shared = NOTHING
    for i in grants.pre:
        if temporal[i] & threads:
            if policy is Policy.PAPER:
                return FULL, 0
            shared = TEMPORAL
    here = owners & threads if grants.own else 0
    if here and (not facts.each or here == owners):
        return FULL, 0
    return shared, here


def _parts(
    family: records.Family, shared: int, owners: records.Threads
) -> tuple[tuple[records.Family, int], ...]:
    """The family, split where only some owners are witnesses."""
    if not owners:
        return ((family, shared),)
    number, every, full, temporal, tags = family
    return (
        ((number, owners, full, temporal, tags), FULL),
        ((number, every & ~owners, full, temporal, tags), shared),
    )


def augment(
    facts: records.RecordFacts,
    family: records.Family,
    threads: records.Threads,
    grants: records.Grants,
    passage: Passage,
) -> records.Family:
    """`A(r, g, full, temp)`; a temporal grant makes the full entries temporal (decision
    `temporal-no-witness`), and what is carried is full (decision `proxy-fence-anywhere`)."""
    grant, carried = passage
    if grant == NOTHING:
        return family
    _, owners, old_full, old_temporal, tags = family
    full, temporal = list(old_full), list(old_temporal)
    raised = full if grant == FULL else temporal
    for i in grants.full:
        raised[i] |= threads
    for i in grants.temporal:
        temporal[i] |= threads
    for i in carried:
        if i in grants.onward:
            full[i] |= threads
    return records.family_of(facts, owners, tuple(full), tuple(temporal), tags)


def _retagged(
    facts: records.RecordFacts, family: records.Family, tags: records.Tags
) -> records.Family:
    if tags == family[4]:
        return family
    return records.family_of(facts, family[1], family[2], family[3], tags)


def tagged(tags: records.Tags, added: NewTags, passage: Passage) -> records.Tags:
    """With a tag of the grant at each of the elements; the least count of a kind is enough."""
    grant, carried = passage
    if grant == NOTHING or not added:
        return tags
    found = {tag[:2]: tag for tag in tags}
    for element, arrival, count in added:
        key = (element, arrival)
        *_, some, most, crossings = found.get(
            key, (element, arrival, records.NEVER, records.NEVER, ())
        )
        if carried:
            least = dict(crossings)
            least |= {i: min(count, least.get(i, records.NEVER)) for i in carried}
            crossings = tuple(sorted(least.items()))
        most = min(most, count) if grant == FULL else most
        found[key] = (element, arrival, min(some, count), most, crossings)
    return tuple(sorted(found.values()))


def shifted(tags: records.Tags, shift: tuple[int, int] | None) -> records.Tags:
    """With the counts of one element lower: the least bound of its Awaits has risen.  A tag of one
    arrival below it is received by nobody."""
    if shift is None or not tags:
        return tags
    moved, by = shift
    found = []
    for tag in tags:
        element, arrival, some, most, crossings = tag
        if element != moved:
            found.append(tag)
        elif arrival == records.UP_TO:
            most = max(most - by, 0) if most < records.NEVER else records.NEVER
            lower = tuple((i, max(count - by, 0)) for i, count in crossings)
            found.append((element, arrival, max(some - by, 0), most, lower))
        elif arrival >= by:
            found.append((element, arrival - by, some, most, crossings))
    return tuple(found)


def best_tag(tags: records.Tags, element: int, bound: int) -> Passage:
    """Returns the passage that an Await of `bound` may give: the best of several tags, and the
    timelines that any carries."""
    for at, arrival, some, most, crossings in tags:
        if at == element and arrival in (records.UP_TO, bound):
            limit = bound if arrival == records.UP_TO else 0
            grant = FULL if most <= limit else TEMPORAL if some <= limit else NOTHING
            return grant, tuple(i for i, count in crossings if count <= limit)
    return NOTHING, ()
