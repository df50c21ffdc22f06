"""Schema of the operations of a program in JSON: fields, expressions, accesses, scopes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from exogpu.diagnostics.hazards import HazardKind
from exogpu.hw.timelines import SHORT
from exogpu.ir.nodes import CVar
from exogpu.ir.types import BarrierMechanism, Level, Sym
from exogpu.symbolic.certificate import program_reader, strict_json
from exogpu.symbolic.certificate.program_reader import Names, formula, threads

_REQUIRED: Final = (
    HazardKind.BOUNDS,
    HazardKind.OVERLAP,
    HazardKind.ALIGN,
    HazardKind.DIVERGENCE,
    HazardKind.OWNERSHIP,
    HazardKind.SLOT,
)


REQUIRED: Final = tuple(kind.value for kind in _REQUIRED)
"""The hazards that a Require may be about."""


PHASED: Final = tuple(one.value for one in BarrierMechanism if one.phased)
"""The mechanisms whose Awaits wait for a numbered arrival."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The names in scope at a place of the program."""

    controls: frozenset[str]
    variables: Mapping[str, Mapping[str, Any]]

    def control(self, name: str) -> CVar | None:
        """A size or an iterator."""
        return CVar(Sym(name, 0)) if name in self.controls else None

    def enter_loop(self, where: str, iterator: str) -> Scope:
        """Inside a loop.  One after the other, loops may have one iterator."""
        if iterator in self.controls or iterator in self.variables:
            strict_json.malformed(
                where, f"{strict_json.shorten(iterator)} is the name of something else here"
            )
        return replace(self, controls=self.controls | {iterator})


def check_operations(body: object, scope: Scope) -> int:
    """Checks all of a program's operations; how many there are, without loops and guards."""
    count = 0
    blocks: list[tuple[object, str, Scope]] = [(body, "body", scope)]
    while blocks:
        block, where, around = blocks.pop()
        for place, op in strict_json.list_members(where, block):
            _operation(op, place, around)
            if op["op"] == "Loop":
                inner = around.enter_loop(f"{place}.iterator", op["iterator"])
                blocks.append((op["body"], f"{place}.body", inner))
            elif op["op"] == "Guard":
                blocks.append((op["body"], f"{place}.body", around))
            else:
                count += 1
    return count


def _operation(value: object, where: str, scope: Scope) -> None:
    if not isinstance(value, dict) or "op" not in value:
        strict_json.malformed(where, f"{strict_json.shorten(value)} is no operation")
    kind = value["op"]
    if not isinstance(kind, str) or kind not in OPERATIONS:
        strict_json.malformed(f"{where}.op", f"there is no operation {strict_json.shorten(kind)}")
    own = {name: shape(scope) for name, shape in OPERATIONS[kind].items()}
    if kind == "Loop" and value.get("mode") == "slot":
        own |= {name: shape(scope) for name, shape in _SLOT.items()}
    if kind == "Loop" and value.get("mode") == "loaded":
        own |= {name: shape(scope) for name, shape in _LOADED.items()}
    origin = {name: shape(scope) for name, shape in _ORIGIN.items()}
    found = strict_json.fields(where, value, op=strict_json.one_of([kind]), **own, **origin)
    if not set(found.get("full", ())) <= set(found.get("temporal", found.get("full", ()))):
        strict_json.malformed(f"{where}.temporal", "it does not include `full`")
    if kind == "Require":
        _conditions(found, where, scope)
    if kind == "Await" and (found["n"] < 0) != _is_phased(found["barrier"], scope):
        strict_json.malformed(
            f"{where}.n", "what has phases waits for a numbered arrival, and no other does"
        )


def _conditions(found: Mapping[str, Any], where: str, scope: Scope) -> None:
    """The conditions of a Require read its own variables, too."""
    for place, one in strict_json.list_members(f"{where}.each", found["each"]):
        scope = scope.enter_loop(f"{place}.name", one["name"])
    if bool(found["conditions"]) == bool(found["together"]):
        strict_json.malformed(
            where, "it requires conditions of numbers, or that threads stay together"
        )
    if (found["kind"] == HazardKind.DIVERGENCE.value) != bool(found["together"]):
        strict_json.malformed(f"{where}.kind", "another kind of requirement")
    if found["together"] and found["threads"] is None:
        strict_json.malformed(f"{where}.threads", "there are none that could stay together")
    pitch = 1
    for place, digit in reversed(
        [*strict_json.list_members(f"{where}.together", found["together"])]
    ):
        if digit["pitch"] != pitch:
            strict_json.malformed(f"{place}.pitch", "the digits of a thread's index have no gaps")
        pitch *= digit["extent"]
    for place, one in strict_json.list_members(f"{where}.conditions", found["conditions"]):
        checked_formula(scope)(one, place)


def _is_phased(access: Mapping[str, Any], scope: Scope) -> bool:
    return scope.variables[access["variable"]].get("mechanism") in PHASED


_Scoped: TypeAlias = Callable[[Scope], strict_json.Shape]


def _expression(read: Callable[[str, Names], object]) -> _Scoped:
    def scoped(scope: Scope) -> strict_json.Shape:
        def check(value: object, where: str) -> None:
            strict_json.TEXT(value, where)
            try:
                read(str(value), scope.control)
            except strict_json.MalformedError as flaw:
                strict_json.malformed(where, f"{strict_json.shorten(value)}: {flaw}")

        return check

    return scoped


checked_number: Final = _expression(program_reader.number)


checked_formula: Final = _expression(formula)


def _threads(scope: Scope) -> strict_json.Shape:
    return strict_json.maybe(_expression(threads)(scope))


def _declared_name(scope: Scope) -> strict_json.Shape:
    def check(value: object, where: str) -> None:
        if not isinstance(value, str) or value not in scope.variables:
            strict_json.malformed(where, f"{strict_json.shorten(value)} is no variable")

    return check


def barrier_element(scope: Scope) -> strict_json.Shape:
    def check(value: object, where: str) -> None:
        _declared_name(scope)(value, where)
        if "mechanism" not in scope.variables[str(value)]:
            strict_json.malformed(where, f"{strict_json.shorten(value)} is no barrier")

    return check


def data_element(scope: Scope) -> strict_json.Shape:
    def check(value: object, where: str) -> None:
        _declared_name(scope)(value, where)
        if "mechanism" in scope.variables[str(value)]:
            strict_json.malformed(where, f"{strict_json.shorten(value)} is a barrier")

    return check


def _access(variable: _Scoped, *, points: bool = False) -> _Scoped:
    """A window, or where `points`, an element."""

    def scoped(scope: Scope) -> strict_json.Shape:
        number = checked_number(scope)

        def coordinate(value: object, where: str) -> None:
            if isinstance(value, list) and not points:
                if len(value) != 2:
                    strict_json.malformed(where, "an interval has two ends")
                for place, one in strict_json.list_members(where, value):
                    number(one, place)
            else:
                number(value, where)

        def check(value: object, where: str) -> None:
            found = strict_json.fields(
                where, value, variable=variable(scope), coords=strict_json.a_list(coordinate)
            )
            if len(found["coords"]) != len(scope.variables[found["variable"]]["shape"]):
                strict_json.malformed(
                    f"{where}.coords", "the variable has another number of dimensions"
                )

        return check

    return scoped


def _tagged(scope: Scope) -> strict_json.Shape:
    """The schema of a trailing barrier's tags."""
    return strict_json.maybe(
        strict_json.an_object(home=_ELEMENT(scope), targets=strict_json.a_list(_WINDOW(scope)))
    )


def _bounded_variables(scope: Scope) -> strict_json.Shape:
    """Variables of a Require; the bounds of each may read those before it."""

    def check(value: object, where: str) -> None:
        around = scope
        for place, one in strict_json.list_members(where, value):
            number = checked_number(around)
            found = strict_json.fields(place, one, name=strict_json.NAME, lo=number, hi=number)
            around = around.enter_loop(f"{place}.name", found["name"])

    return check


def _always(shape: strict_json.Shape) -> _Scoped:
    return lambda scope: shape


def _timelines(value: object, where: str) -> None:
    strict_json.a_list(strict_json.one_of(list(SHORT)))(value, where)
    if isinstance(value, list) and value != [name for name in SHORT if name in value]:
        strict_json.malformed(where, "the timelines stand in another order, or twice")


_ANY: Final = _access(_declared_name)


_ELEMENT: Final = _access(barrier_element, points=True)


_WINDOW: Final = _access(barrier_element)


_TRUTH: Final = _always(strict_json.TRUTH)


_TIMELINES: Final = _always(_timelines)


_LEVEL: Final = _always(strict_json.one_of([level.name.lower() for level in Level]))


_RECORD: Final[dict[str, _Scoped]] = {
    "level": _LEVEL,
    "convergent": _TRUTH,
    "access": _ANY,
    "timeline": _always(strict_json.maybe(strict_json.one_of(list(SHORT)))),
    "atomic": _TIMELINES,
    "trailing": _tagged,
    "inside": _TRUTH,
}


_CHECK: Final[dict[str, _Scoped]] = {
    "level": _LEVEL,
    "convergent": _TRUTH,
    "access": _ANY,
    "timelines": _TIMELINES,
    "free": _TRUTH,
    "reads": _TRUTH,
}


OPERATIONS: Final[dict[str, dict[str, _Scoped]]] = {
    "Loop": {
        "iterator": _always(strict_json.NAME),
        "lo": checked_number,
        "hi": checked_number,
        "mode": _always(strict_json.one_of(["tasks", "threads", "seq"])),
        "body": _always(lambda value, where: None),
    },
    "Guard": {"condition": checked_formula, "body": _always(lambda value, where: None)},
    "IncTaskID": {},
    "Alloc": {"variable": _declared_name},
    "Release": {"variable": _declared_name},
    "CheckBarrier": {"variable": barrier_element},
    "RecordRead": _RECORD,
    "RecordMutate": _RECORD,
    "CheckReads": _CHECK,
    "CheckMutates": _CHECK,
    "ClearReads": {"access": _ANY},
    "ClearMutates": {"access": _ANY},
    "Initialise": {"access": _access(data_element), "uninit": _TRUTH},
    "CheckInitialised": {"access": _access(data_element)},
    "Fence": {
        "transitive": _TRUTH,
        "joins": _TRUTH,
        "pre": _TIMELINES,
        "full": _TIMELINES,
        "temporal": _TIMELINES,
    },
    "Arrive": {
        "transitive": _TRUTH,
        "pre": _TIMELINES,
        "home": _ELEMENT,
        "targets": lambda scope: strict_json.a_list(_WINDOW(scope)),
    },
    "Await": {
        "barrier": _ELEMENT,
        "full": _TIMELINES,
        "temporal": _TIMELINES,
        "n": _always(strict_json.integer_between()),
    },
    "Require": {
        "kind": _always(strict_json.one_of(REQUIRED)),
        "variable": lambda scope: strict_json.maybe(_declared_name(scope)),
        "each": _bounded_variables,
        "conditions": _always(strict_json.a_list(strict_json.TEXT)),
        "together": _always(
            strict_json.a_list(
                strict_json.an_object(
                    pitch=strict_json.integer_between(1),
                    extent=strict_json.integer_between(1),
                    size=strict_json.integer_between(1),
                )
            )
        ),
    },
}


_SLOT: Final[dict[str, _Scoped]] = {
    "lo": _always(strict_json.one_of(["(0)"])),
    "mode": _always(strict_json.one_of(["slot"])),
    "slot": _ELEMENT,
}
"""The fields of a loop that binds a slot."""


_LOADED: Final[dict[str, _Scoped]] = {
    "mode": _always(strict_json.one_of(["loaded"])),
    "source": _access(data_element, points=True),
}
"""The fields of a loop that binds a value from memory."""


_ORIGIN: Final[dict[str, _Scoped]] = {
    "file": _always(strict_json.FILE_NAME),
    "line": _always(strict_json.integer_between(0)),
    "column": _always(strict_json.integer_between(0)),
    "text": _always(strict_json.TEXT),
    "threads": _threads,
}
