"""The meaning of scalar arithmetic: the type that every operation of a data expression has.

An operation is computed in the wider type of its operands, where floats of 8 and 16 bits count as
f32, and integers below 32 bits as i32; ui64 is wider than i64.  A constant takes the type of what
it meets: of the other operand, of the function's other arguments, at last of the variable that is
assigned.  An assignment converts last.  So a data expression becomes a tree in which every
conversion is written; the sequential meaning and the emitted code both follow that tree.

Integers wrap around, and division truncates.  Constants alone that are integers are computed here,
without a limit, before the result has to fit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import copysign, frexp, isfinite, ldexp
from typing import Final, Literal, TypeAlias, assert_never

from exogpu.diagnostics.errors import NOWHERE, Span
from exogpu.ir import float8
from exogpu.ir import nodes as ir
from exogpu.ir.types import EIGHTS, FLOATS, DataType, Sym

COMPUTES: Final[Mapping[DataType, DataType]] = {
    DataType.F8E4M3: DataType.F32,
    DataType.F8E5M2: DataType.F32,
    DataType.F16: DataType.F32,
    DataType.BF16: DataType.F32,
    DataType.F32: DataType.F32,
    DataType.F64: DataType.F64,
    DataType.I8: DataType.I32,
    DataType.I32: DataType.I32,
    DataType.I64: DataType.I64,
    DataType.UI8: DataType.I32,
    DataType.UI16: DataType.I32,
    DataType.UI64: DataType.UI64,
}
"""The type in which a variable's value is computed."""

_WIDTH: Final = (DataType.I32, DataType.I64, DataType.UI64, DataType.F32, DataType.F64)
"""The types that operations have, the narrowest first."""

INTEGERS: Final[Mapping[DataType, tuple[int, int]]] = {
    DataType.I8: (-(1 << 7), (1 << 7) - 1),
    DataType.UI8: (0, (1 << 8) - 1),
    DataType.UI16: (0, (1 << 16) - 1),
    DataType.I32: (-(1 << 31), (1 << 31) - 1),
    DataType.I64: (-(1 << 63), (1 << 63) - 1),
    DataType.UI64: (0, (1 << 64) - 1),
}
"""Least and greatest value."""

Function: TypeAlias = Literal["+", "-", "*", "/", "negate"] | ir.DataFunction

OF_FLOATS: Final[tuple[ir.DataFunction, ...]] = (
    "exp",
    "exp2",
    "log",
    "sqrt",
    "rsqrt",
    "tanh",
    "sigmoid",
    "erf",
)
"""Functions of one floating-point number."""

ARITY: Final[Mapping[str, int]] = {
    "min": 2,
    "max": 2,
    "relu": 1,
    "select": 4,
    "fma": 3,
    "ordinal": 1,
    "tf32": 1,
    **dict.fromkeys(OF_FLOATS, 1),
}
"""The data functions, and how many arguments each takes."""
TypeOf: TypeAlias = Callable[[Sym], DataType]
"""The data type of a variable."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number in the type that it takes."""

    value: float | int
    dtype: DataType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a variable, in the type that it is computed in."""

    access: ir.Access
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Operation:
    """All arguments have the type of the result, but for the two that `select` compares, which
    have one type of their own, and for that of `ordinal` and `tf32`, which is an f32."""

    function: Function
    arguments: tuple[Scalar, ...]
    dtype: DataType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Convert:
    """A value in a wider type."""

    term: Scalar
    dtype: DataType


Scalar: TypeAlias = Constant | Element | Operation | Convert


def assigned_scalar(value: ir.DExpr, target: DataType, of: TypeOf) -> Scalar:
    """Returns the value of `x = value` before it is converted to the type of x; a constant has that
    type."""
    if isinstance(value, ir.Const) and target in FLOATS:
        return Constant(rounded(value.value, target), COMPUTES[target], value.span)
    return _typed(value, COMPUTES[target], of)


def added_scalar(value: ir.DExpr, target: DataType, of: TypeOf) -> Scalar:
    """Returns the term that `x += value` adds, in the type of the sum, which is then converted to
    that of x."""
    mine = COMPUTES[target]
    term = _typed(value, mine, of)
    return converted(term, max(mine, term.dtype, key=_WIDTH.index))


def _own(expr: ir.DExpr, of: TypeOf) -> DataType | None:
    """The wider type of what an expression is made of; None for constants alone."""
    match expr:
        case ir.Const():
            return None
        case ir.Read():
            return COMPUTES[of(expr.access.name)]
        case ir.BinOp():
            return _widest((expr.left, expr.right), of)
        case ir.Negate():
            return _own(expr.term, of)
        case ir.Apply(function="select"):
            return _widest(expr.arguments[2:], of)
        case ir.Apply(function="ordinal"):
            return DataType.I32
        case ir.Apply(function="tf32"):
            return DataType.F32
        case ir.Apply():
            return _widest(expr.arguments, of)
        case _:
            assert_never(expr)


def _widest(terms: tuple[ir.DExpr, ...], of: TypeOf) -> DataType | None:
    found = [own for term in terms if (own := _own(term, of)) is not None]
    return max(found, key=_WIDTH.index, default=None)


def _typed(expr: ir.DExpr, context: DataType, of: TypeOf) -> Scalar:
    """The expression in its own type; constants alone in that of the context."""
    own = _own(expr, of) or context

    def operands(terms: tuple[ir.DExpr, ...], dtype: DataType) -> tuple[Scalar, ...]:
        return tuple(converted(_typed(term, dtype, of), dtype) for term in terms)

    match expr:
        case ir.Const():
            return Constant(rounded(expr.value, own), own, expr.span)
        case ir.Read():
            return Element(expr.access, own)
        case ir.BinOp():
            return _fold_constant(
                Operation(expr.op, operands((expr.left, expr.right), own), own, expr.span)
            )
        case ir.Negate():
            return _fold_constant(Operation("negate", operands((expr.term,), own), own, expr.span))
        case ir.Apply(function="select"):
            compared = expr.arguments[:2]
            sides = operands(compared, _widest(compared, of) or own)
            terms = (*sides, *operands(expr.arguments[2:], own))
            return _fold_constant(Operation("select", terms, own, expr.span))
        case ir.Apply(function="ordinal" | "tf32"):
            terms = operands(expr.arguments, DataType.F32)
            return Operation(expr.function, terms, own, expr.span)
        case ir.Apply():
            terms = operands(expr.arguments, own)
            return _fold_constant(Operation(expr.function, terms, own, expr.span))
        case _:
            assert_never(expr)


def converted(term: Scalar, dtype: DataType) -> Scalar:
    """The value in a type that is as wide or wider."""
    return term if term.dtype is dtype else Convert(term, dtype)


# --- constants ----------------------------------------------------------------------------


def _fold_constant(made: Operation) -> Scalar:
    """An operation of integer constants is a constant."""
    if made.dtype in FLOATS:
        return made
    values = [a.value for a in made.arguments if isinstance(a, Constant)]
    if len(values) != len(made.arguments) or not all(isinstance(v, int) for v in values):
        return made
    found = _integer(made.function, [int(v) for v in values])
    return made if found is None else Constant(found, made.dtype, made.span)


def _integer(function: Function, values: list[int]) -> int | None:
    """The value of a function of integers; None where it has none."""
    match function, values:
        case "+", [a, b]:
            return a + b
        case "-", [a, b]:
            return a - b
        case "*", [a, b]:
            return a * b
        case "/", [a, b] if b != 0:
            return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case "negate", [a]:
            return -a
        case "min", [a, b]:
            return min(a, b)
        case "max", [a, b]:
            return max(a, b)
        case "relu", [a]:
            return max(a, 0)
        case "fma", [a, b, c]:
            return a * b + c
        case "select", [a, b, x, y]:
            return x if a < b else y
        case _:
            return None


def parts(scalar: Scalar) -> Iterator[Scalar]:
    """The value and all that it is made of."""
    yield scalar
    match scalar:
        case Constant() | Element():
            pass
        case Operation():
            for argument in scalar.arguments:
                yield from parts(argument)
        case Convert():
            yield from parts(scalar.term)
        case _:
            assert_never(scalar)


_FORMS: Final[Mapping[DataType, tuple[int, int, float]]] = {
    DataType.F8E4M3: (3, -6, 448.0),
    DataType.F8E5M2: (2, -14, 57344.0),
    DataType.F16: (10, -14, 65504.0),
    DataType.BF16: (7, -126, (2 - 2.0**-7) * 2.0**127),
    DataType.F32: (23, -126, (2 - 2.0**-23) * 2.0**127),
    DataType.F64: (52, -1022, (2 - 2.0**-52) * 2.0**1023),
}
"""Bits of the fraction, the exponent of the least normal number, and the greatest number."""


def rounded(value: float | int, dtype: DataType) -> float | int:
    """The number that a constant is in the type that it takes: the nearest one, ties to even, of
    its exact value.  What does not fit stays as it is.

    >>> from exogpu.ir.types import DataType
    >>> rounded(1.000488281250001, DataType.F16), rounded(2**24 + 1, DataType.F32)
    (1.0009765625, 16777216.0)
    """
    return _nearest(value, dtype) if dtype in FLOATS and fits_type(value, dtype) else value


def fits_type(value: float | int, dtype: DataType) -> bool:
    """Tests whether a type has the constant: an integer exactly; a fraction may be rounded, but is
    not lost in 0 or in infinity.

    >>> from exogpu.ir.scalars import fits_type
    >>> from exogpu.ir.types import DataType
    >>> fits_type(0.1, DataType.F32), fits_type(1e39, DataType.F32), fits_type(300, DataType.UI8)
    (True, False, False)
    """
    if dtype in INTEGERS:
        least, greatest = INTEGERS[dtype]
        return isinstance(value, int) and least <= value <= greatest
    if not isinstance(value, int) and not isfinite(value):
        return True
    try:
        found = abs(_nearest(value, dtype))
    except OverflowError:
        return False
    return (value == 0 or found > 0) and found <= _FORMS[dtype][2]


def _nearest(value: float | int, dtype: DataType) -> float:
    """The nearest number of as many bits, ties to even.  Raises OverflowError."""
    if not isinstance(value, int) and not isfinite(value):
        return value
    fraction, least, _ = _FORMS[dtype]
    exponent = value.bit_length() if isinstance(value, int) else frexp(value)[1]
    unit = max(exponent - 1, least) - fraction
    if isinstance(value, int):
        whole = round(Fraction(value, 1 << unit)) if unit > 0 else value << -unit
    else:
        whole = round(ldexp(value, -unit))
    return copysign(ldexp(whole, unit), value)


def half_bits(value: float | int, dtype: DataType) -> int:
    """The bits of a constant as a float of 8 or 16 bits, rounded to nearest, ties to even."""
    if dtype in EIGHTS:
        return float8.nearest(value, dtype)
    number = _nearest(value, dtype)
    form = "<e" if dtype is DataType.F16 else "<f"
    bits = int.from_bytes(struct.pack(form, number), "little")
    if dtype is DataType.F16:
        return bits
    return 0x7FFF if number != number else bits >> 16
