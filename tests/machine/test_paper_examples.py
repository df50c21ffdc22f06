"""The paper's three erroneous examples and their repairs, under both policies (decision
`policies`)."""

from __future__ import annotations

import pytest

from examples import erroneous_synchronisation as paper
from exogpu.api import Procedure
from exogpu.diagnostics.verdict import Policy

PTX, PAPER = Policy.PTX, Policy.PAPER

Pair = tuple[str, str, str, str]


def pairs(procedure: Procedure, policy: Policy) -> set[Pair]:
    """Kind, variable, and the instruction or statement of each side."""
    found = set()
    for h in procedure.check_at(policy=policy).hazards:
        assert h.first is not None
        first, second = h.first.text.split("(")[0], h.second.text.split("(")[0]
        found.add((h.kind.value, h.variable, first, second))
    return found


EXAMPLE_1 = ("WAR", "B", "some_in_order_op", "example_tma_multicast")
EXAMPLE_2 = ("RAW", "D", "example_wgmma", "some_in_order_op_2")
EXAMPLE_3 = ("WAR", "B", "example_wgmma", "example_tma_multicast")
# ptx: the cluster sync orders the ordinary reads in time only, and the copy goes through the
# async proxy.
EXAMPLE_3_ALSO = ("WAR", "B", "some_in_order_op_1", "example_tma_multicast")


@pytest.mark.parametrize(
    ("name", "policy", "expected"),
    [
        ("example_1", PAPER, {EXAMPLE_1}),
        ("example_1", PTX, {EXAMPLE_1}),
        ("example_2", PAPER, {EXAMPLE_2}),
        ("example_2", PTX, {EXAMPLE_2}),
        ("example_3", PAPER, {EXAMPLE_3}),
        ("example_3", PTX, {EXAMPLE_3, EXAMPLE_3_ALSO}),
        # Repairs whose post side is cuda_generic_and_async are safe under both.
        ("example_1_repaired", PAPER, set()),
        ("example_1_repaired", PTX, set()),
        ("example_2_repaired", PAPER, set()),
        ("example_2_repaired", PTX, set()),
        ("example_3_repaired", PAPER, set()),
        ("example_3_repaired", PTX, set()),
        # The natural repairs order in time only: enough for the paper, not for ptx.
        ("example_1_repaired_paper", PAPER, set()),
        ("example_1_repaired_paper", PTX, {EXAMPLE_1}),
        ("example_3_repaired_paper", PAPER, set()),
        ("example_3_repaired_paper", PTX, {EXAMPLE_3_ALSO}),
    ],
)
def test_verdict(name: str, policy: Policy, expected: set[Pair]) -> None:
    assert pairs(vars(paper)[name], policy) == expected
