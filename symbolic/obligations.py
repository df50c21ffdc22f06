"""Discharge: the dependences whose check sees the record, and the exact set of those that do not.

A first pass lets an instance stand for all its threads at once, which can only miss that a check
sees a record; what it leaves is decided with threads as coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exogpu.ir.types import Policy
from exogpu.machine.amir import Check
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.closure import (
    Holder,
    Syncs,
    close,
    first_seen,
    granted_at,
    granted_from_start,
    holder,
    instances,
    members,
)
from exogpu.symbolic.dependences import Dependence, uncleared
from exogpu.symbolic.frames import Frame
from exogpu.symbolic.sites import Site


@dataclass(slots=True, eq=False)
class Goal:
    """A dependence with what is left of it."""

    dependence: Dependence
    left: isl.Map
    """From records (with their threads, where exact) to checks (likewise)."""


@dataclass(frozen=True, slots=True, eq=False)
class Left:
    """What no chain of syncs orders, of a dependence."""

    dependence: Dependence
    pairs: isl.Map
    """`record -> check`"""
    elements: isl.Map
    """`record -> [check -> element]`, of these pairs and perhaps of others."""


def undischarged(
    syncs: Syncs, record: Site, dependences: Sequence[Dependence], policy: Policy
) -> Iterator[Left]:
    """The pairs of each dependence of one Record that no chain of syncs orders.

    Only dependences of which something is left are given.  Whether the record was cleared in
    between is asked last: most pairs are ordered all the same.
    """
    coarse = _after_discharge(syncs, record, [(d, d.pairs) for d in dependences], policy, False)
    met = [(d, uncleared(d, pairs)) for d, pairs in coarse]
    elements = {d.check: found for d, found in met if not isl.is_empty(found)}
    open_still = [(d, rel.without_element(found)) for d, found in met if d.check in elements]
    for dependence, pairs in _after_discharge(syncs, record, open_still, policy, True):
        yield Left(dependence, pairs, elements[dependence.check])


def _after_discharge(
    syncs: Syncs,
    record: Site,
    asked: Sequence[tuple[Dependence, isl.Map]],
    policy: Policy,
    exact: bool,
) -> list[tuple[Dependence, isl.Map]]:
    """What is left of the pairs, with threads as coordinates where `exact`."""
    if not asked:
        return []
    records = holder(syncs.frame, record, exact=exact)
    goals = [Goal(d, _extended(syncs.frame, records, d.check, pairs)) for d, pairs in asked]
    _discharge(syncs, records, goals, policy)
    return [(goal.dependence, _instances_only(syncs.frame, records, goal)) for goal in _open(goals)]


def _discharge(syncs: Syncs, records: Holder, goals: list[Goal], policy: Policy) -> None:
    """Takes from each goal the pairs that some round of the closure discharges."""
    for goal in goals:
        check = goal.dependence.check
        assert isinstance(check.op, Check)
        if granted_from_start(records.op, check.op):
            _take(goal, _seen_from_start(syncs.frame, records, check))
    if not _open(goals):
        return
    original = records.op.timeline
    for grants in close(syncs, records, policy):
        for goal in _open(goals):
            check = goal.dependence.check
            assert isinstance(check.op, Check)
            for site in syncs.granting:
                by_full, by_temporal = granted_at(site, check.op, original, policy)
                for wanted, found in ((by_full, grants.full), (by_temporal, grants.temporal)):
                    if wanted and site.number in found:
                        reached = _reached(syncs.frame, site, check, exact=records.exact)
                        _take(goal, isl.compose(found[site.number], reached))
        if not _open(goals):
            return


def _open(goals: Sequence[Goal]) -> list[Goal]:
    return [goal for goal in goals if not isl.is_empty(goal.left)]


def _take(goal: Goal, seen: isl.Map) -> None:
    if not isl.is_empty(goal.left) and not isl.is_empty(seen):
        goal.left = rel.coalesce(isl.subtract_map(goal.left, seen))


# --- the check's side ---------------------------------------------------------------------------


def _per_thread(frame: Frame, check: Site, exact: bool) -> bool:
    """Whether the check's threads are coordinates."""
    assert isinstance(check.op, Check)
    return exact and not check.op.convergent and not frame.everyone(check)


def _reached(frame: Frame, site: Site, check: Site, *, exact: bool) -> isl.Map:
    """The instances of a granting site and the later checks that it serves: one thread suffices
    for a convergent check, else every thread, or the thread that is a coordinate."""
    assert isinstance(check.op, Check)
    if check.op.convergent:
        return frame.shared(site, check)
    if not _per_thread(frame, check, exact):
        return frame.covered(site, check)
    return frame.thread_after(site, check)


def _seen_from_start(frame: Frame, records: Holder, check: Site) -> isl.Map:
    """The records and later checks by the threads that made the record."""
    assert isinstance(check.op, Check)
    if check.op.convergent:
        return first_seen(frame, records, check)
    if not _per_thread(frame, check, records.exact):
        if not records.each:
            return frame.covered(records.site, check)
        if frame.everyone(check) or not _alone(records.site):
            return rel.empty_like(first_seen(frame, records, check))
        return frame.covered(records.site, check)
    later = frame.same_task(frame.before(records.site, check), records.site, check)
    later = isl.compose(instances(frame, records), later)
    later = isl.compose(later, frame.with_thread(check))
    if frame.everyone(records.site):
        return later
    holders = members(frame, records) if records.with_members else frame.threads(records.site)
    return isl.intersect_map(later, rel.pairs(holders, frame.thread_of(check)))


def _alone(site: Site) -> bool:
    """Whether one thread executes the site."""
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
    """What is left, without threads."""
    left, check = goal.left, goal.dependence.check
    if records.with_members:
        left = isl.compose(isl.inverse(instances(frame, records)), left)
    if _per_thread(frame, check, records.exact):
        left = isl.compose(left, isl.inverse(frame.with_thread(check)))
    return rel.coalesce(left)
