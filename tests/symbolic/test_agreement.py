"""Generated programs: the prover's violations are those of the literal machine, as sets of
(kind, variable, element, check, iteration, record), at every size from 0 on.

`campaigns/agreement.py` compares thousands more.
"""

from __future__ import annotations

import pytest

from tests.symbolic.agreement import SHAPES, admitting_zero, check, generated, small_sizes

SEEDS = {
    "chains": 50,
    "fences": 20,
    "proxies": 12,
    "straight_line": 30,
    "ring": 12,
    "multicast": 12,
    "waits": 16,
    "groups": 12,
    "nested": 12,
    "threads": 6,
    "tasked": 20,
    "tiles": 6,
}
"""By shape, how many programs: a few tenths of a second each for rings, less for others."""

CASES = [(shape, seed) for shape, count in SEEDS.items() for seed in range(500, 500 + count)]


def test_every_shape_is_compared() -> None:
    assert set(SEEDS) == set(SHAPES)


@pytest.mark.parametrize(("shape", "seed"), CASES)
def test_same_violations(shape: str, seed: int) -> None:
    program = admitting_zero(generated(shape, seed))
    check(program, small_sizes(shape, program))
