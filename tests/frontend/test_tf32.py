"""`tf32`: the nearest number with 10 bits after the point, and the tensor maps that round so."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu.api import proc


@proc
def rounded(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        y[i] = tf32(x[i])


def nearest(values):
    x = np.array(values, np.float32)
    y = np.zeros_like(x)
    rounded.run(x=x, y=y)
    return y


def neighbours(x):
    """The numbers of tf32 at and below, and above, in magnitude."""
    bits = int(np.float32(abs(x)).view(np.uint32)) & 0xFFFFE000
    ends = np.array([bits, bits + 0x2000], np.uint32).view(np.float32)
    return [(Fraction(float(e)), int(e.view(np.uint32)) >> 13 & 1) for e in ends]


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False, min_value=-(2.0**127), max_value=2.0**127))
def test_the_nearest_of_both_neighbours_and_the_even_one_of_ties(x):
    (found,) = nearest([x])
    exact = Fraction(abs(x))
    best, _ = min(neighbours(x), key=lambda n: (abs(n[0] - exact), n[1]))
    assert Fraction(float(abs(found))) == best
    assert np.signbit(found) == np.signbit(np.float32(x))
    assert nearest([found])[0] == found


@pytest.mark.parametrize(
    ("bits", "wanted"),
    [
        (0x3F800FFF, 0x3F800000),
        (0x3F801000, 0x3F800000),  # a tie, to the even one below
        (0x3F801001, 0x3F802000),
        (0x3F803000, 0x3F804000),  # a tie, to the even one above
        (0x00001000, 0x00000000),  # of subnormal numbers
        (0x00001001, 0x00002000),
        (0x80000001, 0x80000000),
        (0x7F7FFFFF, 0x7F800000),  # the greatest becomes infinity
        (0xFF800000, 0xFF800000),
    ],
    ids=hex,
)
def test_bits(bits, wanted):
    x = np.array([bits], np.uint32).view(np.float32)
    assert nearest(x).view(np.uint32)[0] == wanted


def test_nan_stays():
    assert np.isnan(nearest(np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32))).all()


@proc
def of_narrow(n: size, x: bf16[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[i] = tf32(x[i]) + tf32(1.00048828125)


def test_of_a_narrower_float_and_of_a_constant():
    """The first is one as it is, the second is a tie."""
    x, y = np.array([1.0078125, -3.0], np.float32), np.zeros(2, np.float32)
    of_narrow.run(x=x, y=y)
    assert y.tolist() == (x + np.float32(1)).tolist()


@proc
def of_others(n: size, a: i32[n] @ DRAM, x: f64[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        y[i] = tf32(x[i])
        y[i] = tf32(a[i])
        a[i] = tf32(y[i])


@pytest.mark.parametrize("number", range(3))
def test_of_f32_alone_and_not_into_integers(number):
    assert [d.code for d in of_others.diagnostics][number] == "T210"


def test_a_map_of_other_numbers_is_refused():
    @proc
    def copy(M: size, N: size, x: bf16[M, N] @ CudaGmemLinear):
        assert N % 16 == 0
        x_map = x[:, :] @ Sm90_tensorMap_tf32(0, 16, 32)

    (found,) = copy.diagnostics
    assert found.code == "T244"
    assert "rounds f32 to tf32, and the elements are bf16" in found.message
