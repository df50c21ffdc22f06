"""What counts as the same: NaN beside NaN, bf16 by its values, a tolerance where one is given."""

from __future__ import annotations

import numpy as np
import pytest

from exogpu.gpu_trial.run_data import decoded, difference, encoded
from exogpu.interpreter.values import stored
from exogpu.ir.types import DataType


def test_nan_agrees_with_nan_alone():
    nan, one = np.array([np.nan, 1], np.float32), np.array([1, 1], np.float32)
    assert difference(nan, nan, "f32", 0) == ""
    assert difference(nan, one, "f32", 0) and difference(one, nan, "f32", 0)


def test_a_tolerance_is_relative():
    found, wanted = np.array([100.1, 1e-9]), np.array([100.0, 0.0])
    assert "first (1,)" in difference(found, wanted, "f64", 0.01)
    assert difference(found[:1], wanted[:1], "f64", 0.01) == ""
    assert difference(found[:1], wanted[:1], "f64", 0) != ""


@pytest.mark.parametrize("dtype", list(DataType), ids=str)
def test_values_come_back_from_what_a_device_holds(dtype):
    values = stored(np.arange(7, dtype=np.int64), dtype)
    coded = encoded(values, dtype.value)
    assert coded.itemsize == dtype.bytes
    np.testing.assert_array_equal(decoded(coded, dtype.value), values)
    assert difference(coded, coded.copy(), dtype.value, 0) == ""
    other = encoded(stored(np.arange(1, 8), dtype), dtype.value)
    assert difference(coded, other, dtype.value, 0).startswith("7 of 7 elements")
