"""Schema of a program's JSON (docs/amir.md), to the last field: nothing unknown, nothing more.

Of what the program means this says nothing.  It says that each name is declared where it is used,
and once, and that an operation has the fields of its kind, with values that exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from exogpu.hw.timelines import SHORT
from exogpu.ir.names import Sym
from exogpu.ir.nodes import CVar
from exogpu.ir.types import BarrierMechanism, Level, Policy
from exogpu.result.hazards import HazardKind
from exogpu.symbolic.certificate.expressions import Names, formula, number, threads
from exogpu.symbolic.certificate.flags import FLAG, check_flags
from exogpu.symbolic.certificate.launched import LAUNCH, check_launches
from exogpu.symbolic.certificate.lifetimes import check_lifetimes
from exogpu.symbolic.certificate.loaded import check_loads
from exogpu.symbolic.certificate.strict_json import (
    FILE_NAME,
    NAME,
    TEXT,
    TRUTH,
    MalformedError,
    Shape,
    a_list,
    an_object,
    each,
    fields,
    malformed,
    matching,
    maybe,
    one_of,
    shown,
    whole,
)

SCHEMA: Final = 4
"""As `exogpu.amir.export` writes it."""

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

CLIPPING: Final = ("tmaS", "tmaG")
"""The timelines of tensor maps, which leave out what lies outside of a variable."""

WARPGROUPS: Final = ("wgA", "wgD", "wgS", "wg0")
"""The timelines of instructions that a whole warpgroup executes."""

PHASED: Final = tuple(one.value for one in BarrierMechanism if one.phased)
"""The mechanisms whose Awaits wait for a numbered arrival."""

NAMED: Final = BarrierMechanism.NAMED_BARRIER.value


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names in scope at a place of the program."""

    controls: frozenset[str]
    variables: Mapping[str, Mapping[str, Any]]

    def control(self, name: str) -> CVar | None:
        """A size or an iterator."""
        return CVar(Sym(name, 0)) if name in self.controls else None

    def within(self, where: str, iterator: str) -> _Scope:
        """Inside a loop.  One after the other, loops may have one iterator."""
        if iterator in self.controls or iterator in self.variables:
            malformed(where, f"{shown(iterator)} is the name of something else here")
        return replace(self, controls=self.controls | {iterator})


def check_program(program: object) -> dict[str, Any]:
    """The JSON of a program.  Raises MalformedError."""
    some = isinstance(program, dict) and "contracts" in program
    elsewhere = isinstance(program, dict) and "imported" in program
    found = fields(
        "",
        program,
        schema=one_of([SCHEMA]),
        name=NAME,
        policy=policy,
        params=a_list(an_object(name=NAME, kind=one_of(["size", "index"]))),
        preconditions=a_list(TEXT),
        variables=a_list(_variable),
        body=lambda value, where: None,
        **({"contracts": _contracts} if some else {}),
        **({"imported": _imported} if elsewhere else {}),
    )
    names: set[str] = set()
    for group in ("params", "variables"):
        for place, one in each(group, found[group]):
            if one["name"] in names:
                malformed(f"{place}.name", f"there are two {one['name']}")
            names.add(one["name"])
    variables = {one["name"]: one for one in found["variables"]}
    scope = _Scope(frozenset(names - set(variables)), variables)
    for place, one in each("preconditions", found["preconditions"]):
        _formula(scope)(one, place)
    if not _operations(found["body"], scope):
        malformed("body", "there are no operations, of which nothing could be proved")
    for place, one in each("variables", found["variables"]):
        if "guard" in one and one["guard"] is not None:
            _barrier(scope)(one["guard"], f"{place}.guard")
    _shapes(found, scope)
    _whole(found)
    check_launches(found["variables"], operations(found))
    contracts = found.get("contracts", [])
    for place, one in each("contracts", contracts):
        _data(scope)(one["array"], f"{place}.array")
    check_loads(found["variables"], operations(found), contracts)
    check_flags(found["variables"], operations(found))
    _check_allocated(found)
    check_lifetimes(found)
    return found


def operations(program: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All of a program's operations, block by block."""
    blocks, found = [program["body"]], []
    while blocks:
        block = blocks.pop()
        found += block
        blocks += [op["body"] for op in block if "body" in op]
    return found


def _imported(value: object, where: str) -> None:
    """Checks the origin of an imported kernel."""
    digest = matching("[0-9a-f]{64}", "a digest")
    shape = an_object(compiler=TEXT, digest=digest, assumptions=a_list(TEXT))
    shape(value, where)


def _contracts(value: object, where: str) -> None:
    """Some, none of them twice."""
    a_list(an_object(kind=one_of(["monotone", "injective"]), array=NAME))(value, where)
    assert isinstance(value, list)
    if not value or len({(one["kind"], one["array"]) for one in value}) < len(value):
        malformed(where, "there are none, or one stands twice")


def _shapes(program: Mapping[str, Any], scope: _Scope) -> None:
    """Extents may use the iterators around the allocation."""
    iterators = {op["iterator"] for op in operations(program) if op["op"] == "Loop"}
    number = _number(replace(scope, controls=scope.controls | iterators))
    for place, one in each("variables", program["variables"]):
        a_list(number)(one["shape"], f"{place}.shape")


def _whole(program: Mapping[str, Any]) -> None:
    """Checks that operations converted together stand together: data accesses are recorded, checked
    and bounded; warpgroups and clusters are kept together; a barrier is checked at its end, and
    allocations are released."""
    places: dict[tuple[str, str], set[tuple[Any, ...]]] = defaultdict(set)
    together: set[tuple[Any, ...]] = set()
    for op in operations(program):
        access = op.get("access") or op.get("home") or op.get("barrier") or op
        kind = op["kind"] if op["op"] == "Require" else op["op"]
        if "variable" in access:
            places[str(access["variable"]), kind].add(_place(op))
        if kind == HazardKind.DIVERGENCE.value:
            together.add(_place(op))
    for op in operations(program):
        if op["op"] in ("RecordRead", "RecordMutate"):
            name = op["access"]["variable"]
            bound = op["inside"] or op["timeline"] in CLIPPING
            if not bound and _place(op) not in places[name, HazardKind.BOUNDS.value]:
                malformed("body", f"{_operation_in_words(op)} of {name} without bounds")
            if op["timeline"] in WARPGROUPS and _place(op) not in together:
                malformed("body", f"{_operation_in_words(op)} of {name} without a warpgroup")
    for variable in program["variables"]:
        name = variable["name"]
        at = {kind: places[name, kind] for kind in _OPERATIONS}
        if variable.get("mechanism") == BarrierMechanism.CLUSTER_SYNC.value:
            for line, text, _ in sorted((at["Arrive"] | at["Await"]) - together):
                malformed("body", f"line {line} ({text}) uses {name} without a cluster")
        elsewhere = "mechanism" in variable or variable["shared"] or not variable["task_local"]
        if (variable["owner"] is None) != (elsewhere or not at["Alloc"]):
            malformed("variables", f"{name} has an owner if it is allocated in registers")
        if at["Alloc"] and not at["Release"]:
            malformed("body", f"{name} is allocated and not released")
        if "mechanism" in variable:
            ends = variable["mechanism"] not in (LAUNCH, FLAG)
            if ends and (at["Arrive"] or at["Await"]) and not at["CheckBarrier"]:
                malformed("body", f"{name} has no CheckBarrier")
            continue
        for record, check in _CHECKED_BY:
            for line, text, _ in sorted(at[record] - at[check]):
                malformed("body", f"line {line} ({text}) has {record} of {name} and no {check}")


def _check_allocated(program: Mapping[str, Any]) -> None:
    """Checks that each variable is allocated where its kind is.

    Shared memory, and memory freed on the host, is no parameter.  A variable of a task is allocated
    in a task; no other variable is.
    """
    allocated = _allocated(operations(program))
    tasks = (op for op in operations(program) if op["op"] == "Loop" and op["mode"] == "tasks")
    in_tasks = _allocated(op for loop in tasks for op in operations(loop))
    for variable in program["variables"]:
        name = variable["name"]
        if (variable["shared"] or variable.get("host", False)) and name not in allocated:
            malformed("body", f"{name} is allocated nowhere")
        if variable["task_local"] != (name in in_tasks):
            malformed("variables", f"{name} is of a task if it is allocated in one")


def _allocated(operations: Iterable[Mapping[str, Any]]) -> set[str]:
    return {op["variable"] for op in operations if op["op"] == "Alloc"}


def _place(op: Mapping[str, Any]) -> tuple[Any, ...]:
    return op["line"], op["text"], op["file"]


def _operation_in_words(op: Mapping[str, Any]) -> str:
    return f"line {op['line']} ({op['text']}) has {op['op']}"


_CHECKED_BY: Final = (
    ("RecordRead", "CheckMutates"),
    ("RecordMutate", "CheckMutates"),
    ("RecordMutate", "CheckReads"),
)


def policy(value: object, where: str) -> None:
    """A policy by one of its names."""
    try:
        Policy(value)
    except ValueError:
        known = ", ".join(one.value for one in Policy)
        malformed(where, f"{shown(value)} is no policy; there are {known}")


def _variable(value: object, where: str) -> None:
    shapes: dict[str, Shape] = {
        "name": NAME,
        "shape": a_list(TEXT),
        "shared": TRUTH,
        "task_local": TRUTH,
        "owner": maybe(whole(1)),
    }
    if isinstance(value, dict) and "mechanism" in value:
        shapes["mechanism"] = one_of([one.value for one in BarrierMechanism])
        shapes["guard"] = maybe(NAME)
        shapes["depth"] = maybe(whole(1))
    if isinstance(value, dict) and "host" in value:
        shapes["host"] = one_of([True])
    found = fields(where, value, **shapes)
    if "host" in found and (found["shared"] or found["task_local"] or "mechanism" in found):
        malformed(f"{where}.host", "what is in memory of the host is of no task, and no barrier")
    if "mechanism" in found and found["shared"] != (found["mechanism"] in PHASED):
        malformed(f"{where}.shared", "what has phases is in shared memory, other barriers are not")
    if found.get("mechanism") == NAMED and found["depth"] != 1:
        malformed(f"{where}.depth", "a named barrier keeps one phase")


# --- operations ---------------------------------------------------------------------------------


def _operations(body: object, scope: _Scope) -> int:
    """Checks all of a program's operations; how many there are, without loops and guards."""
    count = 0
    blocks: list[tuple[object, str, _Scope]] = [(body, "body", scope)]
    while blocks:
        block, where, around = blocks.pop()
        for place, op in each(where, block):
            _operation(op, place, around)
            if op["op"] == "Loop":
                inner = around.within(f"{place}.iterator", op["iterator"])
                blocks.append((op["body"], f"{place}.body", inner))
            elif op["op"] == "Guard":
                blocks.append((op["body"], f"{place}.body", around))
            else:
                count += 1
    return count


def _operation(value: object, where: str, scope: _Scope) -> None:
    if not isinstance(value, dict) or "op" not in value:
        malformed(where, f"{shown(value)} is no operation")
    kind = value["op"]
    if not isinstance(kind, str) or kind not in _OPERATIONS:
        malformed(f"{where}.op", f"there is no operation {shown(kind)}")
    own = {name: shape(scope) for name, shape in _OPERATIONS[kind].items()}
    if kind == "Loop" and value.get("mode") == "slot":
        own |= {name: shape(scope) for name, shape in _SLOT.items()}
    if kind == "Loop" and value.get("mode") == "loaded":
        own |= {name: shape(scope) for name, shape in _LOADED.items()}
    origin = {name: shape(scope) for name, shape in _ORIGIN.items()}
    found = fields(where, value, op=one_of([kind]), **own, **origin)
    if not set(found.get("full", ())) <= set(found.get("temporal", found.get("full", ()))):
        malformed(f"{where}.temporal", "it does not include `full`")
    if kind == "Require":
        _conditions(found, where, scope)
    if kind == "Await" and (found["n"] < 0) != _is_phased(found["barrier"], scope):
        malformed(f"{where}.n", "what has phases waits for a numbered arrival, and no other does")


def _conditions(found: Mapping[str, Any], where: str, scope: _Scope) -> None:
    """The conditions of a Require read its own variables, too."""
    for place, one in each(f"{where}.each", found["each"]):
        scope = scope.within(f"{place}.name", one["name"])
    if bool(found["conditions"]) == bool(found["together"]):
        malformed(where, "it requires conditions of numbers, or that threads stay together")
    if (found["kind"] == HazardKind.DIVERGENCE.value) != bool(found["together"]):
        malformed(f"{where}.kind", "another kind of requirement")
    if found["together"] and found["threads"] is None:
        malformed(f"{where}.threads", "there are none that could stay together")
    pitch = 1
    for place, digit in reversed([*each(f"{where}.together", found["together"])]):
        if digit["pitch"] != pitch:
            malformed(f"{place}.pitch", "the digits of a thread's index have no gaps")
        pitch *= digit["extent"]
    for place, one in each(f"{where}.conditions", found["conditions"]):
        _formula(scope)(one, place)


def _is_phased(access: Mapping[str, Any], scope: _Scope) -> bool:
    return scope.variables[access["variable"]].get("mechanism") in PHASED


# --- the values of their fields -----------------------------------------------------------------

_Scoped: TypeAlias = Callable[[_Scope], Shape]


def _expression(read: Callable[[str, Names], object]) -> _Scoped:
    def scoped(scope: _Scope) -> Shape:
        def check(value: object, where: str) -> None:
            TEXT(value, where)
            try:
                read(str(value), scope.control)
            except MalformedError as flaw:
                malformed(where, f"{shown(value)}: {flaw}")

        return check

    return scoped


_number: Final = _expression(number)
_formula: Final = _expression(formula)


def _threads(scope: _Scope) -> Shape:
    return maybe(_expression(threads)(scope))


def _named(scope: _Scope) -> Shape:
    def check(value: object, where: str) -> None:
        if not isinstance(value, str) or value not in scope.variables:
            malformed(where, f"{shown(value)} is no variable")

    return check


def _barrier(scope: _Scope) -> Shape:
    def check(value: object, where: str) -> None:
        _named(scope)(value, where)
        if "mechanism" not in scope.variables[str(value)]:
            malformed(where, f"{shown(value)} is no barrier")

    return check


def _data(scope: _Scope) -> Shape:
    def check(value: object, where: str) -> None:
        _named(scope)(value, where)
        if "mechanism" in scope.variables[str(value)]:
            malformed(where, f"{shown(value)} is a barrier")

    return check


def _access(variable: _Scoped, *, points: bool = False) -> _Scoped:
    """A window, or where `points`, an element."""

    def scoped(scope: _Scope) -> Shape:
        number = _number(scope)

        def coordinate(value: object, where: str) -> None:
            if isinstance(value, list) and not points:
                if len(value) != 2:
                    malformed(where, "an interval has two ends")
                for place, one in each(where, value):
                    number(one, place)
            else:
                number(value, where)

        def check(value: object, where: str) -> None:
            found = fields(where, value, variable=variable(scope), coords=a_list(coordinate))
            if len(found["coords"]) != len(scope.variables[found["variable"]]["shape"]):
                malformed(f"{where}.coords", "the variable has another number of dimensions")

        return check

    return scoped


def _tagged(scope: _Scope) -> Shape:
    """The schema of a trailing barrier's tags."""
    return maybe(an_object(home=_ELEMENT(scope), targets=a_list(_WINDOW(scope))))


def _each(scope: _Scope) -> Shape:
    """Variables of a Require; the bounds of each may read those before it."""

    def check(value: object, where: str) -> None:
        around = scope
        for place, one in each(where, value):
            number = _number(around)
            found = fields(place, one, name=NAME, lo=number, hi=number)
            around = around.within(f"{place}.name", found["name"])

    return check


def _always(shape: Shape) -> _Scoped:
    return lambda scope: shape


def _timelines(value: object, where: str) -> None:
    a_list(one_of(list(SHORT)))(value, where)
    if isinstance(value, list) and value != [name for name in SHORT if name in value]:
        malformed(where, "the timelines stand in another order, or twice")


_ANY: Final = _access(_named)
_ELEMENT: Final = _access(_barrier, points=True)
_WINDOW: Final = _access(_barrier)
_TRUTH: Final = _always(TRUTH)
_TIMELINES: Final = _always(_timelines)
_LEVEL: Final = _always(one_of([level.name.lower() for level in Level]))

_RECORD: Final[dict[str, _Scoped]] = {
    "level": _LEVEL,
    "convergent": _TRUTH,
    "access": _ANY,
    "timeline": _always(maybe(one_of(list(SHORT)))),
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

_OPERATIONS: Final[dict[str, dict[str, _Scoped]]] = {
    "Loop": {
        "iterator": _always(NAME),
        "lo": _number,
        "hi": _number,
        "mode": _always(one_of(["tasks", "threads", "seq"])),
        "body": _always(lambda value, where: None),
    },
    "Guard": {"condition": _formula, "body": _always(lambda value, where: None)},
    "IncTaskID": {},
    "Alloc": {"variable": _named},
    "Release": {"variable": _named},
    "CheckBarrier": {"variable": _barrier},
    "RecordRead": _RECORD,
    "RecordMutate": _RECORD,
    "CheckReads": _CHECK,
    "CheckMutates": _CHECK,
    "ClearReads": {"access": _ANY},
    "ClearMutates": {"access": _ANY},
    "Initialise": {"access": _access(_data), "uninit": _TRUTH},
    "CheckInitialised": {"access": _access(_data)},
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
        "targets": lambda scope: a_list(_WINDOW(scope)),
    },
    "Await": {
        "barrier": _ELEMENT,
        "full": _TIMELINES,
        "temporal": _TIMELINES,
        "n": _always(whole()),
    },
    "Require": {
        "kind": _always(one_of(REQUIRED)),
        "variable": lambda scope: maybe(_named(scope)),
        "each": _each,
        "conditions": _always(a_list(TEXT)),
        "together": _always(a_list(an_object(pitch=whole(1), extent=whole(1), size=whole(1)))),
    },
}

_SLOT: Final[dict[str, _Scoped]] = {
    "lo": _always(one_of(["(0)"])),
    "mode": _always(one_of(["slot"])),
    "slot": _ELEMENT,
}
"""Of a loop that binds a slot."""

_LOADED: Final[dict[str, _Scoped]] = {
    "mode": _always(one_of(["loaded"])),
    "source": _access(_data, points=True),
}
"""Of a loop that binds a value from memory."""

_ORIGIN: Final[dict[str, _Scoped]] = {
    "file": _always(FILE_NAME),
    "line": _always(whole(0)),
    "column": _always(whole(0)),
    "text": _always(TEXT),
    "threads": _threads,
}
