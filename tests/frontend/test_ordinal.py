"""`ordinal`: an integer in the order of floating-point numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exogpu.api import proc
from exogpu.interpreter.functions import NAN_ORDINAL
from exogpu.ir.nodes import Const, same_number


@proc
def placed(n: size, x: f32[n] @ DRAM, y: i32[n] @ DRAM, z: f64[n] @ DRAM):
    for i in seq(0, n):
        y[i] = ordinal(x[i])
        z[i] = select(ordinal(x[i]) + 1, ordinal(0.0), 1.0, 2.0)


def ordinals(values):
    x = np.array(values, np.float32)
    y = np.zeros(len(x), np.int32)
    placed.run(x=x, y=y, z=np.zeros(len(x)))
    return y.tolist()


@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False))
def test_less_is_less(a, b):
    left, right = ordinals([a, b])
    if a < b:
        assert left < right
    if left < right:
        assert a < b or (a == b == 0 and np.signbit(a))


def test_the_ends():
    found = ordinals([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan])
    assert found == sorted(found) and found[2:4] == [-1, 0]
    assert found[-1] == ordinals([-np.nan])[0] == NAN_ORDINAL > found[-2]
    nan = np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert ordinals(nan) == [NAN_ORDINAL] * 2


@proc
def of_others(n: size, a: i32[n] @ DRAM, x: f64[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        a[i] = ordinal(x[i])
        a[i] = ordinal(a[i])
        y[i] = ordinal(y[i])


@pytest.mark.parametrize("number", range(3))
def test_of_f32_alone_and_into_integers(number):
    assert [d.code for d in of_others.diagnostics][number] == "T210"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (0, 0.0, True),
        (0.0, -0.0, False),
        (0, -0.0, False),
        (-1, -1.0, True),
        (float("nan"), float("nan"), True),
        (float("nan"), 0.0, False),
        (10**400, 10**400, True),  # more than a float holds
        (10**400, float("inf"), False),
    ],
    ids=lambda one: f"{one:.3}" if isinstance(one, float) else str(one)[:9],
)
def test_constants_are_one_where_no_function_tells_them_apart(one, other, same):
    assert same_number(one, other) is same_number(other, one) is same
    assert (Const(one) == Const(other)) is same
    assert not same or hash(Const(one)) == hash(Const(other))
