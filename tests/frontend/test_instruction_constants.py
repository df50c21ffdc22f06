"""Instructions made with compile-time parameters: one for each value, and type of value."""

from __future__ import annotations

import pytest

from exogpu.frontend.instructions import instr
from exogpu.hw.operands import CUDA_REGISTER
from exogpu.hw.units import cuda_thread


@instr(unit=cuda_thread, dst=CUDA_REGISTER, template="set({dst}, {c});")
def put(dst: f32 @ CudaRmem, *, c):
    dst = 1


@pytest.mark.parametrize("other", [True, 1.0, 2, (1,), (True,)])
def test_equal_values_of_two_types_are_two_instructions(other):
    for first, second in ((1, other), (other, 1)):
        one, two = put.instantiate({"c": first}), put.instantiate({"c": second})
        assert one is not two and one is put.instantiate({"c": first})


def test_zeros_of_two_signs_are_two_instructions():
    assert put.instantiate({"c": 0.0}) is not put.instantiate({"c": -0.0})
