"""Random sequences of primitives on random procedures never change what is computed."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import program
from sequences import differences, sequence
from small_programs import small_program
from steps import same_results

from exogpu.schedule import primitive
from exogpu.schedule.checking.checker import Objection, objection
from exogpu.schedule.rewrite import Rewrite

pytestmark = pytest.mark.slow


taken: Counter[str] = Counter()
refused: Counter[str] = Counter()


def schedule_at_random(seed: int) -> None:
    for kind in (program, small_program):
        found = sequence(seed, kind)
        if found is None:
            continue
        taken.update(found.taken)
        refused.update(found.refused)
        assert not found.speechless
        if kind is program:
            assert found.last is found.first or same_results(found.first, found.last, 5) == 5
        else:
            assert found.first.ir is not None
            assert not differences(found.first.ir, found.last, range(5), seed)


@settings(derandomize=True, max_examples=20, deadline=None)
@given(st.integers(0, 1 << 32))
def any_schedule(seed: int) -> None:
    schedule_at_random(seed)


def test_random_schedules_keep_the_results() -> None:
    """And most primitives were taken, and refused: of the others it would say nothing."""
    taken.clear()
    refused.clear()
    any_schedule()
    assert len(taken) >= 25, taken
    assert sum(taken.values()) > 80, taken
    assert len(refused) >= 30, refused


def both_ways(edit: Rewrite) -> Objection | None:
    """The checker's answer, which must not depend on variables that it leaves out."""
    found, thorough = objection(edit), objection(edit, everything=True)
    assert (found is None) == (thorough is None), (found, thorough)
    return found


def test_variables_of_which_nothing_changed_may_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(primitive, "objection", both_ways)
    for seed in range(60, 66):
        schedule_at_random(seed)
