"""Repeats calls: what an earlier call of the same shapes chose, checked and launched is kept.

A call of the package checks its arguments, chooses kernels, makes arrays and launches.  All but the
addresses follows from types, shapes and strides: the first such call is recorded, and a later one
makes the arrays and launches the plans.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from exogpu.codegen.runtime.plans import MOST_PLANS, Plan, Record, recording, shape_key

_P = ParamSpec("_P")
_R = TypeVar("_R")

_CALLS: Final[list[dict[Hashable, _Recorded]]] = []
"""The recorded calls of each function."""


@dataclass(frozen=True, slots=True)
class _Launch:
    """A plan, the function that enqueues it, and its tensors: numbers among those of the call."""

    enqueue: Callable[[Plan, tuple[int, ...]], None]
    plan: Plan
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A call: shapes and types of the arrays that it makes, its launches, and its result.

    Tensors have numbers: those of the caller first, then those that are made.
    """

    made: tuple[tuple[tuple[int, ...], Any], ...]
    launches: tuple[_Launch, ...]
    results: tuple[int, ...]
    several: bool
    """The result is a tuple."""

    def repeat(self, tensors: list[Any]) -> tuple[Any] | None:
        """Makes the arrays, launches, and returns the result in a tuple; None, with nothing
        launched, where an address does not fit."""
        like = tensors[0]
        every = [*tensors, *[like.new_empty(shape, dtype=dtype) for shape, dtype in self.made]]
        addresses = [tensor.data_ptr() for tensor in every]
        given = [tuple([addresses[at] for at in one.sources]) for one in self.launches]
        for one, here in zip(self.launches, given, strict=True):
            if not one.plan.admits(here):
                return None
        for one, here in zip(self.launches, given, strict=True):
            one.enqueue(one.plan, here)
        if self.several:
            return (tuple([every[at] for at in self.results]),)
        return (every[self.results[0]],)


def remember_calls(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Repeats a call where types, shapes, strides, numbers and stream are those of an earlier one.

    The function must look at nothing else of its tensors, and use them by kernels alone.
    """
    known: dict[Hashable, _Recorded] = {}
    _CALLS.append(known)

    @wraps(call)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        found = shape_key((*args, *kwargs.values()), tuple(kwargs), kwargs.get("stream"))
        if found is None:
            return call(*args, **kwargs)
        key, tensors = found
        recorded = known.get(key)
        if recorded is not None:
            result = recorded.repeat(tensors)
            if result is not None:
                return result[0]  # type: ignore[no-any-return]
        with recording() as record:
            answer = call(*args, **kwargs)
        if (made := _recorded(record, tensors, answer)) is not None:
            if len(known) >= MOST_PLANS:
                known.clear()
            known[key] = made
        return answer

    return wrapped


def forget() -> None:
    """Forgets all calls, so that the next ones choose their kernels again."""
    for known in _CALLS:
        known.clear()


def _recorded(record: Record, tensors: list[Any], answer: Any) -> _Recorded | None:
    """Returns what repeats a call; None where an address is of no tensor, or of two."""
    if not record.repeatable or not record.launches:
        return None
    every = [*tensors, *record.made]
    numbers = {tensor.data_ptr(): at for at, tensor in enumerate(every)}
    used = {address for *_, addresses in record.launches for address in addresses}
    if len(numbers) < len(every) or not used <= numbers.keys():
        return None
    several = type(answer) is tuple
    places = {id(tensor): at for at, tensor in enumerate(every)}
    results = [places.get(id(one)) for one in (answer if several else (answer,))]
    if None in results:
        return None
    launches = [
        _Launch(enqueue, plan, tuple(numbers[address] for address in addresses))
        for enqueue, plan, addresses in record.launches
    ]
    made = tuple((tuple(one.shape), one.dtype) for one in record.made)
    return _Recorded(made, tuple(launches), tuple(at for at in results if at is not None), several)
