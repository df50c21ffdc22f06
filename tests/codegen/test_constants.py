"""Constants: the sequential meaning and the emitted text have the same numbers, rounded once."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exogpu.interpreter import values
from exogpu.ir.scalars import fits_type, half_bits, rounded
from exogpu.ir.types import DataType
from tests.texts import made

BITS = {"f8e4m3": np.uint8, "f8e5m2": np.uint8, "f16": np.uint16, "bf16": np.uint16}
WIDE = {"f32": np.float32, "f64": np.float64}


def numbers(dtype: str, bits: np.ndarray) -> np.ndarray:
    """What bits stand for."""
    with np.errstate(invalid="ignore"):
        if dtype == "f16":
            return bits.view(np.float16).astype(float)
        if dtype == "bf16":
            return (bits.astype(np.uint32) << 16).view(np.float32).astype(float)
    return values.from_bits(bits, dtype).astype(float)


CONSTANTS = [
    ("f16", "1.000488281250001", 1 + 2.0**-10),  # a tie only once it is f32
    ("f16", "-1.000488281250001", -1 - 2.0**-10),
    ("f16", "1.00048828125", 1.0),
    ("f16", "6.0e-8", 2.0**-24),
    ("f16", "8.940696716308595e-08", 2.0**-23),  # above 1.5 * 2^-24, a tie in f32
    ("f8e4m3", "1.0625000001", 1.125),
    ("f8e4m3", "-1.0625000001", -1.125),
    ("f8e5m2", "1.125000000001", 1.25),
    ("bf16", "1.00390625000001", 1 + 2.0**-7),
    ("bf16", "-1.00390625", -1.0),
    ("f32", "9007199791611905", 2.0**53 + 2.0**30),  # of an integer, which f64 has not
    ("f32", "-9007199791611905", -(2.0**53) - 2.0**30),
    ("f32", "1.0e-45", 2.0**-149),
    ("f64", "9007199254740993", 2.0**53),
    ("f64", "0.1", 0.1),
    ("f32", "-0.0", -0.0),
    ("f16", "0", 0.0),
]


def program(dtype: str, value: str):
    return made(
        f"""
@proc
def constant(y: {dtype}[1] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[0] = {value}
"""
    )


def run(procedure, dtype: str) -> float:
    narrow = dtype.startswith(("f8", "bf"))
    y = np.full(1, 7, np.float32 if narrow else dtype.replace("f", "float"))
    procedure.run(y=y)
    return float(y[0])


def written(source: str, dtype: str) -> float:
    """The number that the text assigns."""
    (text,) = re.findall(r"y\[0\] = (.*);", source)
    if dtype in WIDE:
        return float(WIDE[dtype](text.rstrip("f")))
    return float(numbers(dtype, np.array([int(text, 16)], BITS[dtype]))[0])


@pytest.mark.parametrize(("dtype", "value", "expected"), CONSTANTS)
def test_both_round_once(dtype: str, value: str, expected: float) -> None:
    procedure = program(dtype, value)
    emitted, _ = procedure.emit(unchecked=True)
    assert run(procedure, dtype).hex() == expected.hex()
    assert written(emitted.source, dtype).hex() == expected.hex()


def test_in_an_expression_a_constant_is_that_of_what_it_meets() -> None:
    """x is f32: so is the integer, which rounds up, and would round down by way of f64."""
    procedure = made(
        """
@proc
def product(x: f32[1] @ CudaGmemLinear, y: f32[1] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[0] = x[0] * 9007199791611905
"""
    )
    y = np.zeros(1, np.float32)
    procedure.run(x=np.ones(1, np.float32), y=y)
    emitted, _ = procedure.emit(unchecked=True)
    (text,) = re.findall(r"x\[0\] \* (.*)f;", emitted.source)
    assert np.float32(text) == y[0] == np.float32(2.0**53 + 2.0**30)


VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-600, 600),
    st.floats(-1e-4, 1e-4),
    st.integers(-(2**70), 2**70),
)


@given(VALUES, st.sampled_from([DataType(name) for name in (*BITS, *WIDE)]))
@example(65519.99999999999, DataType.F16)
@example(65520.0, DataType.F16)
@example(-464.0, DataType.F8E4M3)
@example(2**1024 - 2**970 - 1, DataType.F64)
@example(2.0**-25, DataType.F16)
def test_no_number_of_the_type_is_nearer(value: float | int, dtype: DataType) -> None:
    found = rounded(value, dtype)
    if not fits_type(value, dtype):
        assert found == value
        return
    apart = abs(Fraction(found) - Fraction(value))
    below, above, even = neighbours(float(found), dtype.value)
    for other in (below, above):
        if np.isfinite(other):
            further = abs(Fraction(other) - Fraction(value))
            assert apart < further or (apart == further and even)
    if dtype.value in BITS:
        bits = np.array([half_bits(value, dtype)], BITS[dtype.value])
        assert numbers(dtype.value, bits)[0] == found


def neighbours(value: float, dtype: str) -> tuple[float, float, bool]:
    """The numbers of the type beside one, and whether its last bit is 0."""
    if dtype in WIDE:
        own = WIDE[dtype](value)
        assert float(own) == value
        with np.errstate(over="ignore", under="ignore"):
            ends = [np.nextafter(own, WIDE[dtype](end)) for end in (-np.inf, np.inf)]
        below, above = map(float, ends)
        return below, above, own.view(f"u{own.itemsize}") % 2 == 0
    known = every_number(dtype)
    (at,) = np.flatnonzero((known == value) & (np.signbit(known) == np.signbit(value)))
    near = known[np.isfinite(known) & (known != value)]
    below, above = near[near < value], near[near > value]
    return max(below, default=-np.inf), min(above, default=np.inf), at % 2 == 0


@cache
def every_number(dtype: str) -> np.ndarray:
    return numbers(dtype, np.arange(1 << 8 * np.dtype(BITS[dtype]).itemsize).astype(BITS[dtype]))


def test_numbers_of_the_type_stay_what_they_are() -> None:
    for name, kind in BITS.items():
        for value in numbers(name, np.arange(256).astype(kind)):
            if np.isfinite(value):
                assert rounded(float(value), DataType(name)) == value
