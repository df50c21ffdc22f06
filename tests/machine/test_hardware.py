"""What the literal machine accepts runs right on what the hardware counts, in random orders."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from exogpu.diagnostics.verdict import Policy
from exogpu.machine.literal import run
from tests.machine.build import Q1, Builder, t
from tests.machine.generate import program
from tests.machine.hardware import SkippedError, went_wrong
from tests.machine.shapes.handovers import late

SHAPES = {"handovers": 150, "waits": 80, "ring": 60, "roles": 40, "nests": 60}
STEPS = (1, 2, 3, 5)


def tried(shape: str, seed: int) -> tuple[int, set[str]]:
    """How many runs of a program there were, and what went wrong in them."""
    made = replace(program(Random(seed), shape).program, policy=Policy.PTX)
    runs, wrong = 0, set[str]()
    for steps in STEPS:
        sizes = {one.name.name: steps for one in made.params}
        if run(made, sizes):
            continue
        try:
            wrong |= went_wrong(made, sizes, orders=6, seed=seed)
        except SkippedError:
            continue
        runs += 1
    return runs, wrong


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_accepted_runs_right(shape: str) -> None:
    runs = 0
    for seed in range(SHAPES[shape]):
        more, wrong = tried(shape, seed)
        assert not wrong, f"{shape} {seed}"
        runs += more
    assert runs >= 10


def test_an_earlier_arrival_that_is_late_is_seen() -> None:
    """What the figure accepts, and `await-own-arrival` does not, goes wrong here."""
    assert not run(late(Policy.PAPER), {})
    assert run(late(Policy.PTX), {})
    assert went_wrong(late(Policy.PAPER), {}, orders=12, seed=0)


@pytest.mark.parametrize("depth", (1, 2))
def test_a_ring_that_is_too_short_is_seen(depth: int) -> None:
    """Two arrivals before the first is awaited: right on two mbarriers, and wrong on one."""
    b = Builder()
    full = b.barrier("full", depth=depth)
    b.alloc(full)
    for role in (0, 0, 1, 1):
        if role == 0:
            b.arrive(t(0), Q1, full[()], transitive=True)
        else:
            b.await_(full[()], t(1), Q1)
    b.fence(t(0, 8), Q1, Q1, transitive=True)
    b.free_barrier(full)
    made = b.program(Policy.PTX)
    if depth == 2:
        assert not run(made, {})
        assert not went_wrong(made, {}, orders=12, seed=0)
    else:
        assert run(made, {})
