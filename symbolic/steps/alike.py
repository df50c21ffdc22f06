"""Decides whether two values are the same function of their reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Apply, BinOp, Const, DExpr, Negate, Read, same_number
from exogpu.ir.scalars import (
    Constant,
    Convert,
    Element,
    Operation,
    Scalar,
    added,
    assigned,
)
from exogpu.ir.types import DataType
from exogpu.symbolic.steps.record import Formula, Image, Nth, Number, Program, Statement, Value


@dataclass(frozen=True, slots=True)
class Numbered:
    """A read, by its number among those of the old statement."""

    number: int
    dtype: DataType


Term: TypeAlias = Constant | Operation | Convert | Numbered

ARITHMETIC: Final = ("+", "-", "*", "/")


def numbered(scalar: Scalar, constants: Mapping[Sym, Constant], reads: Iterator[int]) -> Term:
    """The value with its reads numbered, and constants in the place of parameters."""
    match scalar:
        case Element():
            known = constants.get(scalar.access.name)
            if known is not None:
                return Constant(known.value, scalar.dtype)
            return Numbered(next(reads, -1), scalar.dtype)
        case Operation():
            terms = tuple(numbered(a, constants, reads) for a in scalar.arguments)
            return Operation(scalar.function, terms, scalar.dtype)  # type: ignore[arg-type]
        case Convert():
            return Convert(numbered(scalar.term, constants, reads), scalar.dtype)  # type: ignore[arg-type]
        case Constant():
            return scalar


def same(old: Term, new: Term) -> bool:
    """Tests whether two values are equal but for exchanged sides of a sum or product."""
    if old.dtype is not new.dtype:
        return False
    match old, new:
        case Constant(), Constant():
            return type(old.value) is type(new.value) and same_number(old.value, new.value)
        case Numbered(), Numbered():
            return old.number == new.number
        case Operation(), Operation():
            if old.function != new.function or len(old.arguments) != len(new.arguments):
                return False
            orders = [new.arguments]
            if old.function in ("+", "*"):
                orders.append(new.arguments[::-1])
            return any(all(map(same, old.arguments, order)) for order in orders)  # type: ignore[arg-type]
        case Convert(), Convert():
            return same(old.term, new.term)  # type: ignore[arg-type]
        case _:
            return False


def is_image(old: Program, new: Program, image: Image) -> bool:
    """Tests whether the new statement computes what the old one does, of reads in the given
    order."""
    was, now = old.statements[image.old], new.statements[image.new]
    reads = image.reads
    if was.kind != now.kind or sorted(reads) != [*range(len(was.reads))]:
        return False
    if len(now.reads) != len(reads):
        return False
    before, after = meaning(old, was, iter(range(len(reads)))), meaning(new, now, iter(reads))
    return same(before, after)


def is_copy(new: Program, statement: Statement, *, any_kind: bool = False) -> bool:
    """Tests whether a statement is `x[...] = y[...]`, without a conversion; or adds so."""
    types = {new.by_name[c.variable].dtype for c in (*statement.reads, statement.target)}
    plain = any_kind or statement.kind == "="
    return plain and statement.value == Nth(0) and len(types) == 1


def is_zero_text(text: str) -> bool:
    """Tests whether a text is the number zero."""
    return number(text) == 0


def number(text: str) -> float | int:
    """The number of a text, an integer where it is written as one."""
    return int(text) if text.lstrip("-").isdigit() else float(text)


def meaning(program: Program, statement: Statement, reads: Iterator[int]) -> Term:
    """Returns the typed value that a statement assigns or adds, its reads numbered from the
    left."""
    types: dict[Sym, DataType] = {}
    constants: dict[Sym, Constant] = {}

    def expression(value: Value) -> DExpr:
        match value:
            case Number(dtype=None):
                return Const(number(value.text))
            case Number(dtype=DataType() as dtype):
                constants[name := Sym("c")] = Constant(number(value.text), dtype)
                types[name] = dtype
                return Read(Access(name, ()))
            case Nth():
                cell = statement.reads[value.read]
                types[name := Sym("r")] = program.by_name[cell.variable].dtype
                return Read(Access(name, ()))
            case Formula(function="negate"):
                return Negate(expression(value.terms[0]))
            case Formula() if value.function in ARITHMETIC:
                left, right = map(expression, value.terms)
                return BinOp(value.function, left, right)  # type: ignore[arg-type]
            case Formula():
                terms = tuple(map(expression, value.terms))
                return Apply(value.function, terms)  # type: ignore[arg-type]
        raise AssertionError(value)

    typed_as = added if statement.kind == "+=" else assigned
    target = program.by_name[statement.target.variable].dtype
    typed = typed_as(expression(statement.value), target, lambda name: types[name])
    return numbered(typed, constants, reads)
