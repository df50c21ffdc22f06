"""Random sequences of steps whose results could not be read: each goes through now, or is refused.

What was wrong: parameters of a procedure that are spelt alike, windows under constant
conditions, constants that a type does not have, and variables of another number of dimensions.
"""

from __future__ import annotations

import pytest

from campaigns.schedules import SIZES, any_program
from exogpu import proc, schedule
from exogpu.diagnostics.errors import ExoGpuError
from tests.schedule.sequences import differences, sequence


@pytest.mark.parametrize(
    "seed", [4816, 5192, 5405, 11306, 16396, 12642, 11000, 13605, 11912], ids=str
)
def test_a_sequence_of_the_campaign(seed):
    found = sequence(seed, any_program)
    assert found is not None and found.first.ir is not None
    assert not differences(found.first.ir, found.last, SIZES, seed)


@proc
def narrowed(n: size, x: ui8[n] @ DRAM):
    for i in seq(0, n):
        t: ui8 @ DRAM
        t = 2
        x[i] = 1 - t


def test_a_constant_that_a_type_does_not_have_is_refused():
    with pytest.raises(ExoGpuError, match=r"inline_assign: -1 does not fit ui8 \(T246\)"):
        schedule.inline_assign(narrowed, "t = 2")


@proc
def summed(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        y[i] = x[i] + 1


@pytest.mark.parametrize("text", ["x + 1", "x[i, i] + 1"])
def test_a_variable_of_other_dimensions_is_refused(text):
    with pytest.raises(ExoGpuError, match="x has 1 dimensions"):
        schedule.rewrite_expr(summed, "y[_] = _", "x[i] + 1", text)


@proc
def guarded(n: size, x: f32[n + 4] @ DRAM, y: f32[n + 4] @ DRAM):
    for i in seq(0, 3):
        if i < 2:
            v = x[i : n + i]
            y[i] = v[0]


def test_windows_under_constant_conditions_are_told_apart():
    unrolled = schedule.unroll_loop(guarded, "for i in _: _")
    assert not unrolled.refusals
    assert "v_1 = x[1:n + 1]" in schedule.text(unrolled)
