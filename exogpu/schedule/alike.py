"""Whether two statements differ in what they access and in nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Reduce
from exogpu.ir.scalars import Constant, Convert, Element, Operation, Scalar, added, assigned
from exogpu.ir.types import DataType
from exogpu.schedule.events import Place, Variable


def is_alike(
    old: Place, of_old: Mapping[Sym, Variable], new: Place, of_new: Mapping[Sym, Variable]
) -> bool:
    """Whether two statements compute the same of what they access, in the same types."""
    return type(old.plain) is type(new.plain) and _same(
        _meaning(old, of_old), _meaning(new, of_new)
    )


def same_term(
    one: Place, of_one: Mapping[Sym, Variable], other: Place, of_other: Mapping[Sym, Variable]
) -> bool:
    """Whether two statements assign or add the same of what they read, in the same types."""
    return _same(_meaning(one, of_one), _meaning(other, of_other))


def _meaning(place: Place, variables: Mapping[Sym, Variable]) -> Scalar:
    def type_of(name: Sym) -> DataType:
        constant = place.constants.get(name)
        return variables[name].dtype if constant is None else constant.dtype

    meaning = added if isinstance(place.plain, Reduce) else assigned
    typed = meaning(place.plain.value, variables[place.plain.target.name].dtype, type_of)
    return _filled(typed, place.constants)


def _filled(scalar: Scalar, constants: Mapping[Sym, Constant]) -> Scalar:
    """The value with its constants in the place of the parameters that they were given to."""
    match scalar:
        case Element() if (known := constants.get(scalar.access.name)) is not None:
            return Constant(known.value, scalar.dtype)
        case Operation():
            terms = tuple(_filled(a, constants) for a in scalar.arguments)
            return Operation(scalar.function, terms, scalar.dtype)
        case Convert():
            return Convert(_filled(scalar.term, constants), scalar.dtype)
        case _:
            return scalar


def _same(old: Scalar, new: Scalar) -> bool:
    if old.dtype is not new.dtype:
        return False
    match old, new:
        case Constant(), Constant():
            return type(old.value) is type(new.value) and old.value == new.value
        case Element(), Element():
            return True
        case Operation(), Operation():
            same = old.function == new.function and len(old.arguments) == len(new.arguments)
            return same and all(map(_same, old.arguments, new.arguments))
        case Convert(), Convert():
            return _same(old.term, new.term)
        case _:
            return False
