"""Bounds for all sizes, at each size, and as the program runs: the same answer.

The oracle is `machine.naive`, which knows no solver.
"""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from bounds_procs import procedure

from exogpu import Procedure, interpreter
from exogpu.analysis import bounds
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.interpreter import elementwise
from exogpu.ir.nodes import Proc
from exogpu.machine import literal
from tests.machine.leaving import NEAR, leaves
from tests.machine.shapes import sources
from tests.machine.shapes.windows import windows

pytestmark = pytest.mark.slow

SIZES = range(1, 5)
INDICES = range(-3, 4)
Sizes = dict[str, int]


@pytest.mark.parametrize("seed", range(16))
def test_unmutated_windows_are_in_bounds_and_safe(seed: int) -> None:
    # Else mutations would not be what the generator's violations come from.
    made = sources.procedure(windows(Random(seed), mutations=(0,)).windows)
    assert made.ir is not None
    assert bounds.violations(made.ir) == ()
    for policy in Policy:
        found = literal.run(made.amir(policy), {"K": 3}, collect=True)
        # Where the windows of copies lie in memory is left to chance.
        assert {violation.kind for violation in found} <= {HazardKind.ALIGN, HazardKind.UNINIT}


def rank(sizes: Sizes) -> tuple[int, ...]:
    """What smallest means: sum of magnitudes, then the index argument's, then the values."""
    index = abs(sizes.get("j", 0))
    return (sizes["K"] + index, index, *sizes.values())


@pytest.mark.parametrize(
    "first",
    [pytest.param(n, marks=[pytest.mark.long] if n >= 32 else []) for n in range(0, 64, 16)],
)
def test_check_and_check_at_and_run_agree(first: int) -> None:
    judged = [agreed(procedure(Random(seed))) for seed in range(first, first + 16)]
    assert {"proved", "refuted"} <= set(judged)


def agreed(proc: Proc) -> str:
    """The verdict, which must be that of every size; `error` for an ill-formed procedure."""
    made = Procedure(proc.name, proc, ())
    verdict = made.check()
    if verdict.word == "error":
        return verdict.word
    assert verdict.word in ("proved", "refuted")
    claimed = sorted((dict(hazard.sizes) for hazard in verdict.hazards), key=rank)[:1]
    near = [sizes for sizes in claimed if max(map(abs, sizes.values())) <= NEAR]
    names = made.size_names
    grid = [dict(zip(names, at, strict=False)) for at in product(SIZES, INDICES)]
    failing: list[Sizes] = []
    for sizes in (*grid[:: 1 if "j" in names else len(INDICES)], *near):
        fails = leaves(elementwise.run, proc, sizes)
        assert leaves(interpreter.run, proc, sizes) == fails, sizes
        assert made.check_at(**sizes).word == ("refuted" if fails else "proved"), sizes
        if fails:
            failing.append(sizes)
    if failing or near:
        assert min(failing, key=rank) == near[0]
    return verdict.word
