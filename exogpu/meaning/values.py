"""Values: numpy's types for the language's, the functions of them, rounding at stores.

`exogpu.ir.scalars` says in which type what is computed.  `bf16` variables are float32 arrays that
hold bf16 values only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from exogpu.ir.scalars import Function
from exogpu.ir.types import DataType

Array: TypeAlias = npt.NDArray[np.generic]

NUMPY: Final[dict[DataType, np.dtype[np.generic]]] = {
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

NARROW_FLOATS: Final = frozenset({DataType.F16, DataType.BF16})
"""Types in which a sum depends heavily on its order, as every step rounds to 16 bits."""


def poison(dtype: DataType) -> float | int:
    """What fresh memory holds: NaN, or for integers a pattern unlikely to pass for data."""
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
        case "exp":
            return np.exp(arguments[0])
        case "sqrt":
            return np.sqrt(arguments[0])
        case "min":
            return _minimum(arguments[0], arguments[1])
        case "max":
            return _maximum(arguments[0], arguments[1])
        case "relu":
            return _maximum(arguments[0], np.zeros((), arguments[0].dtype))
        case "select":
            a, b, x, y = arguments
            return np.where(np.less(a, b), x, y)
        case _:
            assert_never(function)


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
