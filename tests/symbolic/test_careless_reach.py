"""Each careless reading of atomics, bulk stores and dependent launches is told apart by a program
of `campaigns/reach`: the prover then finds more or fewer violations than the machine."""

from __future__ import annotations

from functools import cache

import pytest

from exogpu.symbolic.search.analysis import analyse
from tests.symbolic.agreement import admitting_zero, generated, machine_set, prover_set, small_sizes
from tests.symbolic.careless_reach import PROGRAMS, PROVERS, Change, changed
from tests.symbolic.suspects import Suspect

pytestmark = pytest.mark.slow

SEEDS = {"atomics": (5, 20), "stores": (4, 5), "launches": (14, 0)}
"""Of programs that tell; others do too."""


@cache
def drawn(shape: str, seed: int) -> Suspect:
    program = admitting_zero(generated(shape, seed))
    return program, [(at, machine_set(program, at)) for at in small_sizes(shape, program)[:1]]


def counted(shape: str, seed: int, change: Change | None = None) -> list[tuple[int, int]]:
    """How many violations the prover finds, of the changed program, and how many the machine."""
    program, expected = drawn(shape, seed)
    findings = analyse(changed(program, change) if change else program)
    assert not findings.undecided
    return [(len(prover_set(findings, at)), len(theirs)) for at, theirs in expected]


@pytest.mark.parametrize("name", [*PROVERS, *PROGRAMS])
def test_a_careless_reading_is_told_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = PROVERS[name][0] if name in PROVERS else PROGRAMS[name][0]
    before = [counted(shape, seed) for seed in SEEDS[shape]]
    assert all(mine == theirs for found in before for mine, theirs in found)
    if name in PROVERS:
        PROVERS[name][1](monkeypatch)
        after = [counted(shape, seed) for seed in SEEDS[shape]]
    else:
        after = [counted(shape, seed, PROGRAMS[name][1]) for seed in SEEDS[shape]]
    assert after != before
