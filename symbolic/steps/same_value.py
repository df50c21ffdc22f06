"""Decides whether two values are the same function of their reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, TypeAlias

from exogpu.ir import nodes as ir
from exogpu.ir import scalars
from exogpu.ir.types import EIGHTS, FLOATS, DataType, Sym
from exogpu.ir.walk import control_variables
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps import record


@dataclass(frozen=True, slots=True)
class Numbered:
    """A read, by its number among those of the old statement."""

    number: int
    dtype: DataType


Term: TypeAlias = scalars.Constant | scalars.Operation | scalars.Convert | Numbered

ARITHMETIC: Final = ("+", "-", "*", "/")


def numbered(
    scalar: scalars.Scalar, constants: Mapping[Sym, scalars.Constant], reads: Iterator[int]
) -> Term:
    """The value with its reads numbered, and constants in the place of parameters."""
    match scalar:
        case scalars.Element():
            known = constants.get(scalar.access.name)
            if known is not None:
                return scalars.Constant(known.value, scalar.dtype)
            return Numbered(next(reads, -1), scalar.dtype)
        case scalars.Operation():
            terms = tuple(numbered(a, constants, reads) for a in scalar.arguments)
            return scalars.Operation(scalar.function, terms, scalar.dtype)  # type: ignore[arg-type]
        case scalars.Convert():
            return scalars.Convert(numbered(scalar.term, constants, reads), scalar.dtype)  # type: ignore[arg-type]
        case scalars.Constant():
            return scalar


def is_same_value(old: Term, new: Term) -> bool:
    """Tests whether two values are equal but for exchanged sides of a sum or product."""
    if old.dtype is not new.dtype:
        return False
    match old, new:
        case scalars.Constant(), scalars.Constant():
            return type(old.value) is type(new.value) and ir.same_number(old.value, new.value)
        case Numbered(), Numbered():
            return old.number == new.number
        case scalars.Operation(), scalars.Operation():
            if old.function != new.function or len(old.arguments) != len(new.arguments):
                return False
            orders = [new.arguments]
            if old.function in ("+", "*"):
                orders.append(new.arguments[::-1])
            return any(all(map(is_same_value, old.arguments, order)) for order in orders)  # type: ignore[arg-type]
        case scalars.Convert(), scalars.Convert():
            return is_same_value(old.term, new.term)  # type: ignore[arg-type]
        case _:
            return False


def is_image(old: record.Program, new: record.Program, image: record.Image) -> bool:
    """Tests whether the new statement computes what the old one does, of reads in the given
    order."""
    was, now = old.statements[image.old], new.statements[image.new]
    reads = image.reads
    if was.kind != now.kind or sorted(reads) != [*range(len(was.reads))]:
        return False
    if len(now.reads) != len(reads):
        return False
    before, after = meaning(old, was, iter(range(len(reads)))), meaning(new, now, iter(reads))
    return is_same_value(before, after)


def is_copy(new: record.Program, statement: record.Statement, *, any_kind: bool = False) -> bool:
    """Tests whether a statement is `x[...] = y[...]`, without a conversion; or adds so."""
    types = {new.by_name[c.variable].dtype for c in (*statement.reads, statement.target)}
    plain = any_kind or statement.kind == "="
    return plain and statement.value == record.Nth(0) and len(types) == 1


def is_zero_text(text: str) -> bool:
    """Tests whether a text is the number zero."""
    return number(text) == 0


def number(text: str) -> float | int:
    """The number of a text, an integer where it is written as one."""
    return int(text) if text.lstrip("-").isdigit() else float(text)


def meaning(program: record.Program, statement: record.Statement, reads: Iterator[int]) -> Term:
    """Returns the typed value that a statement assigns or adds, its reads numbered from the
    left."""
    types: dict[Sym, DataType] = {}
    constants: dict[Sym, scalars.Constant] = {}

    def expression(value: record.Value) -> ir.DExpr:
        match value:
            case record.Number(dtype=None):
                return ir.Const(number(value.text))
            case record.Number(dtype=DataType() as dtype):
                constants[name := Sym("c")] = scalars.Constant(number(value.text), dtype)
                types[name] = dtype
                return ir.Read(ir.Access(name, ()))
            case record.Nth():
                cell = statement.reads[value.read]
                types[name := Sym("r")] = program.by_name[cell.variable].dtype
                return ir.Read(ir.Access(name, ()))
            case record.Formula(function="negate"):
                return ir.Negate(expression(value.terms[0]))
            case record.Formula() if value.function in ARITHMETIC:
                left, right = map(expression, value.terms)
                return ir.BinOp(value.function, left, right)  # type: ignore[arg-type]
            case record.Formula():
                terms = tuple(map(expression, value.terms))
                return ir.Apply(value.function, terms)
        raise AssertionError(value)

    typed_as = scalars.added_scalar if statement.kind == "+=" else scalars.assigned_scalar
    target = program.by_name[statement.target.variable].dtype
    typed = typed_as(expression(statement.value), target, lambda name: types[name])
    return numbered(typed, constants, reads)


# Decides whether a variable holds a term as it is, so that it may be kept before it is added.
#
# `y += e` adds in the wider of both types, and rounds after; `t = e; y += t` rounds e first. Both
# are the same where e is a number that a variable of the type of y holds. Integers wrap around,
# before a sum or after.

DIGITS: Final[Mapping[DataType, int]] = {
    DataType.F8E4M3: 4,
    DataType.F8E5M2: 3,
    DataType.F16: 11,
    DataType.BF16: 8,
    DataType.F32: 24,
    DataType.F64: 53,
}
"""The digits of the significand: integers of as many bits are exact."""

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
        case scalars.Constant():
            return abs(term.value) <= 1 << DIGITS[dtype] and term.value == int(term.value)
        case scalars.Convert():
            return is_held(term.term, dtype, kinds)  # type: ignore[arg-type]
        case scalars.Operation(function="negate" | "relu" | "min" | "max"):
            return all(is_held(one, dtype, kinds) for one in term.arguments)  # type: ignore[arg-type]
        case scalars.Operation(function="select"):
            return all(is_held(one, dtype, kinds) for one in term.arguments[2:])  # type: ignore[arg-type]
        case _:
            return False


# --- statements ---------------------------------------------------------------------------------


def same_value(
    old: record.Program, was: record.Statement, new: record.Program, now: record.Statement
) -> bool:
    """Tests whether two statements put the same of their reads, in order, into sums of one type: an
    assignment as it is rounded, `+=` as it is added."""
    types = old.by_name[was.target.variable].dtype, new.by_name[now.target.variable].dtype
    if types[0] is not types[1] or len(was.reads) != len(now.reads):
        return False
    numbers = range(len(was.reads))
    if not is_same_value(meaning(old, was, iter(numbers)), meaning(new, now, iter(numbers))):
        return False
    return was.kind == now.kind or (adds_held(old, was) and adds_held(new, now))


def adds_held(program: record.Program, statement: record.Statement) -> bool:
    """Tests whether the variable that a statement adds to holds the added term."""
    kinds = [program.by_name[cell.variable].dtype for cell in statement.reads]
    dtype = program.by_name[statement.target.variable].dtype
    return is_held(meaning(program, statement, iter(range(len(kinds)))), dtype, kinds)


def passed_on(program: record.Program) -> frozenset[int]:
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


# The law of a factor in front of a sum.
#
#     x = 0                          x = 0
#     for i: x += y    reads as      for i: x += c * y
#     x = c * x
#
# Multiplication distributes over sums of real numbers, and of integers that wrap around.


def is_scaled(whole: record.Program, parts: record.Program, law: record.Law) -> str | None:
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
        and _loops_around(zero) == _loops_around(first) == _loops_around(scale)
        and _loops_around(total) == _loops_around(second)
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
    if isinstance(factor, record.Number) and not isfinite(number(factor.text)):
        return f"`{scale.text}` multiplies with what is no real number"
    term = _single_element(total, total.value)
    match second.value:
        case record.Formula(function="*", terms=(left, right)):
            sides = _single_element(second, left), _single_element(second, right)
        case _:
            return f"`{second.text}` adds no product"
    if sides not in ((factor, term), (term, factor)) or term is None:
        return f"`{second.text}` does not add the factor times the term"
    name, inner = zero.target.variable, {*total.iterators} - {*zero.iterators}
    if any(cell.variable == name for one in (total, second) for cell in one.reads):
        return "the sum is read in itself"
    fixed = [zero.target, *([factor] if isinstance(factor, record.Cell) else [])]
    if any(control_variables(e) & inner for cell in fixed for e in cell.index):
        return "the factor or the sum is another one in each iteration"
    return None


def scaled_assumes(parts: record.Program, law: record.Law) -> bool:
    """Returns true if the law holds for real numbers alone. Raises WitnessError where it does not
    hold."""
    second = parts.statements[law.parts[1]]
    dtype = parts.by_name[second.target.variable].dtype
    types = {parts.by_name[cell.variable].dtype for cell in second.reads}
    if dtype in FLOATS and types <= FLOATS:
        return True
    term = meaning(parts, second, iter(range(len(second.reads))))
    inner = term.term if isinstance(term, scalars.Convert) else term
    if dtype in FLOATS or types & FLOATS or _width(inner.dtype) < _width(dtype):
        raise WitnessError("the terms of the sum are of another type than the sum")
    return False


def _width(dtype: DataType) -> int:
    least, greatest = scalars.INTEGERS[dtype]
    return (greatest - least).bit_length()


def _loops_around(statement: record.Statement) -> tuple[object, ...]:
    return statement.iterators, statement.holds


def _is_zero(statement: record.Statement) -> bool:
    value = statement.value
    return isinstance(value, record.Number) and value.dtype is None and is_zero_text(value.text)


def _single_element(
    statement: record.Statement, value: record.Value
) -> record.Cell | record.Number | None:
    """Returns a value's one element or number; None for other values."""
    match value:
        case record.Nth():
            return statement.reads[value.read]
        case record.Number(dtype=None):
            return value
        case _:
            return None


def _factor(scale: record.Statement) -> record.Cell | record.Number | None:
    match scale.value:
        case record.Formula(function="*", terms=(left, right)):
            sides = _single_element(scale, left), _single_element(scale, right)
            for one, other in (sides, sides[::-1]):
                if one == scale.target:
                    return other
    return None


def _in_place(whole: record.Program, law: record.Law, every: tuple[record.Statement, ...]) -> bool:
    """All stand in one block, with nothing else between them."""
    zero, total, scale, first, second = every
    base, rank = zero.time[:-1], len(zero.time) - 1
    rest = total.time[rank + 1 :]
    ends = [one.time[rank] for one in (zero, total, scale) if one.time[:rank] == base]
    if (
        len(ends) < 3
        or not all(isinstance(one, ir.Int) for one in ends)
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
        if not isinstance(at, ir.Int) or begin <= at.value <= end:
            return False
    if not rest or not isinstance(rest[0], ir.CVar):
        return False
    return first.time == (*zero.time, ir.Int(0)) and second.time == (*zero.time, ir.Int(1), *rest)
