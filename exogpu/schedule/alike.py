"""Whether two statements differ in what they access and in nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Reduce
from exogpu.ir.scalars import Constant, Convert, Element, Operation, Scalar, added, assigned
from exogpu.ir.types import DataType
from exogpu.schedule.events import Place, Variable


@dataclass(frozen=True, slots=True)
class _Read:
    """A read, by its number among those of the old statement."""

    number: int
    dtype: DataType


_Value: TypeAlias = Constant | Operation | Convert | _Read


def is_alike(
    old: Place,
    of_old: Mapping[Sym, Variable],
    new: Place,
    of_new: Mapping[Sym, Variable],
    reads: tuple[int, ...],
) -> bool:
    """Whether two statements compute the same of what they access, in the same types.

    `reads` says which read of the old statement each of the new one is; the sides of a sum or
    product may be exchanged.
    """
    if type(old.plain) is not type(new.plain) or sorted(reads) != list(range(len(reads))):
        return False
    before = _meaning(old, of_old, iter(range(len(reads))))
    return _same(before, _meaning(new, of_new, iter(reads)))


def same_term(
    one: Place, of_one: Mapping[Sym, Variable], other: Place, of_other: Mapping[Sym, Variable]
) -> bool:
    """Whether two statements assign or add the same of what they read, in the same types, to
    variables of one type."""
    types = of_one[one.plain.target.name].dtype, of_other[other.plain.target.name].dtype
    return types[0] is types[1] and _same(
        _meaning(one, of_one, count()), _meaning(other, of_other, count())
    )


def _meaning(place: Place, variables: Mapping[Sym, Variable], reads: Iterator[int]) -> _Value:
    def type_of(name: Sym) -> DataType:
        constant = place.constants.get(name)
        return variables[name].dtype if constant is None else constant.dtype

    meaning = added if isinstance(place.plain, Reduce) else assigned
    typed = meaning(place.plain.value, variables[place.plain.target.name].dtype, type_of)
    return _numbered(typed, place.constants, reads)


def _numbered(scalar: Scalar, constants: Mapping[Sym, Constant], reads: Iterator[int]) -> _Value:
    """The value with its reads numbered, and constants in the place of parameters."""
    match scalar:
        case Element():
            known = constants.get(scalar.access.name)
            if known is not None:
                return Constant(known.value, scalar.dtype)
            return _Read(next(reads, -1), scalar.dtype)
        case Operation():
            terms = tuple(_numbered(a, constants, reads) for a in scalar.arguments)
            return Operation(scalar.function, terms, scalar.dtype)  # type: ignore[arg-type]
        case Convert():
            return Convert(_numbered(scalar.term, constants, reads), scalar.dtype)  # type: ignore[arg-type]
        case Constant():
            return scalar


def _same(old: _Value, new: _Value) -> bool:
    if old.dtype is not new.dtype:
        return False
    match old, new:
        case Constant(), Constant():
            return type(old.value) is type(new.value) and old.value == new.value
        case _Read(), _Read():
            return old.number == new.number
        case Operation(), Operation():
            if old.function != new.function or len(old.arguments) != len(new.arguments):
                return False
            orders = [new.arguments]
            if old.function in ("+", "*"):
                orders.append(new.arguments[::-1])
            return any(all(map(_same, old.arguments, order)) for order in orders)  # type: ignore[arg-type]
        case Convert(), Convert():
            return _same(old.term, new.term)  # type: ignore[arg-type]
        case _:
            return False
