"""Discharge: the dependences whose check sees the record, and the exact set of those that do not.

A first pass lets an instance stand for all its threads at once, which can only miss that a check
sees a record; what it leaves is decided with threads as coordinates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice
from typing import Final

from exogpu.amir.nodes import Check
from exogpu.diagnostics.verdict import Policy
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode.witness import FULL, Label
from exogpu.symbolic.search.dependences import Cleared, Dependence, uncleared
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.sync_relations import (
    Holder,
    Syncs,
    first_seen,
    holder,
    instances,
    members,
)
from exogpu.symbolic.search.visibility import Grants, Step, close, granted_at, granted_from_start
from exogpu.symbolic.sites import Site, loaded_from

ROUNDS: Final = 8
"""Rounds of the closure, before it is asked what has been cleared: where task after task waits for
the one before there is no last round, and none is needed if each overwrites what that one wrote."""


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """Pairs that a grant discharges: what a certificate is made from."""

    records: Holder
    check: Site
    by_thread: bool
    """The check's threads are coordinates."""
    pairs: isl.Map
    """From records (with their threads, where exact) to checks (likewise)."""
    granted: Site | None
    """None where the record's own threads see it."""
    label: Label
    found: isl.Map
    """`record -> granted`, or `record -> check`."""
    reached: isl.Map
    """`granted -> check`"""
    steps: tuple[Step, ...]
    """The steps that led to the finding."""


@dataclass(slots=True, eq=False)
class Goal:
    """A dependence with what is left of it."""

    dependence: Dependence
    left: isl.Map
    """From records (with their threads, where exact) to checks (likewise)."""
    ordered: list[Ordered] = field(default_factory=list)
    is_open: bool = field(init=False)
    """Something is left to be discharged."""

    def __post_init__(self) -> None:
        self.is_open = not isl.is_empty(self.left)

    def take(self, how: Ordered) -> None:
        """Takes these pairs, which are left, from what is left: most often all, written alike."""
        self.ordered.append(how)
        if rel.is_plainly_equal(self.left, how.pairs):
            self.left, self.is_open = rel.empty_like(self.left), False
            return
        self.left = rel.coalesce(isl.subtract_map(self.left, how.pairs))
        self.is_open = not isl.is_empty(self.left)


@dataclass(frozen=True, slots=True, eq=False)
class Left:
    """The pairs of a dependence that no chain of syncs orders."""

    dependence: Dependence
    pairs: isl.Map
    """`record -> check`"""
    elements: isl.Map
    """`record -> [check -> element]`, of these pairs and perhaps of others."""


@dataclass(frozen=True, slots=True, eq=False)
class Discharged:
    """The result for one dependence: the chains that order it, the Clears, and the pairs left."""

    dependence: Dependence
    ordered: tuple[Ordered, ...]
    cleared: tuple[Cleared, ...]
    left: Left | None


def discharge(
    syncs: Syncs, record: Site, dependences: Sequence[Dependence], policy: Policy
) -> Iterator[Discharged]:
    """Finds how the dependences of one Record are ordered, and the pairs that no chain of syncs
    orders.

    Whether the record was cleared in between is asked last: most pairs are ordered all the same.
    """
    coarse = _goals(syncs, record, [(d, d.pairs) for d in dependences], policy, False)
    exact: dict[Dependence, Goal] = {}
    elements: dict[Dependence, isl.Map] = {}
    cleared: dict[Dependence, tuple[Cleared, ...]] = {}
    open_still = []
    for goal in _open(coarse):
        dependence = goal.dependence
        found, cleared[dependence] = uncleared(syncs.slots, dependence, goal.left)
        if not isl.is_empty(found):
            elements[dependence] = found
            open_still.append((dependence, rel.without_element(found)))
    for goal in _goals(syncs, record, open_still, policy, True):
        exact[goal.dependence] = goal
    for goal in coarse:
        dependence, left = goal.dependence, None
        ordered = goal.ordered
        if (last := exact.get(dependence)) is not None:
            ordered = [*ordered, *last.ordered]
            if last.is_open:
                records = holder(syncs.frame, record, exact=True)
                pairs = _instances_only(syncs.frame, records, last)
                left = Left(dependence, pairs, elements[dependence])
        yield Discharged(dependence, tuple(ordered), cleared.get(dependence, ()), left)


def _goals(
    syncs: Syncs,
    record: Site,
    asked: Sequence[tuple[Dependence, isl.Map]],
    policy: Policy,
    exact: bool,
) -> list[Goal]:
    """Returns the pairs that remain unordered, with threads as coordinates if `exact`."""
    if not asked:
        return []
    records = holder(syncs.frame, record, exact=exact)
    goals = [Goal(d, _extended(syncs.frame, records, d.check, pairs)) for d, pairs in asked]
    _discharge(syncs, records, goals, policy)
    return goals


def _discharge(syncs: Syncs, records: Holder, goals: list[Goal], policy: Policy) -> None:
    """Takes from each goal the pairs that the closure discharges.

    What is loaded ISL takes for something that may be chosen.  So syncs that read what neither
    record nor check reads come last, and then all that may order a pair are candidates.
    """
    for goal in goals:
        check = goal.dependence.check
        assert isinstance(check.op, Check)
        if granted_from_start(records.op, check.op):
            seen = _seen_from_start(syncs.frame, records, check)
            by_thread = _per_thread(syncs.frame, check, records.exact)
            how = Ordered(records, check, by_thread, seen, None, FULL, seen, seen, ())
            _take(goal, how, goal.left)
    certain: dict[Syncs, list[Goal]] = {}
    for goal in goals:
        ends = loaded_from(records.site) | loaded_from(goal.dependence.check)
        certain.setdefault(syncs.certain(ends), []).append(goal)
    for some, asked in certain.items():
        _close(some, records, asked, policy)
    if certain.keys() != {syncs}:
        _close(syncs, records, goals, policy, every=True)


def _close(
    syncs: Syncs, records: Holder, goals: list[Goal], policy: Policy, *, every: bool = False
) -> None:
    """Takes from each goal the pairs that some round of the closure over these syncs discharges;
    where `every` grant is to be a candidate, at the end."""
    if not _open(goals):
        return
    checks = [goal.dependence.check.op for goal in goals]
    asked = [check for check in checks if isinstance(check, Check)]
    rounds = close(syncs, records, policy, asked)
    further = syncs.between_tasks and records.exact and not every
    if further or (syncs.between_tasks and not records.exact):
        rounds = islice(rounds, ROUNDS)
    _take_rounds(syncs, records, goals, policy, deque(rounds, 1) if every else rounds, every=every)
    if further:
        _close_further(syncs, records, goals, policy)


def _close_further(syncs: Syncs, records: Holder, goals: list[Goal], policy: Policy) -> None:
    """The rounds after the first, where tasks wait for tasks and there may be no last one: of the
    records that are left, and where a sync may show them to the threads of their checks."""
    checks = [goal.dependence.check.op for goal in _open(goals)]
    asked = [check for check in checks if isinstance(check, Check)]
    if not asked:
        return
    reach = _reach(syncs, next(close(syncs, records, policy, asked)).full)
    shown = [(goal, _may_be_shown(syncs, goal, reach, records.exact)) for goal in _open(goals)]
    sought = [(goal, pairs) for goal, pairs in shown if not isl.is_empty(pairs)]
    if not sought:
        return
    among = reduce(isl.union, (isl.domain(pairs) for _, pairs in sought))
    rounds = close(syncs, records, policy, asked, among)
    _take_rounds(syncs, records, [goal for goal, _ in sought], policy, rounds)


def _take_rounds(
    syncs: Syncs,
    records: Holder,
    goals: list[Goal],
    policy: Policy,
    rounds: Iterable[Grants],
    *,
    every: bool = False,
) -> None:
    """Takes from each goal what each round of the closure discharges, as long as any is open."""
    original = records.op.timeline
    for grants in rounds:
        steps = tuple(grants.steps)
        for goal in _open(goals):
            check, among = goal.dependence.check, goal.left
            assert isinstance(check.op, Check)
            by_thread = _per_thread(syncs.frame, check, records.exact)
            for label, number, found in grants.labelled_pairs():
                site = syncs.site(number)
                if granted_at(site, label, check.op, original, policy):
                    if not goal.is_open and not every:
                        break
                    reached = _checks_served(syncs.frame, site, check, exact=records.exact)
                    seen = isl.compose(found, reached)
                    how = Ordered(
                        records, check, by_thread, seen, site, label, found, reached, steps
                    )
                    _take(goal, how, among if every else goal.left)
        if not _open(goals):
            return


def _may_be_shown(syncs: Syncs, goal: Goal, reach: Mapping[int, isl.Map], exact: bool) -> isl.Map:
    """Returns the part of a goal that some sync may still show to the check's threads."""
    found = rel.empty_like(goal.left)
    for number, pairs in reach.items():
        reached = _checks_served(
            syncs.frame, syncs.site(number), goal.dependence.check, exact=exact
        )
        shown = isl.intersect_map(goal.left, isl.compose(pairs, reached))
        found = isl.union_map(found, shown)
    return found


def _reach(syncs: Syncs, first: Mapping[int, isl.Map]) -> dict[int, isl.Map]:
    """By granting site, at least all that any number of hops leads to from the first grants,
    whatever the timelines."""
    hops = [
        pairs
        for granted in syncs.granting
        for site in syncs.firing
        for _, pairs in syncs.hops(granted, site)
    ]
    names = {site.tuple_name: site.number for site in syncs.granting}
    found = dict(first)
    for chain in rel.chains(hops):
        start, end = (names[name] for name in rel.ends(chain))
        if start in first:
            further = isl.compose(first[start], chain)
            known = found.get(end)
            found[end] = further if known is None else isl.union_map(known, further)
    return found


def _open(goals: Sequence[Goal]) -> list[Goal]:
    return [goal for goal in goals if goal.is_open]


def _take(goal: Goal, how: Ordered, among: isl.Map) -> None:
    if isl.is_empty(among) or isl.is_empty(how.pairs):
        return
    dependence = goal.dependence
    common = isl.intersect_map(among, how.pairs)
    record, check = dependence.record, dependence.check
    if dependence.frame.model.within_a_task(dependence.variable, record, check):
        common = dependence.frame.within_task(common, record, check)
    if not isl.is_empty(common):
        goal.take(replace(how, pairs=rel.coalesce(common)))


# --- the check's side ---------------------------------------------------------------------------


def _per_thread(frame: Frame, check: Site, exact: bool) -> bool:
    """Tests whether the check's threads are coordinates."""
    assert isinstance(check.op, Check)
    return exact and not check.op.convergent and not frame.everyone(check)


def _checks_served(frame: Frame, site: Site, check: Site, *, exact: bool) -> isl.Map:
    """The instances of a granting site and the later checks that it serves: one thread suffices
    for a convergent check, else every thread, or the thread that is a coordinate."""
    assert isinstance(check.op, Check)
    if check.op.convergent:
        return frame.pairs_sharing_thread(site, check)
    if not _per_thread(frame, check, exact):
        return frame.covered_pairs(site, check)
    return frame.thread_after(site, check)


def _seen_from_start(frame: Frame, records: Holder, check: Site) -> isl.Map:
    """The records and later checks by the threads that made the record."""
    assert isinstance(check.op, Check)
    if check.op.convergent:
        return first_seen(frame, records, check)
    if not _per_thread(frame, check, records.exact):
        if not records.each:
            return frame.covered_pairs(records.site, check)
        if frame.everyone(check) or not _is_one_thread(records.site):
            return rel.empty_like(first_seen(frame, records, check))
        return frame.covered_pairs(records.site, check)
    later = frame.same_task(frame.instances_before(records.site, check), records.site, check)
    later = isl.compose(instances(frame, records), later)
    later = isl.compose(later, frame.with_thread(check))
    if frame.everyone(records.site):
        return later
    holders = members(frame, records) if records.with_members else frame.threads(records.site)
    return isl.intersect_map(later, rel.pairs(holders, frame.thread_of(check)))


def _is_one_thread(site: Site) -> bool:
    """Tests whether one thread executes the site."""
    threads = site.op.origin.threads
    return threads is not None and all(axis.extent == 1 for axis in threads.axes)


def _extended(frame: Frame, records: Holder, check: Site, pairs: isl.Map) -> isl.Map:
    """The pairs with the threads of both sides, where these are coordinates."""
    if records.with_members:
        pairs = isl.compose(instances(frame, records), pairs)
    if _per_thread(frame, check, records.exact):
        pairs = isl.compose(pairs, frame.with_thread(check))
    return pairs


def _instances_only(frame: Frame, records: Holder, goal: Goal) -> isl.Map:
    """Projects the threads out of the pairs that remain."""
    left, check = goal.left, goal.dependence.check
    if records.with_members:
        left = isl.compose(isl.inverse(instances(frame, records)), left)
    if _per_thread(frame, check, records.exact):
        left = isl.compose(left, isl.inverse(frame.with_thread(check)))
    return rel.coalesce(left)
