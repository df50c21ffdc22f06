"""Schema of a program's JSON (docs/amir.md), to the last field: nothing unknown, nothing more.

Of what the program means this says nothing.  It says that each name is declared where it is used,
and once, and that an operation has the fields of its kind, with values that exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.types import BarrierMechanism
from exogpu.symbolic.certificate.access_rules import check_accesses
from exogpu.symbolic.certificate.lifetime_rules import check_lifetimes
from exogpu.symbolic.certificate.operation_schema import (
    OPERATIONS,
    PHASED,
    Scope,
    barrier_element,
    check_operations,
    checked_formula,
    checked_number,
    data_element,
)
from exogpu.symbolic.certificate.program_rules import (
    FLAG,
    LAUNCH,
    check_flags,
    check_launches,
    check_loads,
)
from exogpu.symbolic.certificate.shared_reuse import check_reuse
from exogpu.symbolic.certificate.strict_json import (
    NAME,
    TEXT,
    TRUTH,
    Shape,
    a_list,
    an_object,
    fields,
    integer_between,
    list_members,
    malformed,
    matching,
    maybe,
    one_of,
    shorten,
)

SCHEMA: Final = 4
"""As `exogpu.amir.export` writes it."""


CLIPPING: Final = ("tmaS", "tmaG")
"""The timelines of tensor maps, which leave out what lies outside of a variable."""

WARPGROUPS: Final = ("wgA", "wgD", "wgS", "wg0")
"""The timelines of instructions that a whole warpgroup executes."""


NAMED: Final = BarrierMechanism.NAMED_BARRIER.value


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
        for place, one in list_members(group, found[group]):
            if one["name"] in names:
                malformed(f"{place}.name", f"there are two {one['name']}")
            names.add(one["name"])
    variables = {one["name"]: one for one in found["variables"]}
    scope = Scope(frozenset(names - set(variables)), variables)
    for place, one in list_members("preconditions", found["preconditions"]):
        checked_formula(scope)(one, place)
    if not check_operations(found["body"], scope):
        malformed("body", "there are no operations, of which nothing could be proved")
    for place, one in list_members("variables", found["variables"]):
        if "guard" in one and one["guard"] is not None:
            barrier_element(scope)(one["guard"], f"{place}.guard")
    _shapes(found, scope)
    _check_conversion(found)
    check_launches(found["variables"], operations(found))
    contracts = found.get("contracts", [])
    for place, one in list_members("contracts", contracts):
        data_element(scope)(one["array"], f"{place}.array")
    check_loads(found["variables"], operations(found), contracts)
    check_flags(found["variables"], operations(found))
    _check_allocated(found)
    check_lifetimes(found)
    check_accesses(found)
    check_reuse(found)
    return found


def operations(program: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Lists a program's operations in program order."""
    pending, ordered = program["body"][::-1], []
    while pending:
        ordered.append(op := pending.pop())
        pending += op.get("body", [])[::-1]
    return ordered


def _imported(value: object, where: str) -> None:
    """Checks the origin of an imported kernel."""
    digest = matching("[0-9a-f]{64}", "a digest")
    shape = an_object(compiler=TEXT, digest=digest, assumptions=a_list(TEXT))
    shape(value, where)


def _contracts(value: object, where: str) -> None:
    """Some, none of them twice, those of an array about the same elements."""
    a_list(_contract)(value, where)
    assert isinstance(value, list)
    if len({(one["array"], one.get("least")) for one in value}) > len({c["array"] for c in value}):
        malformed(where, "two of an array are about other elements")
    if not value or len({(one["kind"], one["array"]) for one in value}) < len(value):
        malformed(where, "there are none, or one stands twice")


def _contract(value: object, where: str) -> None:
    some = isinstance(value, dict) and "least" in value
    least = {"least": integer_between(-(1 << 63), (1 << 63) - 1)} if some else {}
    fields(where, value, kind=one_of(["monotone", "injective"]), array=NAME, **least)


def _shapes(program: Mapping[str, Any], scope: Scope) -> None:
    """Extents may use the iterators around the allocation."""
    iterators = {op["iterator"] for op in operations(program) if op["op"] == "Loop"}
    number = checked_number(replace(scope, controls=scope.controls | iterators))
    for place, one in list_members("variables", program["variables"]):
        a_list(number)(one["shape"], f"{place}.shape")


def _check_conversion(program: Mapping[str, Any]) -> None:
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
        at = {kind: places[name, kind] for kind in OPERATIONS}
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
        malformed(where, f"{shorten(value)} is no policy; there are {known}")


def _variable(value: object, where: str) -> None:
    shapes: dict[str, Shape] = {
        "name": NAME,
        "shape": a_list(TEXT),
        "shared": TRUTH,
        "task_local": TRUTH,
        "owner": maybe(integer_between(1)),
    }
    if isinstance(value, dict) and "mechanism" in value:
        shapes["mechanism"] = one_of([one.value for one in BarrierMechanism])
        shapes["guard"] = maybe(NAME)
        shapes["depth"] = maybe(integer_between(1))
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


# --- the values of their fields -----------------------------------------------------------------
