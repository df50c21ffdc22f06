"""Arrays of 8-bit floats: float32 arrays that hold such values only, and their bits."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from exogpu.ir.eights import FORMATS, number
from exogpu.ir.types import DataType

Floats: TypeAlias = npt.NDArray[np.float32]


def round_f8(values: npt.ArrayLike, dtype: DataType | str) -> Floats:
    """Values rounded to the nearest of "f8e4m3" or "f8e5m2", ties to even, or to the greatest; a
    new array.  An f64 is rounded to f32 first.

    >>> round_f8([1.06, 500.0], "f8e4m3").tolist()
    [1.0, 448.0]
    """
    form = FORMATS[DataType(dtype)]
    exact = np.array(values, dtype=np.float32)
    size = np.minimum(np.abs(exact), np.float32(form.greatest))
    exponent = np.maximum(np.frexp(size)[1] - 1, form.least) - form.fraction
    rounded = np.ldexp(np.rint(np.ldexp(size, -exponent)), exponent)
    return np.asarray(np.copysign(rounded, exact), np.float32)


@cache
def _numbers(dtype: DataType) -> Floats:
    return np.array([number(bits, dtype) for bits in range(256)], np.float32)


def from_bits(bits: npt.NDArray[np.generic], dtype: DataType | str) -> Floats:
    """The numbers that bytes stand for."""
    return _numbers(DataType(dtype))[bits.view(np.uint8)]


def to_bits(values: Floats, dtype: DataType | str) -> npt.NDArray[np.uint8]:
    """The bytes of numbers of the type."""
    form, known = FORMATS[DataType(dtype)], _numbers(DataType(dtype))[:128]
    finite = int(np.argmax(known == np.float32(form.greatest))) + 1
    found = np.searchsorted(known[:finite], np.abs(values)).astype(np.uint8)
    found[np.isinf(values)] = finite
    found[np.isnan(values)] = form.nan
    return np.asarray(found | np.where(np.signbit(values), 0x80, 0), np.uint8)
