"""Checks the arguments of a primitive against the annotations of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, Signature, signature
from types import NoneType, UnionType
from typing import Any, Final, Protocol, Union, get_args, get_origin, get_type_hints

from exogpu.diagnostics.errors import Diagnostic
from exogpu.ir.nodes import Proc

NAMED: Final[Mapping[object, str]] = {
    NoneType: "None",
    int: "an integer",
    str: "text",
    bool: "True or False",
}
"""Types as messages call them; others by their own names."""


def misgiven(
    make: Callable[..., object], arguments: Sequence[object], options: Mapping[str, object]
) -> str | None:
    """Describes the first argument of a type that its parameter does not take; the first is a
    procedure.

    Parameters that take any object, or say nothing, look at it themselves, and so does Python at
    missing ones.
    """
    of, hints = _signature_of(make)
    try:
        given = of.bind(*arguments, **options).arguments
    except TypeError:
        return None
    for name, value in given.items():
        match of.parameters[name].kind:
            case Parameter.VAR_KEYWORD:
                continue
            case Parameter.VAR_POSITIONAL:
                values = tuple(value)
            case _:
                values = (value,)
        hint = hints.get(name, object)
        for one in values:
            if not _is_of_type(one, hint):
                return f"{name} is of type {type(one).__name__}, and must be {_type_text(hint)}"
    return None


@cache
def _signature_of(make: Callable[..., object]) -> tuple[Signature, Mapping[str, Any]]:
    try:
        return signature(make), get_type_hints(make)
    except (NameError, AttributeError, TypeError):  # of a step that somebody wrote: not to be read
        return signature(make), {}


def _is_of_type(value: object, hint: object) -> bool:
    """Tests whether a value is of a type; of containers each element."""
    parts = get_args(hint)
    match get_origin(hint):
        case None if isinstance(hint, type):
            return isinstance(value, hint) and not (hint is int and isinstance(value, bool))
        case origin if origin in (Union, UnionType):
            return any(_is_of_type(value, part) for part in parts)
        case origin if isinstance(origin, type) and issubclass(origin, Sequence):
            if isinstance(value, str) or not isinstance(value, list | tuple):
                return False
            if origin is tuple and ... not in parts:
                return len(value) == len(parts) and all(map(_is_of_type, value, parts))
            return all(
                any(_is_of_type(one, part) for part in parts if part is not ...) for one in value
            )
        case origin if isinstance(origin, type):
            return isinstance(value, origin)
        case _:
            return True


def _type_text(hint: object) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_type_text, get_args(hint)))
    said = NAMED.get(hint) or str(getattr(hint, "__name__", hint))
    inner = [_type_text(part) for part in get_args(hint) if part is not ...]
    return f"{said} of {', '.join(inner)}" if inner else said


# The protocol of a procedure that can be scheduled.


class Schedulable(Protocol):
    """A procedure as `exogpu.api` has it; this room does not know that one."""

    name: str
    made_in: str
    ir: Proc | None

    @property
    def refusals(self) -> tuple[Diagnostic, ...]:
        """The errors of its definition."""
        ...

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that is wrong with it, but for hazards."""
        ...
