"""Decides whether a variable holds a term as it is, so that it may be kept before it is added.

`y += e` adds in the wider of both types, and rounds after; `t = e; y += t` rounds e first.  Both
are the same where e is a number that a variable of the type of y holds.  Integers wrap around,
before a sum or after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from exogpu.ir.scalars import Constant, Convert, Operation
from exogpu.ir.types import EIGHTS, FLOATS, DataType
from exogpu.symbolic.steps.alike import Numbered, Term, is_copy, meaning, same
from exogpu.symbolic.steps.record import Program, Statement

DIGITS: Final[Mapping[DataType, int]] = {
    DataType.F8E4M3: 4,
    DataType.F8E5M2: 3,
    DataType.F16: 11,
    DataType.BF16: 8,
    DataType.F32: 24,
    DataType.F64: 53,
}
"""Of the significand: integers of as many bits are exact."""

HOLDS: Final[Mapping[DataType, frozenset[DataType]]] = {
    DataType.F8E4M3: frozenset({DataType.F8E4M3}),
    DataType.F8E5M2: frozenset({DataType.F8E5M2}),
    DataType.F16: EIGHTS | {DataType.F16},
    DataType.BF16: EIGHTS | {DataType.BF16},
    DataType.F32: FLOATS - {DataType.F64},
    DataType.F64: FLOATS,
}
"""By type, those all of whose numbers it has."""


def is_held(term: Term, dtype: DataType, kinds: Sequence[DataType]) -> bool:
    """Tests whether converting a term to the type of a sum before adding it changes nothing.

    `kinds` are the types of the variables that it reads, by the number of the read.
    """
    if dtype not in FLOATS:
        return term.dtype not in FLOATS
    if term.dtype is dtype:
        return True
    match term:
        case Numbered():
            return kinds[term.number] in HOLDS[dtype]
        case Constant():
            return abs(term.value) <= 1 << DIGITS[dtype] and term.value == int(term.value)
        case Convert():
            return is_held(term.term, dtype, kinds)  # type: ignore[arg-type]
        case Operation(function="negate" | "relu" | "min" | "max"):
            return all(is_held(one, dtype, kinds) for one in term.arguments)  # type: ignore[arg-type]
        case Operation(function="select"):
            return all(is_held(one, dtype, kinds) for one in term.arguments[2:])  # type: ignore[arg-type]
        case _:
            return False


# --- statements ---------------------------------------------------------------------------------


def same_value(old: Program, was: Statement, new: Program, now: Statement) -> bool:
    """Tests whether two statements put the same of their reads, in order, into sums of one type: an
    assignment as it is rounded, `+=` as it is added."""
    types = old.by_name[was.target.variable].dtype, new.by_name[now.target.variable].dtype
    if types[0] is not types[1] or len(was.reads) != len(now.reads):
        return False
    numbers = range(len(was.reads))
    if not same(meaning(old, was, iter(numbers)), meaning(new, now, iter(numbers))):
        return False
    return was.kind == now.kind or (adds_held(old, was) and adds_held(new, now))


def adds_held(program: Program, statement: Statement) -> bool:
    """Tests whether the variable that a statement adds to holds the added term."""
    kinds = [program.by_name[cell.variable].dtype for cell in statement.reads]
    dtype = program.by_name[statement.target.variable].dtype
    return is_held(meaning(program, statement, iter(range(len(kinds)))), dtype, kinds)


def passed_on(program: Program) -> frozenset[int]:
    """The statements that pass on the terms of what they read: `x = y`, and `x += y` but
    where y is a sum of wider terms, which is rounded as a whole before it is added."""
    statements = program.statements
    copies = {n for n, one in enumerate(statements) if is_copy(program, one, any_kind=True)}
    wide = {
        one.target.variable
        for one in statements
        if one.kind == "+=" and not adds_held(program, one)
    }
    taken = {
        (statements[n].reads[0].variable, statements[n].target.variable)
        for n in copies
        if statements[n].kind == "="
    }
    while more := {to for of, to in taken if of in wide} - wide:
        wide |= more
    return frozenset(
        n
        for n in copies
        if statements[n].kind == "=" or statements[n].reads[0].variable not in wide
    )
