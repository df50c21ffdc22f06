"""Shared memory that all CTAs of a cluster access: machines, prover and certificates agree."""

from __future__ import annotations

from random import Random

import pytest

from exogpu.api import Procedure
from exogpu.diagnostics.verdict import Policy, Proof
from exogpu.machine import fast
from exogpu.symbolic.prove import prove
from tests.machine.cluster_procs import CLUSTER, CTA, NOTHING, SPLIT, WARP, at_random, make
from tests.symbolic.agreement import check as agrees


def hazards(procedure: Procedure, policy: Policy = Policy.PTX, **sizes: int) -> set[str]:
    """The kinds that the fast machine finds; the literal one and the prover find the same pairs,
    and what is safe is certified."""
    program = procedure.amir(policy)
    findings = agrees(program, [sizes])
    found = fast.run(program, sizes, collect=True).violations
    assert not findings.undecided
    assert isinstance(prove(findings), Proof) is not bool(found)
    return {v.kind.name for v in found}


NEXT, OWN, ALL_OF_FIRST = (1, 1), (1, 0), (0, 0)

CASES = [
    ([("write", *OWN, CLUSTER), ("read", *NEXT, CLUSTER)], set()),
    ([("write", *OWN, SPLIT), ("read", *NEXT, SPLIT)], set()),
    ([("write", *NEXT, CLUSTER), ("read", *OWN, CLUSTER)], set()),
    ([("write", *OWN, CLUSTER), ("read", *ALL_OF_FIRST, CLUSTER)], set()),
    # a barrier of the CTA, or of the warp, says nothing of another CTA's accesses
    ([("write", *OWN, CTA), ("read", *NEXT, CLUSTER)], {"RAW"}),
    ([("write", *NEXT, CTA), ("read", *OWN, CLUSTER)], {"RAW"}),
    ([("write", *NEXT, WARP), ("read", *NEXT, CLUSTER)], set()),
    ([("write", *NEXT, NOTHING), ("read", *NEXT, CLUSTER)], {"RAW"}),
    # overwritten while another CTA may still read
    ([("write", *OWN, CLUSTER), ("read", *NEXT, CTA), ("write", *OWN, CLUSTER)], {"WAR"}),
    ([("write", *OWN, CLUSTER), ("read", *NEXT, SPLIT), ("write", *OWN, CLUSTER)], set()),
    ([("write", *OWN, CTA), ("write", *NEXT, CLUSTER)], {"WAW"}),
    ([("write", *ALL_OF_FIRST, CLUSTER)], {"WAW"}),
    # no CTA ends, or gives its memory to another variable, before the last access by others
    ([("write", *OWN, CLUSTER), ("read", *NEXT, CTA)], {"FREE"}),
    ([("write", *NEXT, NOTHING)], {"FREE"}),
    # atomics, by all CTAs
    ([("write", *OWN, CLUSTER), ("add", *ALL_OF_FIRST, CLUSTER), ("read", *NEXT, CLUSTER)], set()),
    ([("write", *OWN, CTA), ("add", *NEXT, CLUSTER)], {"RAW"}),
    ([("write", *OWN, CLUSTER), ("add", *NEXT, CTA), ("read", *OWN, CLUSTER)], {"RAW"}),
]


@pytest.mark.parametrize(("steps", "wanted"), CASES, ids=lambda of: " ".join(map(str, of)))
def test_each_rule(steps: list, wanted: set[str]) -> None:
    for policy in Policy:
        assert hazards(make(steps, ctas=2), policy) == wanted


@pytest.mark.parametrize("then", [CTA, CLUSTER])
@pytest.mark.parametrize("between", [CTA, CLUSTER])
def test_from_task_to_task(between: int, then: int) -> None:
    """What resides is overwritten by the next task."""
    steps = [("write", *OWN, between), ("read", *NEXT, then)]
    wanted = ({"RAW"} if between == CTA else set()) | ({"WAR"} if then == CTA else set())
    verdict = make(steps, ctas=2, resides=True).check()
    assert {h.kind.name for h in verdict.hazards} == wanted
    assert verdict.word == ("refuted" if wanted else "proved")


@pytest.mark.slow
def test_generated_programs() -> None:
    """Sets of violations, of the literal machine, the fast one and the prover."""
    random, safe = Random(3), 0
    for _ in range(12):
        safe += not hazards(at_random(random))
    assert 2 <= safe <= 9
