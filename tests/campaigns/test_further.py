"""Values from memory, roles, named barriers and the memory of a cluster in the campaign: machines,
prover and hardware agree, and each careless reading of their rules is told apart."""

from __future__ import annotations

import pytest

from campaigns.agreement import outcome
from campaigns.reach import generate
from campaigns.shapes import FURTHER, GROUPS
from tests.campaigns.further import MUTANTS, killed

FEATURES = {
    *("phases that roles share", "they run on", "named barriers", "memory of a cluster"),
    *("it resides", "write of another CTA", "read of another CTA", "add of another CTA"),
}

QUICK = ("loads:5", "loads:6", "roles:3", "turns:1", "clusters:3")


def test_shares_are_of_a_hundred() -> None:
    assert {sum(shares.values()) for shares in GROUPS.values()} == {100}


def test_every_feature_is_in_some_programs() -> None:
    found = (generate.generated(shape, n) for shape in ("readers", "clusters") for n in range(15))
    assert not FEATURES - frozenset().union(*(program.features for program in found))


def agreeing(cases: list[str]) -> tuple[int, int]:
    """How many violate, and how many are proved."""
    tallies = []
    for case in cases:
        result = outcome(case)
        assert not result["wrong"], case
        tallies.append(result["tally"])
    return sum(t["violating"] for t in tallies), sum(t["proved"] for t in tallies)


def test_some_agree() -> None:
    violating, proved = agreeing([*QUICK])
    assert violating and proved


@pytest.mark.slow
@pytest.mark.parametrize("shape", FURTHER)
def test_machines_prover_and_hardware_agree(shape: str) -> None:
    violating, proved = agreeing([f"{shape}:{seed}" for seed in range(700, 705)])
    assert violating + proved


SEEDS = {
    "all_elements_are_equal": 18,
    "monotone_is_read_backwards": 18,
    "monotone_is_strict": 22,
    "injective_is_read_backwards": 32,
    "every_array_is_injective": 58,
    "every_array_is_monotone": 149,
    "two_loads_have_one_value": 7,
    "what_is_loaded_clears_all": 1,
    "arrivals_may_run_ahead_in_roles": 4,
    "phases_pass_unseen_in_roles": 4,
    "arrivals_may_run_ahead_in_turns": 3,
    "phases_pass_unseen_in_turns": 3,
    "a_fence_of_the_cluster_is_one_of_each_cta": 1,
    "a_fence_of_a_cta_is_one_of_the_cluster": 2,
    "nothing_asks_before_a_free": 10,
    "a ring is a phase deeper in roles": 4,
    "a ring is a phase deeper in turns": 3,
}
"""Of programs that tell, where it is not the first; others do too."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_careless_reading_is_told_apart(name: str) -> None:
    assert killed(name, SEEDS.get(name, 0))
