"""Values: numpy's types for the language's, and rounding at stores.

`exogpu.ir.scalars` says in which type what is computed.  Variables of `bf16`, `f8e4m3` and `f8e5m2`
are float32 arrays that hold such values only.
"""

from __future__ import annotations

from functools import cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from exogpu.ir.float8 import FORMATS, number
from exogpu.ir.types import EIGHTS, DataType

# Arrays of 8-bit floats: float32 arrays that hold such values only, and their bits.

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
    rounded = np.where(np.isnan(exact), np.float32(np.nan), rounded)
    return np.asarray(np.copysign(rounded, exact), np.float32)


@cache
def _numbers(dtype: DataType) -> Floats:
    found = np.array([number(bits, dtype) for bits in range(256)], np.float32)
    if dtype is DataType.F8E5M2:  # which has three NaN of each sign
        bits = np.arange(256, dtype=np.uint32)
        nan = (bits & 0x80) << 24 | np.uint32(0x7FC00000) | (bits & 3) << 19
        return np.where(np.isnan(found), nan, found.view(np.uint32)).view(np.float32)
    return found


def from_bits(bits: npt.NDArray[np.generic], dtype: DataType | str) -> Floats:
    """The numbers that bytes stand for."""
    return np.asarray(_numbers(DataType(dtype))[bits.view(np.uint8)])


def to_bits(values: Floats, dtype: DataType | str) -> npt.NDArray[np.uint8]:
    """The bytes of numbers of the type."""
    form, known = FORMATS[DataType(dtype)], _numbers(DataType(dtype))[:128]
    finite = int(np.argmax(known == np.float32(form.greatest))) + 1
    found = np.asarray(np.searchsorted(known[:finite], np.abs(values)), np.uint8)
    nan = np.full(np.shape(values), form.nan, np.uint32)
    if DataType(dtype) is DataType.F8E5M2:
        most = np.asarray(values, np.float32).view(np.uint32) >> 19 & 3
        nan = np.where(most, finite | most, nan)
    found = np.where(np.isinf(values), finite, np.where(np.isnan(values), nan, found))
    return np.asarray(found | np.where(np.signbit(values), 0x80, 0), np.uint8)


Array: TypeAlias = npt.NDArray[np.generic]

NUMPY: Final[dict[DataType, np.dtype[np.generic]]] = {
    DataType.F8E4M3: np.dtype(np.float32),
    DataType.F8E5M2: np.dtype(np.float32),
    DataType.F16: np.dtype(np.float16),
    DataType.BF16: np.dtype(np.float32),
    DataType.F32: np.dtype(np.float32),
    DataType.F64: np.dtype(np.float64),
    DataType.I8: np.dtype(np.int8),
    DataType.I32: np.dtype(np.int32),
    DataType.I64: np.dtype(np.int64),
    DataType.UI8: np.dtype(np.uint8),
    DataType.UI16: np.dtype(np.uint16),
    DataType.UI32: np.dtype(np.uint32),
    DataType.UI64: np.dtype(np.uint64),
}

NARROW_FLOATS: Final = EIGHTS | {DataType.F16, DataType.BF16}
"""Types in which a sum depends heavily on its order, as every step rounds to so few bits."""


def poison(dtype: DataType) -> float | int:
    """Returns the contents of fresh memory: NaN, or for integers a pattern unlikely to pass for
    data."""
    kind = NUMPY[dtype]
    if np.issubdtype(kind, np.floating):
        return float("nan")
    pattern = np.frombuffer(b"\xa5" * kind.itemsize, kind)
    return int(pattern[0])


def round_bf16(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Float32 values rounded to the nearest bf16, ties to even; a new array.  A NaN of bf16 keeps
    its bits."""
    exact = np.array(values, dtype=np.float32)
    bits = exact.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1)))) & np.uint32(0xFFFF0000)
    canonical = np.where(bits & np.uint32(0xFFFF), np.uint32(0x7FFF0000), bits)
    return np.where(np.isnan(exact), canonical, rounded).view(np.float32)


def stored(value: Array, dtype: DataType) -> Array:
    """The value as a variable of the type holds it."""
    if dtype is DataType.BF16:
        return round_bf16(value.astype(np.float32, copy=False))
    if dtype in EIGHTS:
        return round_f8(value, dtype)
    return value.astype(NUMPY[dtype], copy=False)


def round_tf32(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """f32 with 13 bits less, rounded to nearest, ties to even; NaN is NaN.

    >>> float(round_tf32(1 + 2.0**-10 + 2.0**-11))
    1.001953125
    """
    values = np.asarray(values, np.float32)
    bits = values.view(np.uint32).astype(np.uint64)
    near = (bits + 0xFFF + (bits >> 13 & 1) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), near)
