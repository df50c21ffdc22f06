"""A loop of tasks that are written out stands in several places, with a range in each."""

from __future__ import annotations

import pytest

from exogpu.ir import affine
from exogpu.ir.types import Sym
from exogpu.machine import fast, literal
from exogpu.machine.concrete_program import (
    assign_tasks,
    at_random,
    backwards,
    one_task_each,
    round_robin,
)
from exogpu.machine.fast.affine_code import Scope
from tests.symbolic import agreement

CHOICES = at_random(299), at_random(5), backwards, one_task_each, round_robin(2)


@pytest.mark.parametrize("seed", [299, *range(8)])
def test_the_machines_agree_where_tasks_are_unequal(seed: int) -> None:
    """In 299 the last task has one step, and `k % 2` was taken for `k` in the others too."""
    program = agreement.admitting_zero(agreement.generated("unequal", seed))
    for sizes in ({"I": 2, "K": 3}, {"I": 3, "K": 3}, {"I": 2, "K": 5}):
        for choice in CHOICES:
            chosen = assign_tasks(program, sizes, choice)
            found = {agreement.key(one) for one in literal.run(chosen, sizes, collect=True)}
            quick = fast.run(chosen, sizes, collect=True).violations
            assert {agreement.key(one) for one in quick} == found


def test_each_place_adds_its_range() -> None:
    scope = Scope({})
    own = scope.enter(Sym("k"), affine.combine(constant=1), affine.combine(constant=2))
    assert scope.ranges[own] == (1, 1, 0)
    assert scope.enter(Sym("k"), affine.combine(constant=0), affine.combine(constant=4), own) is own
    assert scope.ranges[own] == (0, 3, 1)
