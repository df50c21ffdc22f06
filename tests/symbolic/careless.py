"""Careless readings of the rules, each as a change to the prover.

`MUTANTS` gives each with the number of the program of the pitfalls (`tests.machine.test_pitfalls`)
that warns of it, or None where a decision does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from exogpu.amir.nodes import Arrive, Check, Fence, Record
from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.ir.nodes import Int, Interval
from exogpu.ir.types import Level
from exogpu.machine.literal_records import Grant
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic import sites
from exogpu.symbolic.encode import witness
from exogpu.symbolic.search import (
    barrier_balance,
    counts,
    dependences,
    discharge,
    frames,
    instance_model,
    phase,
    rank_comparisons,
    sync_relations,
    visibility,
)
from exogpu.symbolic.search.sync_relations import Syncs
from exogpu.symbolic.sites import targets_of

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, tuple[int | None, Callable[[Patch], None]]] = {}


def careless(pitfall: int | None = None):
    def register(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS[apply.__name__] = (pitfall, apply)
        return apply

    return register


# --- timelines and levels -----------------------------------------------------------------------


@careless()
def proxies_need_no_fence(patch):
    """Decision `temporal-async-proxy` forgotten: temporal entries of the async proxy hold for every
    record."""
    patch.setattr(visibility, "temporal_side", lambda site, *_: site.op.temporal - site.op.full)


@careless(10)
def temporal_becomes_full(patch):
    """Decision `temporal-no-witness` forgotten: a temporal grant witnesses a full one."""
    kept = visibility.fires

    def fires(*arguments):
        return Grant.FULL if kept(*arguments) is Grant.TEMPORAL else kept(*arguments)

    patch.setattr(visibility, "fires", fires)


@careless()
def temporal_is_no_witness(patch):
    """A temporal grant passes nothing on: too few chains under ptx."""
    kept = visibility.fires

    def fires(*arguments):
        return Grant.NOTHING if kept(*arguments) is Grant.TEMPORAL else kept(*arguments)

    patch.setattr(visibility, "fires", fires)


@careless(18)
def proxy_fences_end_the_way(patch):
    """Decision `proxy-fence-anywhere` forgotten: what has crossed to the async proxy is not carried
    on."""
    patch.setattr(visibility, "_proxy", lambda *_: frozenset())


@careless(18)
def whoever_fires_has_crossed(patch):
    """Across the proxy everything is carried, whether the thread that lets a sync fire has crossed
    or not."""
    kept = visibility.close

    def crossed(site):
        for q in sorted(ASYNC_PROXY & site.op.temporal, key=str):
            yield witness.Label(Grant.TEMPORAL, q)

    def close(*arguments):
        for grants in kept(*arguments):
            for step in tuple(grants.steps):
                if step.label.carried is None and step.via is not step.granted:
                    for label in crossed(step.granted):
                        grants.pairs_of(label)[step.granted.number] = step.pairs
                        grants.steps.append(replace(step, label=label))
            yield grants

    patch.setattr(discharge, "close", close)


@careless(18)
def another_thread_has_crossed(patch):
    """A sync carries what any thread has crossed, not only one that lets it fire."""

    def carried(syncs, records, policy, proxy, grants):
        for label, number, base in grants.labelled_pairs():
            sight = visibility.granted_sight(syncs.site(number), label, records.op.timeline, policy)
            for via in syncs.firing if sight.full & proxy else ():
                if not visibility._witnesses(records.op, via):
                    continue
                order = syncs.frame.instances_before(syncs.site(number), via)
                for granted, pairs in syncs.grants(isl.compose(base, order), via):
                    for q in visibility._ordered(sight.full & proxy & granted.op.temporal):
                        after = witness.Label(Grant.TEMPORAL, q)
                        way = (granted, after, via, syncs.site(number), label, base, pairs)
                        yield visibility.Step(*way)

    patch.setattr(visibility, "_crossings", carried)


@careless(9)
def a_temporal_grant_lowers_own_access(patch):
    """One ordered level: after a temporal grant the record's own threads witness no full one."""
    kept = sync_relations.first_seen

    def first_seen(frame, records, site):
        found = kept(frame, records, site)
        for lowering in frame.sites:
            op = lowering.op
            if isinstance(op, Fence) and records.op.timeline in op.pre & (op.temporal - op.full):
                lowered = isl.compose(
                    kept(frame, records, lowering), frame.pairs_sharing_thread(lowering, site)
                )
                found = isl.subtract_map(found, lowered)
        return found

    patch.setattr(visibility, "first_seen", first_seen)


@careless(8)
def the_earliest_sync_decides(patch):
    """Of several syncs that grant, only the first one counts."""
    kept = visibility.close

    def close(*arguments):
        for grants in kept(*arguments):
            first = min((number for _, number, _ in grants.labelled_pairs()), default=None)
            kept_pairs = {
                label: {n: pairs for n, pairs in found.items() if n == first}
                for label, found in grants.pairs.items()
            }
            yield replace(grants, pairs=kept_pairs)

    patch.setattr(discharge, "close", close)


@careless(12)
def temporal_suffices_for_reads(patch):
    """The level of a check is not asked for."""
    kept = visibility.granted_at

    def granted_at(site, label, check, *arguments):
        return kept(site, label, replace(check, level=Level.TEMPORALLY_ORDERED), *arguments)

    patch.setattr(discharge, "granted_at", granted_at)


@careless()
def records_are_ordered_at_once(patch):
    """The level of a record is not asked for: unordered accesses count as done."""

    def granted(records: Record, check: Check) -> bool:
        return records.timeline in check.timelines and records.level >= Level.UNORDERED

    patch.setattr(discharge, "granted_from_start", granted)


@careless()
def every_timeline_of_a_check(patch):
    """Decision `check-any-timeline` forgotten: a check asks for all timelines of its set."""

    def granted_at(site, label, check, original, policy):
        sight = visibility.granted_sight(site, label, original, policy)
        if check.level is Level.FULLY_ORDERED:
            return check.timelines <= sight.full
        return check.timelines <= sight.full | sight.temporal

    patch.setattr(discharge, "granted_at", granted_at)


@careless(4)
def every_sync_is_transitive(patch):
    patch.setattr(visibility, "pre_side", lambda site, original: site.op.pre)


@careless(4)
def only_owners_fire_intransitive_syncs(patch):
    """A sync that is not transitive fires for the record's own threads alone."""
    kept = visibility.fires

    def fires(site, *arguments):
        return kept(site, *arguments) if site.op.transitive else Grant.NOTHING

    patch.setattr(visibility, "fires", fires)


# --- threads ------------------------------------------------------------------------------------


@careless()
def one_record_for_all_threads(patch):
    def holder(frame, site, *, exact):
        return sync_relations.Holder(site, False, exact)

    patch.setattr(discharge, "holder", holder)


@careless(5)
def one_thread_suffices(patch):
    """A check by several threads is satisfied by any of them."""
    patch.setattr(frames.Frame, "covered_pairs", frames.Frame.pairs_sharing_thread)


@careless()
def a_chain_needs_every_thread(patch):
    """A sync after another, or a convergent check, asks for all its threads."""
    patch.setattr(frames.Frame, "pairs_sharing_thread", frames.Frame.covered_pairs)


@careless(11)
def tasks_share_threads(patch):
    patch.setattr(frames.Frame, "same_task", lambda self, relation, first, second: relation)


@careless()
def streams_order_nothing(patch):
    """A sync at CPU scope is not heard by the threads of tasks."""
    kept = frames.Frame.same_task

    def same_task(self, relation, first, second):
        if self.everyone(first) != self.everyone(second):
            return rel.empty_like(relation)
        return kept(self, relation, first, second)

    patch.setattr(frames.Frame, "same_task", same_task)


@careless()
def streams_end_chains(patch):
    """A sync at CPU scope hears of accesses, not of what a sync of a task granted."""
    kept = frames.Frame.pairs_sharing_thread

    def shared(self, first, second):
        found = kept(self, first, second)
        if self.everyone(second) and isinstance(first.op, Fence):
            return rel.empty_like(found)
        return found

    patch.setattr(frames.Frame, "pairs_sharing_thread", shared)


# --- records and clears -------------------------------------------------------------------------


@careless()
def nothing_is_cleared(patch):
    """Clears are not seen: old records stay."""

    def met_through(after, until, first, middle, second):
        found = rel.met_on(after.apply_range(until), first, second)
        return found.subtract(found)

    patch.setattr(rel, "met_through", met_through)


@careless(6)
def whole_windows_are_cleared(patch):
    """A Clear of some elements of a window clears them all."""
    patch.setattr(
        rel,
        "met_through",
        lambda after, until, first, middle, second: rel.met_on(
            after.apply_range(until), first, second
        ),
    )


def _last_record_only(patch, mutates: tuple[bool, ...], through) -> None:
    """A Record ends earlier ones of its kind that meet the check `through` it."""
    kept = dependences.uncleared

    def uncleared(slots, dependence, pairs):
        found, clears = kept(slots, dependence, pairs)
        frame, record, check = dependence.frame, dependence.record, dependence.check
        cells = [frame.cells(site, site.op.access) for site in (record, check)]
        for last in frame.sites:
            op = last.op
            if not isinstance(op, Record) or op.access.name != dependence.variable:
                continue
            if op.mutate is record.op.mutate and op.mutate in mutates:
                after, until = (
                    frame.instances_before(record, last),
                    frame.instances_before(last, check),
                )
                own = frame.cells(last, op.access)
                found = isl.subtract_map(found, through(after, until, cells[0], own, cells[1]))
        return found, clears

    patch.setattr(discharge, "uncleared", uncleared)


@careless(7)
def the_last_write_is_enough(patch):
    """Must-sources: a mutate ends the earlier ones on its elements, atomics too."""
    _last_record_only(patch, (True,), rel.met_through)


@careless(13)
def a_partial_access_ends_the_slot(patch):
    """An access to a part of a slot takes the place of earlier ones to the whole slot."""

    def through(after, until, first, middle, second):
        common = isl.compose(first, isl.inverse(middle))
        return rel.met_on(isl.compose(isl.intersect_map(after, common), until), first, second)

    _last_record_only(patch, (True, False), through)


@careless()
def atomics_are_like_writes(patch):
    patch.setattr(dependences, "always_visible", lambda records, check: False)


@careless()
def atomics_take_temporal_order(patch):
    """Decision `atomic-operations` forgotten: an add is ordered after what it adds to, and does not
    read it."""

    def asked(check):
        atomic = check.level is Level.ATOMIC_ONLY
        return Level.TEMPORALLY_ORDERED if atomic else check.level

    patch.setattr(visibility, "asked_of_others", asked)


@careless()
def atomics_take_what_is_unordered(patch):
    """Decision `atomic-operations` forgotten: in the order of levels unordered is more than
    atomic."""
    patch.setattr(visibility, "asked_of_others", lambda check: check.level)


@careless(7)
def atomics_never_conflict(patch):
    """A record of an atomic is visible to every check."""
    patch.setattr(
        dependences,
        "always_visible",
        lambda records, check: bool(records.atomic) or check.level is Level.INVISIBLE,
    )


# --- trip counts --------------------------------------------------------------------------------


@careless(14)
def loops_run_at_least_once(patch):
    """Sizes of 0 are not looked at."""
    kept = frames.Frame.context

    def context(self):
        found = kept(self)
        names = self.model.names
        positive = " and ".join(f"{name} >= 1" for name in names) or "0 = 0"
        return isl.intersect(found, isl.parse_set(f"[{', '.join(names)}] -> {{ : {positive} }}"))

    patch.setattr(frames.Frame, "context", context)


@careless(14)
def guards_always_hold(patch):
    patch.setattr(instance_model.Model, "condition", lambda self, condition: "0 = 0")


@careless(15)
def counts_restart_in_each_iteration(patch):
    """Barriers are counted within one iteration of the outermost loop of their frame."""
    kept = counts.Counts.count

    class Restarted:
        """The frame, with allocations told apart by the outermost loop too."""

        def __init__(self, frame):
            self._frame = frame

        def __getattr__(self, name):
            return getattr(self._frame, name)

        def earlier(self, first, second, name):
            found = self._frame.earlier(first, second, name)
            outer = [site.loops[self._frame.depth :] for site in (first, second)]
            if min(map(len, outer)) < 2 or outer[0][0] is not outer[1][0]:
                return found
            return rel.equal_dims(found, [(0, 0)])

    def count(self, *arguments):
        frame = self.frame
        self.frame = Restarted(frame)
        try:
            return kept(self, *arguments)
        finally:
            self.frame = frame

    patch.setattr(counts.Counts, "count", count)


# --- barriers -----------------------------------------------------------------------------------


@careless(1)
def targets_count_for_themselves(patch):
    """Decision `multicast-tags` forgotten: the rank of a multicast is the count of its last
    target."""
    patch.setattr(rank_comparisons, "home_of", lambda site: sites.targets_of(site)[-1])
    patch.setattr(barrier_balance, "home_of", lambda site: sites.targets_of(site)[-1])


@careless(1)
def only_the_home_is_tagged(patch):
    """A multicast tells the Awaits on its home alone."""
    patch.setattr(rank_comparisons, "targets_of", lambda site: (sites.home_of(site),))


def every_element(site):
    """The targets of an Arrive; of a trailing barrier, all of it."""
    if not isinstance(site.op, Record):
        return targets_of(site)
    home = sites.home_of(site)
    everything = Interval(Int(0), Int(1 << 20))
    return (replace(home, coords=(everything,) * len(home.coords)),)


@careless(16)
def a_copy_completes_everywhere(patch):
    """Decision `multicast-tags` forgotten: what an instruction writes takes the tags of all its
    targets."""
    patch.setattr(rank_comparisons, "targets_of", every_element)


@careless(16)
def a_copy_completes_at_its_sender(patch):
    """What an instruction writes takes the tag of the home, wherever it lands."""

    def targets(site):
        return (sites.home_of(site),) if isinstance(site.op, Record) else targets_of(site)

    patch.setattr(rank_comparisons, "targets_of", targets)


@careless(2)
def deadlock_counts_the_home_alone(patch):
    """Of the Arrives that target an element, only those homed at it count."""
    patch.setattr(
        barrier_balance, "targets", lambda uses, site: uses.frame.cells(site, sites.home_of(site))
    )


@careless(3)
def awaits_are_counted(patch):
    """Balance of commit groups: `w` is the number of Awaits, not the largest `a - n`."""
    patch.setattr(
        barrier_balance,
        "_waited",
        lambda uses, query: uses.ranks.count(query, uses.ranks.awaits(uses.name)),
    )


@careless(3)
def balance_is_not_asked(patch):
    patch.setattr(barrier_balance, "_unbalanced", lambda uses, free: iter(()))


@careless(14)
def one_more_in_flight(patch):
    """Await off by one."""
    kept = rank_comparisons.Ranks.await_limit
    patch.setattr(
        rank_comparisons.Ranks, "await_limit", lambda self, site: rel.plus(kept(self, site), 1)
    )


@careless()
def one_less_in_flight(patch):
    kept = rank_comparisons.Ranks.await_limit
    patch.setattr(
        rank_comparisons.Ranks, "await_limit", lambda self, site: rel.plus(kept(self, site), -1)
    )


@careless(11)
def tags_outlive_their_barrier(patch):
    """Allocations of a barrier are not told apart."""
    patch.setattr(frames.Frame, "in_scope", lambda self, relation, scope: relation)


@careless(2)
def late_arrives_are_in_time(patch):
    """DEADLOCK is asked at the Await only."""
    patch.setattr(barrier_balance, "_arrives_too_late", lambda uses, arrive: iter(()))


@careless()
def an_await_is_of_all_arrivals_up_to_its_own(patch):
    """`await-own-arrival` forgotten: the figure's `i <= Max` under ptx, too."""
    patch.setattr(rank_comparisons, "own_arrival", lambda policy, n: False)


@careless()
def tags_need_no_arrive(patch):
    """Decision `await-counts`, last sentence, forgotten: a trailing tag without a later home
    Arrive."""
    patch.setattr(barrier_balance, "_tags_without_arrive", lambda uses, free: iter(()))


@careless()
def trailing_barriers_tag_nothing(patch):
    kept = sync_relations.Syncs.released_awaits

    def released(self, site):
        return iter(()) if isinstance(site.op, Record) else kept(self, site)

    patch.setattr(sync_relations.Syncs, "released_awaits", released)


def _joining(kind: type) -> property:
    """All of this kind pass execution order on."""
    kept = Syncs.joining.fget

    def joining(self):
        known = kept(self)
        more = [s for s in self.firing if isinstance(s.op, kind) and s not in known]
        return [*known, *more]

    return property(joining)


@careless()
def phase_takes_a_wgmma_fence_for_a_barrier(patch):
    patch.setattr(Syncs, "joining", _joining(Fence))


@careless()
def phase_takes_a_commit_group_for_a_barrier(patch):
    patch.setattr(Syncs, "joining", _joining(Arrive))


@careless()
def phase_is_for_one_thread(patch):
    """PHASE (i) and (iii) are asked of the arrival and the Await, not of each of its threads."""

    def some_thread(self, await_, granted, site, *, each):
        found = self.some_thread(phase.any_thread(await_), granted, site)
        return isl.compose(found, self.syncs.frame.with_thread(site)) if each else found

    patch.setattr(phase.Orders, "all_threads", some_thread)


@careless()
def phase_needs_no_answer(patch):
    """PHASE (ii) is forgotten."""
    patch.setattr(phase, "_unfollowed", lambda uses, orders, depth: iter(()))


@careless()
def phase_forgets_trailing_instructions(patch):
    """PHASE (i) is asked of Arrives alone."""
    kept = phase._early_arrivals

    def early(uses, orders, depth):
        return kept(replace(uses, trailing=()), orders, depth)

    patch.setattr(phase, "_early_arrivals", early)


@careless(17)
def waiters_may_run_ahead(patch):
    """PHASE (iii) is forgotten."""
    patch.setattr(phase, "_waiters_ahead", lambda uses, orders, depth: iter(()))


@careless(17)
def any_phase_of_the_ring_is_enough(patch):
    """PHASE (iii) is content with an Await for an arrival between r - d and r."""

    def phase_before(uses, await_, site, depth):
        bound = uses.ranks.later_bound
        bounds = isl.subtract_map(bound(await_, site, 1), bound(await_, site, depth + 1))
        same = rel.pairs(barrier_balance.element(uses, await_), barrier_balance.element(uses, site))
        found = isl.intersect_map(same, bounds)
        return isl.intersect_map(found, barrier_balance.earlier(uses, await_, site))

    patch.setattr(phase, "phase_before", phase_before)


@careless()
def rings_have_one_slot(patch):
    """The depth of a ring without guards is not looked for."""
    patch.setattr(phase, "DEPTHS", (1,))


# --- what resides from task to task ---------------------------------------------------------------


@careless()
def chains_lead_from_task_to_task(patch: Patch) -> None:
    patch.setattr(frames.Frame, "within_task", lambda self, relation, *_: relation)


@careless()
def what_resides_is_fresh_in_each_task(patch: Patch) -> None:
    before = frames.Frame.instances_before

    def within(self, first, second):
        order = before(self, first, second)
        found = first.residence
        if found is None or min(len(first.loops), len(second.loops)) <= found.depth:
            return order
        return self.within_task(order, first, second)

    patch.setattr(frames.Frame, "instances_before", within)
