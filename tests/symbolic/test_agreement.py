"""Generated programs: the prover's violations are those of the literal machine, as sets of
(kind, variable, element, check, iteration, record), at every size from 0 on."""

from __future__ import annotations

import pytest

from tests.symbolic.agreement import admitting_zero, check, generated

SEEDS = {
    "chains": 50,
    "straight_line": 30,
    "ring": 12,
    "groups": 12,
    "nested": 12,
    "threads": 6,
    "tasked": 20,
}
"""By shape, how many programs: a few tenths of a second each for rings, less for others."""

CASES = [(shape, seed) for shape, count in SEEDS.items() for seed in range(500, 500 + count)]


@pytest.mark.parametrize(("shape", "seed"), CASES)
def test_same_violations(shape: str, seed: int) -> None:
    program = admitting_zero(generated(shape, seed))
    # Without tasks, generated code after them uses variables that no task has allocated.
    least = 1 if shape == "tasked" else 0
    check(program, [{"K": k} for k in range(least, 7)] if program.params else [{}])
