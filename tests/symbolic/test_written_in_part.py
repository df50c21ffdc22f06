"""What an instruction leaves as it was, for all sizes: as the machine has it at some."""

from __future__ import annotations

import pytest

from exogpu.diagnostics.verdict import Policy
from tests.machine.case_files import expectations, load

CASES = load("written_in_part")
HAZARDS = {
    (name, policy): hazards
    for stem, name, policy, _, hazards in expectations()
    if stem == "written_in_part"
}


@pytest.mark.parametrize(("name", "policy"), list(HAZARDS))
def test_as_at_sizes(name: str, policy: Policy) -> None:
    found = CASES[name].check(policy=policy)
    assert found.word == ("refuted" if HAZARDS[name, policy] else "proved")
