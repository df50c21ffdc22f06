"""Scalar statements as C++ text: what `exogpu.ir.scalars` computes, in the types that it says.

C++ has other rules, so nothing is left to them: conversions are written, integers that may
overflow go through functions of the prelude, and so do min and max.  The compiler must not
contract products and sums: see FLAGS of the toolchain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from exogpu.codegen.control_text import C_TYPE
from exogpu.ir import scalars
from exogpu.ir.nodes import Access, Apply, Assign, Read, Reduce
from exogpu.ir.scalar_functions import FUNCTIONS
from exogpu.ir.types import EIGHTS, DataType
from exogpu.ir.walk import data_parts, reads

Place: TypeAlias = Callable[[Access], str]
"""C++ text of an element of a variable, as an lvalue."""

HALVES: Final = EIGHTS | {DataType.F16, DataType.BF16}
"""Stored as their bits: the CPU's statements copy them, those of kernels compute with them."""

_SUM, _PRODUCT, _UNARY, _ATOM = range(4)

_SIGNED: Final = frozenset({DataType.I32, DataType.I64})

_WRAPPING: Final[Mapping[scalars.Function, str]] = {
    "+": "wrapping_add",
    "-": "wrapping_sub",
    "*": "wrapping_mul",
    "/": "wrapping_div",
}
"""C++ gives an overflow of signed integers no meaning."""

_OPERATOR: Final[Mapping[scalars.Function, int]] = {
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
}
"""The strength by which operators bind."""

_FROM: Final = {dtype: f"from_{dtype.value}" for dtype in HALVES}
_TO: Final = {dtype: f"to_{dtype.value}" for dtype in HALVES}
"""From their bits, and to them."""

_BINDS: Final = {"call": _ATOM, "unary": _UNARY, "product": _PRODUCT}


def halves(stmt: Assign | Reduce, of: scalars.TypeOf) -> Iterator[Access]:
    """The floats of 8 or 16 bits that a statement would compute with."""
    operands = (stmt.target, *reads(stmt.value))
    copies = isinstance(stmt, Assign) and isinstance(stmt.value, Read)
    if any(isinstance(part, Apply) and _is_of_halves(part) for part in data_parts(stmt.value)):
        yield stmt.target
    if not (copies and len({of(access.name) for access in operands}) == 1):
        yield from (access for access in operands if of(access.name) in HALVES)


def _is_of_halves(part: Apply) -> bool:
    return FUNCTIONS[part.function].gives in HALVES


def statement(stmt: Assign | Reduce, of: scalars.TypeOf, place: Place) -> str:
    """`x = e;` or `x += e;`."""
    dtype, target = of(stmt.target.name), place(stmt.target)
    if isinstance(stmt, Assign):
        return (
            f"{target} = "
            f"{_stored(scalars.assigned_scalar(stmt.value, dtype, of), dtype, of, place)};"
        )
    term = scalars.added_scalar(stmt.value, dtype, of)
    if term.dtype not in _SIGNED and dtype not in HALVES:
        return f"{target} += {_text(term, of, place)};"
    mine: scalars.Scalar = scalars.Element(stmt.target, scalars.COMPUTES[dtype])
    if term.dtype is not mine.dtype:
        mine = scalars.Convert(mine, term.dtype)
    made = scalars.Operation("+", (mine, term), term.dtype)
    return f"{target} = {_stored(made, dtype, of, place)};"


def half_statement(
    stmt: Assign | Reduce, of: scalars.TypeOf, place: Place, word: str, half: str, *, paired: bool
) -> str:
    """The same where the target is one of the two numbers of a register.

    `paired`: the other one is written right after the first, and neither is read between.
    """
    dtype = of(stmt.target.name)
    if isinstance(stmt, Assign):
        value = scalars.assigned_scalar(stmt.value, dtype, of)
    else:
        term = scalars.added_scalar(stmt.value, dtype, of)
        value = scalars.Operation("+", (scalars.Element(stmt.target, term.dtype), term), term.dtype)
    if paired and value.dtype is DataType.F32:
        return f"pair_{dtype.value}({word}, {half}, {_text(value, of, place)});"
    return f"put_half({word}, {half}, {_stored(value, dtype, of, place)});"


def pair_statement(
    stmt: Assign, of: scalars.TypeOf, first: Place, second: Place, pointer: str
) -> str:
    """The statement of two neighbours as one store, which begins at a pointer."""
    dtype = of(stmt.target.name)
    value = scalars.assigned_scalar(stmt.value, dtype, of)
    if dtype in (DataType.F16, DataType.BF16) and value.dtype is DataType.F32:
        low, high = (_text(value, of, place) for place in (first, second))
        return f"store_pair({pointer}, packed_{dtype.value}({low}, {high}));"
    low, high = (_stored(value, dtype, of, place) for place in (first, second))
    return f"store_pair({pointer}, {low}, {high});"


def _stored(value: scalars.Scalar, dtype: DataType, of: scalars.TypeOf, place: Place) -> str:
    """The value in the type of the variable."""
    if isinstance(value, scalars.Constant):
        return constant(value.value, dtype)
    if isinstance(value, scalars.Element) and of(value.access.name) is dtype:
        return place(value.access)
    if value.dtype is dtype:
        return _text(value, of, place)
    if dtype in HALVES:
        return f"{_TO[dtype]}({_text(value, of, place)})"
    return f"({C_TYPE[dtype]}){_text(value, of, place, _UNARY)}"


def _text(scalar: scalars.Scalar, of: scalars.TypeOf, place: Place, needed: int = _SUM) -> str:
    """The value, whose C++ type is that of `scalar.dtype`; in parentheses if it binds weaker than
    `needed`."""

    def text(term: scalars.Scalar, strength: int = _SUM) -> str:
        return _text(term, of, place, strength)

    match scalar:
        case scalars.Constant():
            own = _UNARY if math.copysign(1, scalar.value) < 0 else _ATOM
            return _wrap(constant(scalar.value, scalar.dtype), own, needed)
        case scalars.Element():
            element = place(scalar.access)
            if of(scalar.access.name) is scalar.dtype:
                return element
            if (stored := of(scalar.access.name)) in HALVES:
                return f"{_FROM[stored]}({element})"
            return _wrap(f"({C_TYPE[scalar.dtype]}){element}", _UNARY, needed)
        case scalars.Convert(term=scalars.Element() as element) if (
            of(element.access.name) not in HALVES
        ):
            return _wrap(f"({C_TYPE[scalar.dtype]}){place(element.access)}", _UNARY, needed)
        case scalars.Convert(term=term) if term.dtype in HALVES and (
            not isinstance(term, scalars.Element)
        ):
            number = f"{_FROM[term.dtype]}({text(term)})"
            if scalar.dtype is DataType.F32:
                return number
            return _wrap(f"({C_TYPE[scalar.dtype]}){number}", _UNARY, needed)
        case scalars.Convert():
            return _wrap(f"({C_TYPE[scalar.dtype]}){text(scalar.term, _UNARY)}", _UNARY, needed)
        case scalars.Operation():
            return _operation(scalar, text, needed)
        case _:
            assert_never(scalar)


def _operation(scalar: scalars.Operation, text: Callable[..., str], needed: int) -> str:
    function, arguments = scalar.function, scalar.arguments
    match function:
        case "+" | "-" | "*" | "/" if scalar.dtype in _SIGNED and _may_overflow(scalar):
            return f"{_WRAPPING[function]}({', '.join(map(text, arguments))})"
        case "+" | "-" | "*" | "/":
            own = _OPERATOR[function]
            left, right = text(arguments[0], own), text(arguments[1], own + 1)
            return _wrap(f"{left} {function} {right}", own, needed)
        case "negate" if scalar.dtype in _SIGNED:
            return f"wrapping_sub({constant(0, scalar.dtype)}, {text(arguments[0])})"
        case "negate":
            return _wrap(f"-{text(arguments[0], _ATOM)}", _UNARY, needed)
        case _:
            return _call(scalar, text, needed)


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument's text, and the same where an operator stands next to it."""

    loose: str
    tight: str

    def __str__(self) -> str:
        return self.loose


def _call(scalar: scalars.Operation, text: Callable[..., str], needed: int) -> str:
    """A function of the table."""
    row = FUNCTIONS[scalar.function]
    first = scalar.arguments[0].dtype
    cuda = row.cuda if isinstance(row.cuda, str) else row.cuda[first is DataType.F64]
    arguments = [_Argument(text(a), text(a, _ATOM)) for a in scalar.arguments]
    constants = {"zero": constant(0, first), "one": constant(1, first)}
    made = cuda.format(*arguments, **constants, T=C_TYPE[scalar.dtype])
    return _wrap(made, _BINDS[row.binds], needed)


def _may_overflow(scalar: scalars.Operation) -> bool:
    """A quotient leaves its type only where -1 divides, which a constant tells."""
    if scalar.function != "/":
        return True
    divisor = scalar.arguments[1]
    return not isinstance(divisor, scalars.Constant) or divisor.value in (0, -1)


def constant(value: float | int, dtype: DataType) -> str:
    """C++ text of a constant, whose type is that of `dtype`."""
    match dtype:
        case DataType.F32:
            return _float(value, "f")
        case DataType.F64:
            return _float(value, "")
        case DataType.I32 | DataType.I8 | DataType.UI8 | DataType.UI16:
            return "(-2147483647 - 1)" if value == -(1 << 31) else str(value)
        case DataType.UI32:
            return f"{value}u"
        case DataType.I64:
            return "(-9223372036854775807LL - 1)" if value == -(1 << 63) else f"{value}LL"
        case DataType.UI64:
            return f"{value}ULL"
        case DataType.F16 | DataType.BF16 | DataType.F8E4M3 | DataType.F8E5M2:
            return hex(scalars.half_bits(value, dtype))
        case _:
            assert_never(dtype)


def _float(value: float, suffix: str) -> str:
    """The shortest digits that the type reads back; infinities and NaN as quotients."""
    import numpy as np  # few kernels have such constants, and it takes long to load

    rounded = np.float32(value) if suffix else np.float64(value)
    if np.isnan(rounded):
        return f"(0.0{suffix} / 0.0{suffix})"
    if np.isinf(rounded):
        return f"({'-' if rounded < 0 else ''}1.0{suffix} / 0.0{suffix})"
    return f"{rounded!s}{suffix}"


def _wrap(text: str, strength: int, needed: int) -> str:
    return text if strength >= needed else f"({text})"
