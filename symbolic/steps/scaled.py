"""The law of a factor in front of a sum.

    x = 0                          x = 0
    for i: x += y    reads as      for i: x += c * y
    x = c * x

Multiplication distributes over sums of real numbers, and of integers that wrap around.
"""

from __future__ import annotations

from math import isfinite

from exogpu.ir.nodes import CVar, Int
from exogpu.ir.scalars import INTEGERS, Convert
from exogpu.ir.types import FLOATS, DataType
from exogpu.ir.walk import control_variables
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps.alike import is_zero_text, meaning
from exogpu.symbolic.steps.alike import number as number_of
from exogpu.symbolic.steps.record import (
    Cell,
    Formula,
    Law,
    Nth,
    Number,
    Program,
    Statement,
    Value,
)


def is_scaled(whole: Program, parts: Program, law: Law) -> str | None:
    """Returns the fault in a law of three statements and two, in words; None if there is none."""
    if len(law.whole) != 3 or len(law.parts) != 2:
        return "no law is known of these statements"
    zero, total, scale = (whole.statements[n] for n in law.whole)
    first, second = (parts.statements[n] for n in law.parts)
    every = (zero, total, scale, first, second)
    kinds = [one.kind for one in every]
    alike = (
        kinds == ["=", "+=", "=", "=", "+="]
        and all(one.target == zero.target for one in every)
        and _around(zero) == _around(first) == _around(scale)
        and _around(total) == _around(second)
        and total.iterators[: len(zero.iterators)] == zero.iterators
        and total.holds[: len(zero.holds)] == zero.holds
        and all(_is_zero(one) for one in (zero, first))
    )
    if not alike:
        return f"`{zero.text}` does not begin a sum that is scaled"
    if not _in_place(whole, law, every):
        return f"`{zero.text}` does not stand right before the sum that is scaled"
    if any(access.cell.within for one in every for access in one.accesses):
        return "an operand is clipped"
    factor = _factor(scale)
    if factor is None:
        return f"`{scale.text}` does not multiply its target"
    if isinstance(factor, Number) and not isfinite(number_of(factor.text)):
        return f"`{scale.text}` multiplies with what is no real number"
    term = _read(total, total.value)
    match second.value:
        case Formula(function="*", terms=(left, right)):
            sides = _read(second, left), _read(second, right)
        case _:
            return f"`{second.text}` adds no product"
    if sides not in ((factor, term), (term, factor)) or term is None:
        return f"`{second.text}` does not add the factor times the term"
    name, inner = zero.target.variable, {*total.iterators} - {*zero.iterators}
    if any(cell.variable == name for one in (total, second) for cell in one.reads):
        return "the sum is read in itself"
    fixed = [zero.target, *([factor] if isinstance(factor, Cell) else [])]
    if any(control_variables(e) & inner for cell in fixed for e in cell.index):
        return "the factor or the sum is another one in each iteration"
    return None


def scaled_assumes(parts: Program, law: Law) -> bool:
    """Returns true if the law holds for real numbers alone. Raises WitnessError where it does not
    hold."""
    second = parts.statements[law.parts[1]]
    dtype = parts.by_name[second.target.variable].dtype
    types = {parts.by_name[cell.variable].dtype for cell in second.reads}
    if dtype in FLOATS and types <= FLOATS:
        return True
    term = meaning(parts, second, iter(range(len(second.reads))))
    inner = term.term if isinstance(term, Convert) else term
    if dtype in FLOATS or types & FLOATS or _width(inner.dtype) < _width(dtype):
        raise WitnessError("the terms of the sum are of another type than the sum")
    return False


def _width(dtype: DataType) -> int:
    least, greatest = INTEGERS[dtype]
    return (greatest - least).bit_length()


def _around(statement: Statement) -> tuple[object, ...]:
    return statement.iterators, statement.holds


def _is_zero(statement: Statement) -> bool:
    value = statement.value
    return isinstance(value, Number) and value.dtype is None and is_zero_text(value.text)


def _read(statement: Statement, value: Value) -> Cell | Number | None:
    """Returns a value's one element or number; None for other values."""
    match value:
        case Nth():
            return statement.reads[value.read]
        case Number(dtype=None):
            return value
        case _:
            return None


def _factor(scale: Statement) -> Cell | Number | None:
    match scale.value:
        case Formula(function="*", terms=(left, right)):
            sides = _read(scale, left), _read(scale, right)
            for one, other in (sides, sides[::-1]):
                if one == scale.target:
                    return other
    return None


def _in_place(whole: Program, law: Law, every: tuple[Statement, ...]) -> bool:
    """All stand in one block, with nothing else between them."""
    zero, total, scale, first, second = every
    base, rank = zero.time[:-1], len(zero.time) - 1
    rest = total.time[rank + 1 :]
    ends = [one.time[rank] for one in (zero, total, scale) if one.time[:rank] == base]
    if (
        len(ends) < 3
        or not all(isinstance(one, Int) for one in ends)
        or len(scale.time) != rank + 1
    ):
        return False
    begin, middle, end = (one.value for one in ends)  # type: ignore[union-attr]
    if not begin < middle < end:
        return False
    for number, other in enumerate(whole.statements):
        if number in law.whole or other.time[:rank] != base or len(other.time) <= rank:
            continue
        at = other.time[rank]
        if not isinstance(at, Int) or begin <= at.value <= end:
            return False
    if not rest or not isinstance(rest[0], CVar):
        return False
    return first.time == (*zero.time, Int(0)) and second.time == (*zero.time, Int(1), *rest)
