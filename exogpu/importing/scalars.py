"""The meaning of TTGIR's operations on integers and conditions that all threads have alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from exogpu.importing.text import Operation
from exogpu.importing.values import (
    FALSE,
    TRUE,
    Choice,
    Condition,
    Value,
    Variable,
    both,
    choice,
    compare,
    floor,
    is_bit,
    is_natural,
    negation,
    of,
    relation,
    remainder,
    toward,
    whole,
)

Scalar: TypeAlias = Value | Condition
_NARROW: Final = re.compile(r"\bi(8|16)\b")
"""Integers that are not assumed not to wrap."""
_INTEGER: Final = re.compile(r"(i1|i8|i16|i32|i64|index)$")


def is_scalar(operation: Operation) -> bool:
    """Returns whether the operation has one result, an integer or a truth value."""
    result = operation.types.rpartition("->")[2].rpartition(" to ")[2].strip()
    constant = operation.name == "arith.constant" and operation.text in ("true", "false")
    return len(operation.results) == 1 and (bool(_INTEGER.match(result)) or constant)


def is_truth(operation: Operation) -> bool:
    """Returns whether the result is a truth value."""
    result = operation.types.rpartition("->")[2].rpartition(" to ")[2].strip()
    return result == "i1" or operation.name == "arith.cmpi"


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
            return of(Variable(f"{kind}{axis}", natural=True)) if axis >= 0 else None
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
        return TRUE if text == "true" else FALSE
    return whole(int(text)) if re.fullmatch(r"-?\d+", text) else None


def _compared(text: str, given: tuple[Scalar | None, ...]) -> Condition | None:
    first, second = given
    if isinstance(first, Value) and isinstance(second, Value):
        return relation(text.partition(",")[0].strip(), first, second)
    return None


def _selected(given: tuple[Scalar | None, ...]) -> Scalar | None:
    condition, first, second = given
    if isinstance(condition, Value) or condition is None:
        return None
    if isinstance(first, Value) and isinstance(second, Value):
        return choice(condition, first, second)
    return None


def _extended(given: Scalar | None, one: int) -> Scalar | None:
    if given is None or isinstance(given, Value):
        return given if one < 0 or given is None or is_natural(given) else None
    return choice(given, whole(one), Value())


def _truncated(operation: Operation, given: Scalar | None) -> Scalar | None:
    """Integers do not wrap, by assumption; of a truth value the last bit is left."""
    if operation.types.endswith("i1") and isinstance(given, Value):
        return compare("==", remainder(given, 2) - 1)
    return given


def _binary(name: str, given: tuple[Scalar | None, ...]) -> Scalar | None:
    if len(given) == 1 and name == "arith.index_cast":
        return given[0]
    if len(given) != 2:
        return None
    first, second = given
    if isinstance(first, Value) and isinstance(second, Value):
        numbers = _NUMBERS.get(name)
        return None if numbers is None else numbers(first, second)
    if first is None or second is None or isinstance(first, Value) or isinstance(second, Value):
        return None
    truths = _TRUTHS.get(name)
    return None if truths is None else truths(first, second)


def _least(first: Value, second: Value) -> Value:
    return choice(compare("<=", first - second), first, second)


def _greatest(first: Value, second: Value) -> Value:
    return choice(compare("<=", second - first), first, second)


def _and(first: Value, second: Value) -> Value | None:
    """Computes `and` with a mask of low bits: a remainder, as two's complement has it."""
    mask = second.constant
    if mask is None:
        return _and(second, first) if first.constant is not None else None
    return remainder(first, mask + 1) if mask >= 0 and mask & (mask + 1) == 0 else None


def _xor(first: Value, second: Value) -> Value | None:
    return remainder(first + second, 2) if is_bit(first) and is_bit(second) else None


def _shifted(first: Value, second: Value) -> Value | None:
    by = second.constant
    return floor(first, 1 << by) if by is not None and 0 <= by < 31 else None


def _shifted_left(first: Value, second: Value) -> Value | None:
    by = second.constant
    return first * (1 << by) if by is not None and 0 <= by < 31 else None


def _floored(first: Value, second: Value) -> Value | None:
    by = second.constant
    return floor(first, by) if by is not None and by > 0 else None


def _ceiled(first: Value, second: Value) -> Value | None:
    by = second.constant
    return floor(first + by - 1, by) if by is not None and by > 0 else None


_NUMBERS: Final[Mapping[str, Callable[[Value, Value], Value | None]]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": lambda a, b: toward(a, b, "quotient"),
    "arith.remsi": lambda a, b: toward(a, b, "rest"),
    "arith.floordivsi": _floored,
    "arith.ceildivsi": _ceiled,
    "arith.minsi": _least,
    "arith.maxsi": _greatest,
    "arith.andi": _and,
    "arith.xori": _xor,
    "arith.shrsi": _shifted,
    "arith.shli": _shifted_left,
}
"""Signed arithmetic; unsigned comparisons and divisions are left unread."""

_TRUTHS: Final[Mapping[str, Callable[[Condition, Condition], Condition | None]]] = {
    "arith.andi": both,
    "arith.ori": lambda a, b: negation(both(negation(a), negation(b))),
    "arith.xori": lambda a, b: negation(a) if b == TRUE else (negation(b) if a == TRUE else None),
}


def merged(condition: Condition, first: Scalar, second: Scalar) -> Scalar | None:
    """The result of a branch."""
    if isinstance(first, Value) and isinstance(second, Value):
        return choice(condition, first, second)
    if isinstance(first, Value) or isinstance(second, Value):
        return None
    if first == second:
        return first
    number = of(Choice(condition, _extended_truth(first), _extended_truth(second)))
    return compare("==", number - 1)


def _extended_truth(condition: Condition) -> Value:
    return choice(condition, whole(1), Value())
