"""The meaning of TTGIR's operations on integers and conditions that all threads have alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from exogpu.importing import polynomial_values
from exogpu.importing.mlir_text import Operation

Scalar: TypeAlias = polynomial_values.Value | polynomial_values.Condition
_NARROW: Final = re.compile(r"\bi(8|16)\b")
"""Integers that are not assumed not to wrap."""
_INTEGER: Final = re.compile(r"(i1|i8|i16|i32|i64|index)$")


def is_scalar(operation: Operation) -> bool:
    """Returns whether the operation has one result, an integer or a truth value."""
    result = operation.types.rpartition("->")[2].rpartition(" to ")[2].strip()
    constant = operation.name == "arith.constant" and operation.text in ("true", "false")
    compared = operation.name == "arith.cmpf" and "tensor" not in operation.types
    return len(operation.results) == 1 and (bool(_INTEGER.match(result)) or constant or compared)


def is_truth(operation: Operation) -> bool:
    """Returns whether the result is a truth value."""
    result = operation.types.rpartition("->")[2].rpartition(" to ")[2].strip()
    return result == "i1" or operation.name in ("arith.cmpi", "arith.cmpf")


def evaluated(operation: Operation, given: tuple[Scalar | None, ...]) -> Scalar | None:
    """The result for these operands; None where it is not known exactly."""
    if _NARROW.search(operation.types):
        return None
    match operation.name:
        case "arith.constant":
            return _constant(operation.text)
        case "tt.get_program_id" | "tt.get_num_programs":
            kind = "program" if operation.name.endswith("id") else "programs"
            axis = "xyz".find(operation.text.strip()[:1])
            return (
                polynomial_values.atom_value(
                    polynomial_values.Variable(f"{kind}{axis}", natural=True)
                )
                if axis >= 0
                else None
            )
        case "arith.cmpi":
            return _compared(operation.text, given)
        case "arith.select":
            return _selected(given)
        case "arith.extui" | "arith.extsi":
            return _extended(given[0], -1 if operation.name.endswith("extsi") else 1)
        case "arith.trunci":
            return _truncated(operation, given[0])
        case _:
            return _binary(operation.name, given)


def _constant(text: str) -> Scalar | None:
    if text in ("true", "false"):
        return polynomial_values.TRUE if text == "true" else polynomial_values.FALSE
    return polynomial_values.integer_value(int(text)) if re.fullmatch(r"-?\d+", text) else None


def _compared(text: str, given: tuple[Scalar | None, ...]) -> polynomial_values.Condition | None:
    first, second = given
    if isinstance(first, polynomial_values.Value) and isinstance(second, polynomial_values.Value):
        return polynomial_values.relation(text.partition(",")[0].strip(), first, second)
    return None


def _selected(given: tuple[Scalar | None, ...]) -> Scalar | None:
    condition, first, second = given
    if isinstance(condition, polynomial_values.Value) or condition is None:
        return None
    if isinstance(first, polynomial_values.Value) and isinstance(second, polynomial_values.Value):
        return polynomial_values.choice(condition, first, second)
    return None


def _extended(given: Scalar | None, one: int) -> Scalar | None:
    if given is None or isinstance(given, polynomial_values.Value):
        return given if one < 0 or given is None or polynomial_values.is_natural(given) else None
    return polynomial_values.choice(
        given, polynomial_values.integer_value(one), polynomial_values.Value()
    )


def _truncated(operation: Operation, given: Scalar | None) -> Scalar | None:
    """Integers do not wrap, by assumption; of a truth value the last bit is left."""
    if operation.types.endswith("i1") and isinstance(given, polynomial_values.Value):
        return polynomial_values.compare("==", polynomial_values.remainder(given, 2) - 1)
    return given


def _binary(name: str, given: tuple[Scalar | None, ...]) -> Scalar | None:
    if len(given) == 1 and name == "arith.index_cast":
        return given[0]
    if len(given) != 2:
        return None
    first, second = given
    if isinstance(first, polynomial_values.Value) and isinstance(second, polynomial_values.Value):
        numbers = _NUMBERS.get(name)
        return None if numbers is None else numbers(first, second)
    if (
        first is None
        or second is None
        or isinstance(first, polynomial_values.Value)
        or isinstance(second, polynomial_values.Value)
    ):
        return None
    truths = _TRUTHS.get(name)
    return None if truths is None else truths(first, second)


def _least(
    first: polynomial_values.Value, second: polynomial_values.Value
) -> polynomial_values.Value:
    return polynomial_values.choice(polynomial_values.compare("<=", first - second), first, second)


def _greatest(
    first: polynomial_values.Value, second: polynomial_values.Value
) -> polynomial_values.Value:
    return polynomial_values.choice(polynomial_values.compare("<=", second - first), first, second)


def _bitwise_and(
    first: polynomial_values.Value, second: polynomial_values.Value
) -> polynomial_values.Value | None:
    """Computes `and` with a mask of low bits: a remainder, as two's complement has it."""
    mask = second.constant
    if mask is None:
        return _bitwise_and(second, first) if first.constant is not None else None
    return (
        polynomial_values.remainder(first, mask + 1)
        if mask >= 0 and mask & (mask + 1) == 0
        else None
    )


def _xor(
    first: polynomial_values.Value, second: polynomial_values.Value
) -> polynomial_values.Value | None:
    return (
        polynomial_values.remainder(first + second, 2)
        if polynomial_values.is_bit(first) and polynomial_values.is_bit(second)
        else None
    )


def _shifted(
    first: polynomial_values.Value, second: polynomial_values.Value
) -> polynomial_values.Value | None:
    by = second.constant
    return polynomial_values.floor(first, 1 << by) if by is not None and 0 <= by < 31 else None


def _shifted_left(
    first: polynomial_values.Value, second: polynomial_values.Value
) -> polynomial_values.Value | None:
    by = second.constant
    return first * (1 << by) if by is not None and 0 <= by < 31 else None


def _floored(
    first: polynomial_values.Value, second: polynomial_values.Value
) -> polynomial_values.Value | None:
    by = second.constant
    return polynomial_values.floor(first, by) if by is not None and by > 0 else None


def _ceiled(
    first: polynomial_values.Value, second: polynomial_values.Value
) -> polynomial_values.Value | None:
    by = second.constant
    return polynomial_values.floor(first + by - 1, by) if by is not None and by > 0 else None


_NUMBERS: Final[
    Mapping[
        str,
        Callable[
            [polynomial_values.Value, polynomial_values.Value], polynomial_values.Value | None
        ],
    ]
] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": lambda a, b: polynomial_values.divide_toward_zero(a, b, "quotient"),
    "arith.remsi": lambda a, b: polynomial_values.divide_toward_zero(a, b, "rest"),
    "arith.floordivsi": _floored,
    "arith.ceildivsi": _ceiled,
    "arith.minsi": _least,
    "arith.maxsi": _greatest,
    "arith.andi": _bitwise_and,
    "arith.xori": _xor,
    "arith.shrsi": _shifted,
    "arith.shli": _shifted_left,
}
"""Signed arithmetic; unsigned comparisons and divisions are left unread."""

_TRUTHS: Final[
    Mapping[
        str,
        Callable[
            [polynomial_values.Condition, polynomial_values.Condition],
            polynomial_values.Condition | None,
        ],
    ]
] = {
    "arith.andi": polynomial_values.both_hold,
    "arith.ori": lambda a, b: polynomial_values.negation(
        polynomial_values.both_hold(polynomial_values.negation(a), polynomial_values.negation(b))
    ),
    "arith.xori": lambda a, b: (
        polynomial_values.negation(a)
        if b == polynomial_values.TRUE
        else (polynomial_values.negation(b) if a == polynomial_values.TRUE else None)
    ),
}


def merged(condition: polynomial_values.Condition, first: Scalar, second: Scalar) -> Scalar | None:
    """The result of a branch."""
    if isinstance(first, polynomial_values.Value) and isinstance(second, polynomial_values.Value):
        return polynomial_values.choice(condition, first, second)
    if isinstance(first, polynomial_values.Value) or isinstance(second, polynomial_values.Value):
        return None
    if first == second:
        return first
    number = polynomial_values.atom_value(
        polynomial_values.Choice(condition, _extended_truth(first), _extended_truth(second))
    )
    return polynomial_values.compare("==", number - 1)


def _extended_truth(condition: polynomial_values.Condition) -> polynomial_values.Value:
    return polynomial_values.choice(
        condition, polynomial_values.integer_value(1), polynomial_values.Value()
    )
