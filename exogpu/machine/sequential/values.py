"""Values: numpy's types for the language's, the precision of arithmetic, rounding at stores.

Operands narrower than 32 bits are widened, as in C and in the tensor cores: f16 and bf16 compute
in float32, 8- and 16-bit integers in int32.  Then the wider operand decides, and a constant takes
the precision of what it meets.  A store rounds to the variable's type.  `bf16` variables are
float32 arrays that hold bf16 values only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, Literal, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

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

FLOATS: Final = frozenset({DataType.F16, DataType.BF16, DataType.F32, DataType.F64})
NARROW_FLOATS: Final = frozenset({DataType.F16, DataType.BF16})
"""Types in which a sum depends heavily on its order, as every step rounds to 16 bits."""


class Precision(IntEnum):
    """What an expression computes in; of two operands the greater one."""

    INTEGER_CONSTANT = 0
    I32 = 1
    I64 = 2
    UI64 = 3
    FLOAT_CONSTANT = 4
    F32 = 5
    F64 = 6


_COMPUTES: Final[dict[DataType, Precision]] = {
    DataType.F16: Precision.F32,
    DataType.BF16: Precision.F32,
    DataType.F32: Precision.F32,
    DataType.F64: Precision.F64,
    DataType.I8: Precision.I32,
    DataType.I32: Precision.I32,
    DataType.I64: Precision.I64,
    DataType.UI8: Precision.I32,
    DataType.UI16: Precision.I32,
    DataType.UI64: Precision.UI64,
}

_NUMPY_OF: Final[dict[Precision, np.dtype[np.generic]]] = {
    Precision.I32: np.dtype(np.int32),
    Precision.I64: np.dtype(np.int64),
    Precision.UI64: np.dtype(np.uint64),
    Precision.F32: np.dtype(np.float32),
    Precision.F64: np.dtype(np.float64),
}


def precision(dtype: DataType) -> Precision:
    """What a variable of the type computes in."""
    return _COMPUTES[dtype]


def precision_of_constant(value: float | int) -> Precision:
    """A constant's own precision, which gives way to any variable's of its kind."""
    return Precision.FLOAT_CONSTANT if isinstance(value, float) else Precision.INTEGER_CONSTANT


def resolve(own: Precision, context: Precision) -> Precision:
    """What to compute in; constants alone follow `context`, where their value goes."""
    if own is Precision.INTEGER_CONSTANT:
        return context
    if own is Precision.FLOAT_CONSTANT:
        return max(context, Precision.F32)
    return own


def numpy_of(resolved: Precision) -> np.dtype[np.generic]:
    """The numpy type of a precision that is not a constant's."""
    return _NUMPY_OF[resolved]


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


Function: TypeAlias = Literal[
    "+", "-", "*", "/", "negate", "min", "max", "exp", "sqrt", "relu", "less", "where"
]


def apply(function: Function, arguments: Sequence[Array]) -> Array:
    """A function of operands that have its precision already (`where` takes a truth first).

    Raises ZeroDivisionError for an integer division by zero; integer division truncates.
    """
    match function:
        case "+" | "-" | "*" | "min" | "max" | "less":
            return _BINARY[function](arguments[0], arguments[1])
        case "/":
            return _divide(arguments[0], arguments[1])
        case "negate":
            return np.negative(arguments[0])
        case "exp":
            return np.exp(arguments[0])
        case "sqrt":
            return np.sqrt(arguments[0])
        case "relu":
            zero = np.zeros((), arguments[0].dtype)
            return np.maximum(arguments[0], zero)
        case "where":
            return np.where(*arguments)
        case _:
            assert_never(function)


_BINARY: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "less": np.less,
}


def _divide(left: Array, right: Array) -> Array:
    if np.issubdtype(left.dtype, np.floating):
        return np.divide(left, right)
    if not np.all(right):
        raise ZeroDivisionError
    return np.floor_divide(left - np.fmod(left, right), right)
