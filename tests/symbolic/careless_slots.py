"""Careless readings of slots, and of rings that run on, each as a change to the prover."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exogpu.solvers import isl, isl_piecewise
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.search import frames
from exogpu.symbolic.search.nested_counts import Nest
from exogpu.symbolic.search.rank_comparisons import SlotPairs
from exogpu.symbolic.search.steady_counts import Steady
from tests.symbolic.careless import chains_lead_from_task_to_task

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {
    chains_lead_from_task_to_task.__name__: chains_lead_from_task_to_task
}
"""The first is an old rule, which programs with slots tell apart as well."""


def careless(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[apply.__name__] = apply
    return apply


# --- which slots meet ---------------------------------------------------------------------------


@careless
def all_slots_meet(patch: Patch) -> None:
    patch.setattr(SlotPairs, "_among", lambda self, relation, *_, **__: relation)


@careless
def each_task_has_slots_of_its_own(patch: Patch) -> None:
    kept = SlotPairs.may_meet

    def may_meet(self, relation, first, second):
        return self.frame.within_task(kept(self, relation, first, second), first, second)

    patch.setattr(SlotPairs, "may_meet", may_meet)


@careless
def slots_of_other_iterations_do_not_meet(patch: Patch) -> None:
    patch.setattr(SlotPairs, "may_meet", SlotPairs.meet)


@careless
def slots_of_other_iterations_do_not_meet_before_a_ring_is_full(patch: Patch) -> None:
    """Two at a ring's distance are left out, those of equal counts are not."""
    kept = Steady.at_least

    def at_least(self, left, right, least, *, later=False):
        found = kept(self, left, right, least, later=later)
        return rel.empty_like(found) if later and least > 1 else found

    patch.setattr(Steady, "at_least", at_least)


@careless
def a_slot_begins_anew_in_each_iteration(patch: Patch) -> None:
    """Slots are compared by their counts within an iteration."""

    def apart(self, steady, left, rank, right, count, ring):
        alike = rel.congruent_pairs(rank, count, ring)
        later = self.frame.later_iteration(left, right, len(left.loops) - 1)
        inner = isl_piecewise.for_any(alike, steady.names[-1])
        found = isl_piecewise.shift_output(
            inner, steady.names, (left.tuple_name, right.tuple_name), 1, 1
        )
        return isl.intersect_map(found, later)

    patch.setattr(SlotPairs, "_separated_pairs", apart)


@careless
def a_ring_has_one_slot_more(patch: Patch) -> None:
    kept = SlotPairs._same_slot
    patch.setattr(
        SlotPairs,
        "_same_slot",
        lambda self, left, right, ring, surely: kept(self, left, right, ring + 1, surely),
    )


# --- counts of iterations -----------------------------------------------------------------------


def _shifted(by: int) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        kept = Steady.at_least

        def at_least(self, left, right, least, *, later=False):
            return kept(self, left, right, least + by, later=later)

        patch.setattr(Steady, "at_least", at_least)

    return apply


@careless
def a_count_less(patch: Patch) -> None:
    _shifted(1)(patch)


@careless
def a_count_more(patch: Patch) -> None:
    _shifted(-1)(patch)


@careless
def iterations_count_nothing(patch: Patch) -> None:
    """What the iterations between two have counted is forgotten."""
    patch.setattr(isl_piecewise, "plus_times", lambda values, number, times: values)


@careless
def each_iteration_counts_one(patch: Patch) -> None:
    """Any earlier iteration is a ring's distance away: totals are not looked at."""
    kept = Nest._separated_pairs

    def apart(self, first, second, least, *, anywhere=False):
        found = kept(self, first, second, least, anywhere=anywhere)
        later = self.frame.later_iteration(first, second, len(self.loops))
        return found if found is None else isl.union_map(found, later)

    patch.setattr(Nest, "_separated_pairs", apart)


@careless
def tasks_are_of_one_value(patch: Patch) -> None:
    """At two positions the tasks' iterators may have one value: a task is executed twice."""
    kept = frames.Frame._one_task

    def one_task(self, order, first, second):
        kept(self, order, first, second)
        return order

    patch.setattr(frames.Frame, "_one_task", one_task)
