"""Values: numpy's types for the language's, the functions of them, rounding at stores.

`exogpu.ir.scalars` says in which type what is computed.  Variables of `bf16`, `f8e4m3` and `f8e5m2`
are float32 arrays that hold such values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from exogpu.ir.float8 import FORMATS, number
from exogpu.ir.scalars import Function
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
    """Float32 values rounded to the nearest bf16, ties to even; a new array."""
    exact = np.array(values, dtype=np.float32)
    bits = exact.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1)))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(exact), exact, rounded.view(np.float32))


def stored(value: Array, dtype: DataType) -> Array:
    """The value as a variable of the type holds it."""
    if dtype is DataType.BF16:
        return round_bf16(value.astype(np.float32, copy=False))
    if dtype in EIGHTS:
        return round_f8(value, dtype)
    return value.astype(NUMPY[dtype], copy=False)


def apply(function: Function, arguments: Sequence[Array]) -> Array:
    """A function of operands that have its type already.

    Raises ZeroDivisionError for an integer division by zero; integer division truncates.  Of
    numbers that are equal, min and max tell -0 from 0; both pass NaN on.
    """
    match function:
        case "+" | "-" | "*":
            return _BINARY[function](arguments[0], arguments[1])
        case "/":
            return _divide(arguments[0], arguments[1])
        case "negate":
            return np.negative(arguments[0])
        case "exp" | "exp2" | "log" | "sqrt" | "rsqrt" | "tanh" | "sigmoid" | "erf":
            return _UNARY[function](arguments[0])
        case "fma":
            return fused(*arguments)
        case "min":
            return _minimum(arguments[0], arguments[1])
        case "max":
            return _maximum(arguments[0], arguments[1])
        case "relu":
            return _maximum(arguments[0], np.zeros((), arguments[0].dtype))
        case "select":
            a, b, x, y = arguments
            return np.where(np.less(a, b), x, y)
        case "ordinal":
            return _ordinal(arguments[0])
        case "tf32":
            return round_tf32(arguments[0])
        case _:
            assert_never(function)


NAN_ORDINAL: Final = 0x7FC00000
"""The value of `ordinal` for every NaN: more than for infinity."""


def _ordinal(values: Array) -> Array:
    """The bits of f32, of negative numbers turned around: integers in the order of the numbers."""
    bits = np.asarray(values, np.float32).view(np.int32)
    placed = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)
    return np.where(np.isnan(values), np.int32(NAN_ORDINAL), placed)


def round_tf32(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """f32 with 13 bits less, rounded to nearest, ties to even; NaN is NaN.

    >>> float(round_tf32(1 + 2.0**-10 + 2.0**-11))
    1.001953125
    """
    values = np.asarray(values, np.float32)
    bits = values.view(np.uint32).astype(np.uint64)
    near = (bits + 0xFFF + (bits >> 13 & 1) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), near)


def _erf(values: Array) -> Array:
    flat = [math.erf(x) for x in np.asarray(values, np.float64).reshape(-1)]
    return np.array(flat, np.float64).reshape(np.shape(values)).astype(values.dtype)


_UNARY: Final[dict[str, Callable[[Array], Array]]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.divide(np.ones((), x.dtype), np.sqrt(x)),
    "tanh": np.tanh,
    "sigmoid": lambda x: np.divide(np.ones((), x.dtype), 1 + np.exp(np.negative(x))),
    "erf": _erf,
}


def fused(left: Array, right: Array, term: Array) -> Array:
    """`left * right + term`, rounded once.

    In f64 a product of two f32 is exact; its sum is rounded to odd, so that the second rounding
    is that of the exact sum.
    """
    if left.dtype != np.float32:
        return _fused_exactly(left, right, term)
    product = left.astype(np.float64) * right.astype(np.float64)
    wide = term.astype(np.float64)
    total = np.asarray(product + wide)
    back = total - product
    lost = (product - (total - back)) + (wide - back)
    inexact = np.isfinite(total) & (lost != 0) & (total.view(np.int64) & 1 == 0)
    towards = np.where(lost > 0, np.inf, -np.inf)
    odd = np.where(inexact, np.nextafter(total, towards), total)
    return odd.astype(np.float32)


def _fused_exactly(left: Array, right: Array, term: Array) -> Array:
    """The same of f64, element by element."""
    found = [
        _fused_numbers(float(a), float(b), float(c)) for a, b, c in np.broadcast(left, right, term)
    ]
    shape = np.broadcast_shapes(left.shape, right.shape, term.shape)
    return np.array(found, np.float64).reshape(shape)


def _fused_numbers(a: float, b: float, c: float) -> float:
    """Computes infinities, NaN and sums of 0 in floating point, which gives the value and its
    sign."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c  # even where a * b would overflow
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else a * b + c
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_BINARY: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
}


def _is_float(value: Array) -> bool:
    return np.issubdtype(value.dtype, np.floating)


def _maximum(left: Array, right: Array) -> Array:
    """The greater; where both are zeros their sum, which is -0 only if both are."""
    found = np.asarray(np.maximum(left, right))
    if not _is_float(left):
        return found
    zeros = (left == 0) & (right == 0)
    return np.where(zeros, np.add(left, right), found) if np.any(zeros) else found


def _minimum(left: Array, right: Array) -> Array:
    """The lesser, which of two zeros is the one with a sign."""
    if not _is_float(left):
        return np.asarray(np.minimum(left, right))
    return np.negative(_maximum(np.negative(left), np.negative(right)))


def _divide(left: Array, right: Array) -> Array:
    if _is_float(left):
        return np.divide(left, right)
    if not np.all(right):
        raise ZeroDivisionError
    return np.floor_divide(left - np.fmod(left, right), right)
