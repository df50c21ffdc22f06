"""The functions of data, on numpy arrays: what `exogpu.ir.scalar_functions` names by `v`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from exogpu.interpreter.values import (
    NUMPY,
    Array,
    from_bits,
    round_tf32,
    stored,
    to_bits,
)
from exogpu.ir.scalar_functions import FUNCTIONS
from exogpu.ir.scalars import INTEGERS, Function
from exogpu.ir.types import EIGHTS, DataType

Integers: TypeAlias = npt.NDArray[np.integer[Any]]

__all__ = ["apply", "round_tf32", "stored"]


def apply(function: Function, arguments: Sequence[Array]) -> Array:
    """A function of operands that have its type already.

    Raises ZeroDivisionError for an integer division by zero.  Of numbers that are equal, min and
    max tell -0 from 0; both pass NaN on.
    """
    match function:
        case "+" | "-" | "*":
            return _BINARY[function](arguments[0], arguments[1])
        case "/":
            return _divide(arguments[0], arguments[1])
        case "negate":
            return np.negative(arguments[0])
        case _:
            return np.asarray(FUNCTIONS[function].meaning(sys.modules[__name__], *arguments))


def nearest(function: Callable[[Array], Array], values: Array) -> Array:
    """A function of f32 computed in f64, and rounded."""
    return np.asarray(function(values.astype(np.float64)), values.dtype)


NAN_ORDINAL: Final = 0x7FC00000
"""The value of `ordinal` for every NaN: more than for infinity."""


def ordinal(values: Array) -> Array:
    """The bits of f32, of negative numbers turned around: integers in the order of the numbers."""
    bits = np.asarray(values, np.float32).view(np.int32)
    placed = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)
    return np.where(np.isnan(values), np.int32(NAN_ORDINAL), placed)


def erf(values: Array) -> Array:
    flat = [math.erf(x) for x in np.asarray(values, np.float64).reshape(-1)]
    return np.array(flat, np.float64).reshape(np.shape(values)).astype(values.dtype)


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


def maximum(left: Array, right: Array) -> Array:
    """The greater; where both are zeros their sum, which is -0 only if both are."""
    found = np.asarray(np.maximum(left, right))
    if not _is_float(left):
        return found
    zeros = (left == 0) & (right == 0)
    return np.where(zeros, np.add(left, right), found) if np.any(zeros) else found


def minimum(left: Array, right: Array) -> Array:
    """The lesser, which of two zeros is the one with a sign."""
    if not _is_float(left):
        return np.asarray(np.minimum(left, right))
    return np.negative(maximum(np.negative(left), np.negative(right)))


def _divide(left: Array, right: Array) -> Array:
    if _is_float(left):
        return np.divide(left, right)
    if not np.all(right):
        raise ZeroDivisionError
    return np.floor_divide(left - np.fmod(left, right), right)


# --- bits of integers ---------------------------------------------------------------------


def shift_left(values: Integers, counts: Integers) -> Integers:
    """Bits shifted out are lost, and by a count that is negative or beyond the width all are."""
    inside = _is_shift(counts, values)
    moved = np.left_shift(values, np.where(inside, counts, 0).astype(values.dtype))
    return np.where(inside, moved, np.zeros((), values.dtype))


def shift_right(values: Integers, counts: Integers) -> Integers:
    """The same to the right, where the sign comes in, and alone is left."""
    inside = _is_shift(counts, values)
    moved = np.right_shift(values, np.where(inside, counts, 0).astype(values.dtype))
    sign = np.where(np.less(values, 0), ~np.zeros((), values.dtype), np.zeros((), values.dtype))
    return np.where(inside, moved, sign)


def _is_shift(counts: Integers, values: Integers) -> npt.NDArray[np.bool_]:
    return np.greater_equal(counts, 0) & np.less(counts, 8 * values.dtype.itemsize)


def floor_divide(left: Integers, right: Integers) -> Integers:
    """The quotient rounded down.  Raises ZeroDivisionError."""
    if not np.all(right):
        raise ZeroDivisionError
    return np.asarray(np.floor_divide(left, right))


def remainder(left: Integers, right: Integers) -> Integers:
    """The rest of such a quotient, with the sign of the divisor.  Raises ZeroDivisionError."""
    if not np.all(right):
        raise ZeroDivisionError
    return np.asarray(np.remainder(left, right))


def _unsigned(values: Integers) -> npt.NDArray[np.uint64]:
    """The bits as a number."""
    width = np.dtype(f"u{values.dtype.itemsize}")
    return values.astype(width).astype(np.uint64)


def popcount(values: Integers) -> Integers:
    """The number of bits that are 1."""
    left, found = _unsigned(values), np.zeros(np.shape(values), np.int32)
    for _ in range(8 * values.dtype.itemsize):
        found = found + (left & np.uint64(1)).astype(np.int32)
        left = left >> np.uint64(1)
    return found


def leading_zeros(values: Integers) -> Integers:
    """The number of zeros before the first 1."""
    left, width = _unsigned(values), 8 * values.dtype.itemsize
    found = np.full(np.shape(values), width, np.int32)
    for _ in range(width):
        found = found - (left != 0).astype(np.int32)
        left = left >> np.uint64(1)
    return found


def upper_product(left: Integers, right: Integers) -> Integers:
    """The upper 32 bits of the product of two integers of 32."""
    wide = np.int64 if np.issubdtype(left.dtype, np.signedinteger) else np.uint64
    product = np.multiply(left.astype(wide), right.astype(wide))
    return np.right_shift(product, np.asarray(32, wide)).astype(left.dtype)


def permuted_bytes(low: Integers, high: Integers, selector: Integers) -> Integers:
    """PTX's prmt: each four bits of the selector name a byte of both, or with 8 added its sign."""
    both = _unsigned(low) | _unsigned(high) << np.uint64(32)
    chosen = _unsigned(selector)
    found = np.zeros(np.broadcast_shapes(both.shape, chosen.shape), np.uint64)
    for at in range(4):
        names = chosen >> np.uint64(4 * at) & np.uint64(15)
        byte = both >> (names & np.uint64(7)) * np.uint64(8) & np.uint64(255)
        sign = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
        found = found | np.where(names & np.uint64(8), sign, byte) << np.uint64(8 * at)
    return found.astype(low.dtype)


def three_operands(a: Integers, b: Integers, c: Integers, table: Integers) -> Integers:
    """PTX's lop3: bit 4 a + 2 b + c of the table, of the bits a, b, c."""
    found = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), a.dtype)
    for row in range(8):
        if int(table) >> row & 1:
            of_a, of_b, of_c = (x if row & bit else ~x for x, bit in ((a, 4), (b, 2), (c, 1)))
            found = found | of_a & of_b & of_c
    return found


# --- conversions --------------------------------------------------------------------------

_ROUNDED: Final[dict[str, Callable[[Array], Array]]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
}


def to_integer(values: Array, dtype: DataType, mode: str) -> Array:
    """The number rounded to an integer: the least or the greatest where the type has none, and 0
    for NaN."""
    least, greatest = INTEGERS[dtype]
    whole = np.asarray(_ROUNDED[mode](values.astype(np.float64)))
    small, large = np.less(whole, least), np.greater_equal(whole, float(greatest + 1))
    inside = np.where(small | large | np.isnan(whole), 0, whole).astype(NUMPY[dtype])
    found = np.where(small, NUMPY[dtype].type(least), inside)
    return np.where(large, NUMPY[dtype].type(greatest), found)


def bits_of(values: Array, dtype: DataType) -> Array:
    """The bits of floats as they are stored, as unsigned integers."""
    if dtype in EIGHTS:
        return to_bits(values.astype(np.float32), dtype)
    if dtype is DataType.BF16:
        return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return values.view(np.dtype(f"u{values.dtype.itemsize}"))


def with_bits(bits: Array, dtype: DataType) -> Array:
    """The floats that have the lower bits of integers."""
    if dtype in EIGHTS:
        return from_bits(bits.astype(np.uint8), dtype)
    if dtype is DataType.BF16:
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits.astype(np.dtype(f"u{dtype.bytes}")).view(NUMPY[dtype])
