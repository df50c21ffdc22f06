"""Careless primitives are refused, and where their results differ, at the smallest sizes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from exogpu import ExoGpuError, schedule
from exogpu.interpreter import elementwise
from exogpu.ir.walk import holds
from exogpu.schedule.certificates.chain import uncertified
from exogpu.schedule.checking.checker import objection
from exogpu.schedule.primitive import refusal_of
from exogpu.schedule.rewrite import Rewrite, is_plain
from tests.schedule.careless import CARELESS, VISIBLE, window_too_small
from tests.schedule.steps import data, same_results, tail


@pytest.mark.parametrize("careless", CARELESS, ids=lambda f: f.__name__)
def test_careless_primitives_are_refused(careless: Callable[[], Rewrite]) -> None:
    found = refusal_of(careless.__name__, careless())
    assert found is not None
    assert found.code in ("X992", "X991")


@pytest.mark.parametrize("careless", CARELESS, ids=lambda f: f.__name__)
def test_the_solver_alone_refuses_them(careless: Callable[[], Rewrite]) -> None:
    """The checker is not asked; the witness is what ISL finds about the wrong step."""
    assert uncertified(careless()).startswith(("sat: ", "no witness: "))


def test_the_checker_alone_finds_what_bounds_would_find_too() -> None:
    """An instance that runs twice, or a neighbour's value, is no matter of bounds."""
    for careless in set(CARELESS) - {window_too_small}:
        assert objection(careless()) is not None, careless.__name__


def differ(edit: Rewrite, sizes: dict[str, int]) -> bool:
    """Whether the old and the new procedure leave other results, on one of a few inputs."""
    for seed in range(3):
        given = data(edit.old, seed, sizes)
        before, after = (
            {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in given.items()}
            for _ in range(2)
        )
        elementwise.run(edit.old, before)
        try:
            elementwise.run(edit.new, after)
        except ExoGpuError:  # out of bounds
            return True
        if any(not np.array_equal(before[n], after[n]) for n in given):
            return True
    return False


@pytest.mark.parametrize("careless", VISIBLE, ids=lambda f: f.__name__)
def test_the_sizes_that_are_named_are_the_smallest(careless: Callable[[], Rewrite]) -> None:
    edit = careless()
    found = objection(edit)
    assert found is not None and found.sizes is not None
    assert differ(edit, dict(found.sizes))
    total = sum(found.sizes.values())
    for values in product(range(1, total), repeat=len(found.sizes)):
        sizes = dict(zip(found.sizes, values, strict=True))
        env = {p.name: sizes[p.name.name] for p in edit.old.params if p.name.name in sizes}
        if sum(values) < total and all(holds(b, env) for b in edit.old.preconditions):
            assert not differ(edit, sizes), sizes


def test_the_papers_guard_goes_without_an_unsafe_step() -> None:
    """Section "Limitations": what the first guard keeps from running is read by nobody."""
    p = schedule.remove_if(tail, "if _: _")
    assert same_results(tail, p) > 0


def test_rewritings_that_say_more_than_images_and_copies_are_told_apart() -> None:
    said_more = {
        "first_counts_and_not_the_last", "nobody_counts", "sum_repeated",
        "blocks_recompute_too_little", "read_as_what_it_is_not", "part_forgotten",
        "part_of_another_element", "merged_with_what_reads_it", "scratch_that_is_not_its_own",
        "inlined_after_a_change", "inlined_before", "factor_that_changes", "sum_scaled_from_one",
    }  # fmt: skip
    assert {make.__name__ for make in CARELESS if not is_plain(make())} == said_more
