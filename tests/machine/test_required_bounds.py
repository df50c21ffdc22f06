"""What a program requires of bounds is what leaving a variable is: neither more nor less.

The oracle is `interpreter.elementwise`, which knows no condition and no solver.

Decision `requirements`.
"""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from bounds_procs import procedure

from exogpu import Procedure
from exogpu.diagnostics.hazards import HazardKind
from exogpu.interpreter import elementwise
from exogpu.ir.nodes import ControlParam
from exogpu.machine import fast, literal
from exogpu.machine.fast.requirements_at_sizes import surely_holds
from tests.machine.leaving import leaves

SIZES = range(1, 4)
INDICES = range(-2, 3)


@pytest.mark.parametrize("first", range(0, 96, 24))
def test_the_machines_find_what_leaves_its_variable(first: int) -> None:
    left, stayed = 0, 0
    for seed in range(first, first + 24):
        made = Procedure("p", procedure(Random(seed)), ())
        if made.diagnostics:
            continue
        names, program = made.size_names, made.amir()
        params = [p.name for p in made.ir.params if isinstance(p, ControlParam)]
        for at in product(SIZES, INDICES) if "j" in names else ((k,) for k in SIZES):
            sizes = dict(zip(names, at, strict=True))
            fails = leaves(elementwise.run, made.ir, sizes)
            found = literal.run(program, sizes, collect=True)
            assert any(v.kind is HazardKind.BOUNDS for v in found) == fails, (seed, sizes)
            assert fast.run(program, sizes, collect=True).violations == found
            known = surely_holds(program, dict(zip(params, at, strict=True)), {})
            assert known == (not fails)
            left, stayed = left + fails, stayed + known
    assert left and stayed
