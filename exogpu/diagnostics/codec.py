"""Results as JSON and back: frozen records, read by the types that their fields declare.

A record is the list of its fields' values in their order, an enumeration's member its name.
What is read has exactly the types that are declared, or is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class UnreadableError(ValueError):
    """Not what the types declare."""


def encode(value: object) -> Json:
    """A record, or what its fields may hold, as JSON."""
    match value:
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case None | bool() | int() | float() | str():
            return value
        case tuple():
            return [encode(item) for item in value]
        case Mapping():
            return {str(name): encode(item) for name, item in value.items()}
        case _ if is_dataclass(value):
            return [encode(getattr(value, field.name)) for field in fields(value)]
        case _:
            raise TypeError(type(value))


def decode(kind: object, value: Json) -> object:
    """A value of a type out of JSON.  Raises UnreadableError."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _one_of(arguments, value)
    if origin is Literal:
        return _require_fit(value, value in arguments)
    if origin is tuple:
        return _tuple(arguments, value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(arguments[1], value)
    if not isinstance(kind, type):
        raise TypeError(kind)
    if issubclass(kind, Enum):
        return _member(kind, value)
    if is_dataclass(kind):
        return _record(kind, value)
    if kind is NoneType:
        return _require_fit(value, value is None)
    if kind is float and type(value) is int:
        return float(value)
    return _require_fit(value, kind in (bool, int, float, str) and type(value) is kind)


def _mapping(kind: object, value: Json) -> dict[str, object]:
    if not isinstance(value, dict):
        raise UnreadableError(repr(value)[:60])
    return {name: decode(kind, item) for name, item in value.items()}


def _member(kind: type[Enum], value: Json) -> Enum:
    name, _, member = str(value).partition(".")
    if name != kind.__name__ or member not in kind.__members__:
        raise UnreadableError(repr(value)[:60])
    return kind[member]


def _require_fit(value: Json, fits: bool) -> Json:
    if not fits:
        raise UnreadableError(repr(value)[:60])
    return value


def _one_of(kinds: tuple[object, ...], value: Json) -> object:
    for kind in kinds:
        try:
            return decode(kind, value)
        except UnreadableError:
            continue
    raise UnreadableError(repr(value)[:60])


def _tuple(kinds: tuple[object, ...], value: Json) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise UnreadableError(repr(value)[:60])
    if kinds[-1] is Ellipsis:
        return tuple(decode(kinds[0], item) for item in value)
    if len(value) != len(kinds):
        raise UnreadableError(repr(value)[:60])
    return tuple(map(decode, kinds, value))


def _record(kind: type, value: Json) -> object:
    declared = _fields(kind)
    if not isinstance(value, list) or len(value) != len(declared):
        raise UnreadableError(repr(value)[:60])
    return kind(**{name: decode(of, one) for (name, of), one in zip(declared, value, strict=True)})


@cache
def _fields(kind: type) -> tuple[tuple[str, object], ...]:
    """Names and types, evaluated where the record is defined."""
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))
