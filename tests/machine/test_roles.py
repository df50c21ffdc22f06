"""Phases that roles share: the machine's barriers, one for each pair of roles, and the one mbarrier
of the hardware.

What the machine accepts runs right on the mbarrier in every order that is tried; and the three
machines agree.
"""

from __future__ import annotations

from random import Random

import pytest

from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.machine import fast, literal
from tests.machine.shapes.roles import Drawn, draw, executed, program
from tests.symbolic.agreement import admitting_zero, check, key

OF_BARRIERS = {HazardKind.DEADLOCK, HazardKind.PHASE, HazardKind.BARRIER}
STEPS = 6


def orders(drawn: Drawn, steps: int, several: int) -> set[str]:
    return {executed(drawn, steps, Random(seed)) for seed in range(several)}


def accepted(drawn: Drawn, steps: int) -> bool:
    found = literal.run(program(drawn), {"K": steps}, collect=True)
    return OF_BARRIERS.isdisjoint(violation.kind for violation in found)


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_what_is_accepted_runs_right_on_one_mbarrier(first: int) -> None:
    right = wrong = 0
    for seed in range(first, first + 60):
        drawn = draw(Random(seed))
        if accepted(drawn, STEPS):
            assert orders(drawn, STEPS, 12) == {""}, seed
            right += 1
        else:
            wrong += orders(drawn, STEPS, 12) != {""}
    assert right >= 10 and wrong >= 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_machines_and_the_prover_agree(seed: int) -> None:
    drawn = draw(Random(1000 + seed))
    made = admitting_zero(program(drawn, Random(seed).choice(list(Policy))))
    sizes = [{"K": steps} for steps in (0, 1, 2, 3, 5, 7)]
    check(made, sizes)
    for at in sizes:
        mine = {key(v) for v in fast.run(made, at, collect=True).violations}
        assert mine == {key(v) for v in literal.run(made, at, collect=True)}
