"""Compares two statements: do they differ in their accesses alone?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import assert_never

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Reduce
from exogpu.ir.scalars import (
    INTEGERS,
    Constant,
    Convert,
    Element,
    Operation,
    Scalar,
    added,
    assigned,
    parts,
)
from exogpu.ir.types import DataType
from exogpu.schedule.events import Place, Variable
from exogpu.symbolic.steps.alike import Term, numbered, same
from exogpu.symbolic.steps.held import is_held


def is_alike(
    old: Place,
    of_old: Mapping[Sym, Variable],
    new: Place,
    of_new: Mapping[Sym, Variable],
    reads: tuple[int, ...],
) -> bool:
    """Tests whether two statements compute the same of their reads, in the same types.

    `reads` says which read of the old statement each of the new one is; the sides of a sum or
    product may be exchanged.
    """
    if type(old.plain) is not type(new.plain) or sorted(reads) != list(range(len(reads))):
        return False
    before = _meaning(old, of_old, iter(range(len(reads))))
    return same(before, _meaning(new, of_new, iter(reads)))


def same_term(
    one: Place, of_one: Mapping[Sym, Variable], other: Place, of_other: Mapping[Sym, Variable]
) -> bool:
    """Tests whether two statements put the same of their reads into sums of one type: an assignment
    as it is rounded, `+=` as it is added."""
    types = of_one[one.plain.target.name].dtype, of_other[other.plain.target.name].dtype
    if types[0] is not types[1]:
        return False
    if not same(_meaning(one, of_one, count()), _meaning(other, of_other, count())):
        return False
    if type(one.plain) is type(other.plain):
        return True
    return adds_held(one, of_one) and adds_held(other, of_other)


def adds_held(place: Place, variables: Mapping[Sym, Variable]) -> bool:
    """Tests whether the variable that a statement adds to holds the added term."""
    leaves = (event for event in place.events if not event.writes and not event.reduces)
    kinds = [variables[event.access.name].dtype for event in leaves]
    dtype = variables[place.plain.target.name].dtype
    return is_held(_meaning(place, variables, count()), dtype, kinds)


def divides(place: Place, variables: Mapping[Sym, Variable]) -> bool:
    """Tests whether a statement divides integers by an expression that may be zero."""
    return any(
        isinstance(part, Operation)
        and part.function == "/"
        and part.dtype in INTEGERS
        and not _is_nonzero(part.arguments[1], place.constants)
        for part in parts(_typed(place, variables))
    )


def _is_nonzero(scalar: Scalar, constants: Mapping[Sym, Constant]) -> bool:
    """Tests whether it is a constant, or a parameter that stands for one, other than zero."""
    match scalar:
        case Constant():
            return scalar.value != 0
        case Element():
            known = constants.get(scalar.access.name)
            return known is not None and known.value != 0
        case Convert():
            return _is_nonzero(scalar.term, constants)
        case Operation():
            return False
        case _:
            assert_never(scalar)


def _meaning(place: Place, variables: Mapping[Sym, Variable], reads: Iterator[int]) -> Term:
    return numbered(_typed(place, variables), place.constants, reads)


def _typed(place: Place, variables: Mapping[Sym, Variable]) -> Scalar:
    def type_of(name: Sym) -> DataType:
        constant = place.constants.get(name)
        return variables[name].dtype if constant is None else constant.dtype

    meaning = added if isinstance(place.plain, Reduce) else assigned
    return meaning(place.plain.value, variables[place.plain.target.name].dtype, type_of)
