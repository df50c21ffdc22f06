"""The meaning of scalar arithmetic: the type that every operation of a data expression has.

An operation is computed in the wider type of its operands, where floats of 8 and 16 bits count as
f32, and integers below 32 bits as i32; ui64 is wider than i64.  A constant takes the type of what
it meets: of the other operand, of the function's other arguments, at last of the variable that is
assigned.  An assignment converts last.  So a data expression becomes a tree in which every
conversion is written; the sequential meaning and the emitted code both follow that tree.

Integers wrap around, and `/` truncates.  Constants alone that are integers are computed here,
without a limit, before the result has to fit.  `exogpu.ir.scalar_functions` has the functions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import copysign, frexp, isfinite, ldexp
from typing import Final, TypeAlias, assert_never

from exogpu.diagnostics.errors import NOWHERE, Span
from exogpu.ir import float8
from exogpu.ir import nodes as ir
from exogpu.ir.scalar_functions import (
    FUNCTIONS,
    JOINED,
    OF_FLOATS,
    OF_INTEGERS,
    UNSIGNED,
    Operand,
)
from exogpu.ir.types import EIGHTS, FLOATS, DataType, Sym
from exogpu.ir.walk import data_parts

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
    DataType.UI32: DataType.UI32,
    DataType.UI64: DataType.UI64,
}
"""The type in which a variable's value is computed."""

WIDTH: Final = (
    *(DataType.I32, DataType.UI32, DataType.I64, DataType.UI64),
    *(DataType.F32, DataType.F64),
)
"""The types that operations have, the narrowest first."""

INTEGERS: Final[Mapping[DataType, tuple[int, int]]] = {
    DataType.I8: (-(1 << 7), (1 << 7) - 1),
    DataType.UI8: (0, (1 << 8) - 1),
    DataType.UI16: (0, (1 << 16) - 1),
    DataType.UI32: (0, (1 << 32) - 1),
    DataType.I32: (-(1 << 31), (1 << 31) - 1),
    DataType.I64: (-(1 << 63), (1 << 63) - 1),
    DataType.UI64: (0, (1 << 64) - 1),
}
"""Least and greatest value."""

Function: TypeAlias = str
"""`+`, `-`, `*`, `/`, `negate`, or a name of `exogpu.ir.scalar_functions`."""

DIVISIONS: Final = ("/", "//", "%")
"""Functions that integers do not have of 0."""

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
    """An element of a variable, in the type that it is computed in; below `bits`, as stored."""

    access: ir.Access
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Operation:
    """The arguments of `+`, `-`, `*`, `/` and `negate` have the type of the result; those of a
    function the types that its row says."""

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
    type, and so has what is converted to it."""
    if isinstance(value, ir.Const) and target in FLOATS:
        return Constant(rounded(value.value, target), COMPUTES[target], value.span)
    typed = _typed(value, COMPUTES[target], of)
    if isinstance(typed, Convert) and typed.term.dtype is target:
        typed = typed.term
    if isinstance(typed, Operation) and typed.function == target.value and target in FLOATS:
        return typed.arguments[0]  # the assignment rounds alike
    return typed


def is_of_type(value: Scalar, dtype: DataType, of: TypeOf) -> bool:
    """Tests whether a value is one of a variable of the type, so that nothing is rounded."""
    if isinstance(value, Element):
        return of(value.access.name) is dtype
    return not isinstance(value, Constant) and value.dtype is dtype


def added_scalar(value: ir.DExpr, target: DataType, of: TypeOf) -> Scalar:
    """Returns the term that `x += value` adds, in the type of the sum, which is then converted to
    that of x."""
    mine = COMPUTES[target]
    term = _typed(value, mine, of)
    return converted(term, max(mine, term.dtype, key=WIDTH.index))


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
        case ir.Apply(function="bits"):
            return COMPUTES[UNSIGNED[_stored_type(expr.arguments[0], of)]]
        case ir.Apply():
            row = FUNCTIONS[expr.function]
            if row.gives != "same":
                return COMPUTES[row.gives]
            pairs = zip(row.takes, expr.arguments, strict=True)
            return _widest(tuple(term for operand, term in pairs if operand in JOINED), of)
        case _:
            assert_never(expr)


def _stored_type(expr: ir.DExpr, of: TypeOf) -> DataType:
    """The type whose bits an expression has: of an element that of its variable, of a conversion
    its own, else that in which it is computed."""
    match expr:
        case ir.Read():
            return of(expr.access.name)
        case ir.Apply() if isinstance(given := FUNCTIONS[expr.function].gives, DataType):
            return given
        case _:
            return _own(expr, of) or DataType.F32


def _widest(terms: tuple[ir.DExpr, ...], of: TypeOf) -> DataType | None:
    found = [own for term in terms if (own := _own(term, of)) is not None]
    return max(found, key=WIDTH.index, default=None)


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
        case ir.Apply() if _is_own_conversion(expr, of):
            return _typed(expr.arguments[0], own, of)
        case ir.Apply():
            made = _operation_of(expr, own, of)
            return converted(made, COMPUTES[made.dtype])
        case _:
            assert_never(expr)


def _operation_of(expr: ir.Apply, own: DataType, of: TypeOf) -> Scalar:
    """A function of operands in the types that its row says; `own` is that of the result."""
    row = FUNCTIONS[expr.function]
    pairs = list(zip(row.takes, expr.arguments, strict=True))
    compared = _widest(tuple(t for operand, t in pairs if operand == "compared"), of)
    joined = own
    if row.gives != "same":
        given = tuple(term for operand, term in pairs if operand in JOINED)
        joined = _widest(given, of) or _of_constants(given)

    def argument(operand: Operand, term: ir.DExpr) -> Scalar:
        match operand:
            case "compared":
                wanted = compared or own
            case "f32":
                wanted = DataType.F32
            case "literal":
                wanted = DataType.I32
            case "count" | "any":
                wanted = _own(term, of) or _of_constants((term,))
            case "stored":
                return _as_stored(term, of)
            case _:
                wanted = joined
        return converted(_typed(term, wanted, of), wanted)

    terms = tuple(argument(operand, term) for operand, term in pairs)
    function = expr.function
    if function == "bits":
        function = f"bits.{terms[0].dtype.value}"
        gives = UNSIGNED.get(terms[0].dtype, DataType.UI32)
        return Operation(function, terms, gives, expr.span)
    if row.gives == "same":
        return _fold_constant(Operation(function, terms, own, expr.span))
    if row.takes == ("any",):
        return _conversion(row.gives, terms[0], expr.span)
    return Operation(function, terms, row.gives, expr.span)


def _conversion(to: DataType, term: Scalar, span: Span) -> Scalar:
    """A number of any type in another: an integer becomes a float of 8 or 16 bits by way of f32."""
    if to in INTEGERS:
        name = to.value if term.dtype in INTEGERS else f"{to.value}.rz"
        return Operation(name, (term,), to, span)
    if term.dtype in INTEGERS and COMPUTES[to] is not to:
        term = Operation(DataType.F32.value, (term,), DataType.F32, span)
    return term if term.dtype is to else Operation(to.value, (term,), to, span)


def _is_own_conversion(expr: ir.DExpr, of: TypeOf) -> bool:
    """Tests whether it converts a value to the type that the value is stored in."""
    if not isinstance(expr, ir.Apply) or FUNCTIONS[expr.function].takes != ("any",):
        return False
    (term,) = expr.arguments
    constant = _own(term, of) is None
    return not constant and FUNCTIONS[expr.function].gives is _stored_type(term, of)


def _as_stored(expr: ir.DExpr, of: TypeOf) -> Scalar:
    """The value as a variable of its own type has it."""
    dtype = _stored_type(expr, of)
    if isinstance(expr, ir.Apply) and _is_own_conversion(expr, of):
        return _as_stored(expr.arguments[0], of)
    if isinstance(expr, ir.Read):
        return Element(expr.access, dtype)
    typed = _typed(expr, COMPUTES[dtype], of)
    return typed.term if isinstance(typed, Convert) and typed.term.dtype is dtype else typed


def _of_constants(terms: tuple[ir.DExpr, ...]) -> DataType:
    """The type of constants that meet no other: that of a plain number of CUDA C++."""
    parts = (part for term in terms for part in data_parts(term))
    values = [part.value for part in parts if isinstance(part, ir.Const)]
    if any(isinstance(value, float) for value in values):
        return DataType.F64
    small = all(fits_type(value, DataType.I32) for value in values)
    return DataType.I32 if small else DataType.I64


def unfit_operand(made: Operation) -> Operand | None:
    """The kind of an operand that an operation is not given."""
    if made.function not in FUNCTIONS:
        return None
    for operand, term in zip(FUNCTIONS[made.function].takes, made.arguments, strict=True):
        floating = term.dtype in FLOATS
        if (operand in OF_INTEGERS and floating) or (operand in OF_FLOATS and not floating):
            return operand
        if operand == "word" and term.dtype not in (DataType.I32, DataType.UI32):
            return operand
    return None


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
        case name, _ if (row := FUNCTIONS.get(name)) is not None and row.fold is not None:
            return None if name in ("//", "%") and values[1] == 0 else row.fold(*values)
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
