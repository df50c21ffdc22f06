"""Hazards are replayed in a part of the program: it has their violations, and no others; and the
analysis of an edited program judges repairs as runs of the machine do."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from exogpu.amir.nodes import Program
from exogpu.explain.hazard_text import first_of_each_pair, hazards_of
from exogpu.machine import fast
from exogpu.machine.literal_state import OutsideError
from exogpu.machine.observer import Violation
from exogpu.pipeline.refutation import for_all_sizes
from exogpu.symbolic.search.analysis import analyse
from exogpu.symbolic.search.refute import pair_of, pairs_at_fault, part_at_fault
from tests.symbolic.agreement import generated, small_sizes

pytestmark = pytest.mark.slow

SHAPES = ["chains", "fences", "proxies", "ring", "multicast", "groups", "tasked", "flags", "roles"]
CASES = [(shape, seed) for shape in SHAPES for seed in range(8)]


def found(program, sizes) -> set[Violation]:
    return set(fast.run(program, sizes, keep=fast.Keep.PAIRS, locate=False).violations)


@pytest.mark.parametrize(("shape", "seed"), CASES)
def test_the_part_has_the_violations_of_the_whole(shape: str, seed: int) -> None:
    program = generated(shape, seed)
    findings = analyse(program)
    if findings.undecided:
        pytest.skip("not all pairs are known")
    part = part_at_fault(program, findings.violations)
    for sizes in small_sizes(shape, program):
        assert found(part, sizes) == found(program, sizes)


@pytest.mark.parametrize(("shape", "seed"), CASES)
def test_what_the_analysis_takes_for_a_repair_the_machine_does_too(shape: str, seed: int) -> None:
    """What mends a pair at all sizes mends it at each, and brings no pair that was not known."""
    program = generated(shape, seed)
    judge, known = for_all_sizes(program), pairs_at_fault(analyse(program).violations)
    if judge is None:
        pytest.skip("not all pairs are known")
    asked: list[tuple[Violation, Program]] = []

    class Heard:
        def mends(self, violation: Violation, key: Hashable, changed: Program) -> bool | None:
            answer = judge.mends(violation, key, changed)
            if answer:
                asked.append((violation, changed))
            return answer

    *_, sizes = small_sizes(shape, program)
    hazards_of(first_of_each_pair(found(program, sizes)), sizes, program, Heard())
    for violation, changed in asked:
        try:
            left = set(map(pair_of, found(changed, sizes)))
        except OutsideError:
            continue  # which is found by running the barriers alone
        assert left <= known - {pair_of(violation)}
