"""Checks the places of Alloc, Check, Clear and Release in a program's JSON.

Each rule is one of `exogpu.amir.lower`.  A program that breaks one is no conversion of anything:

- a variable is allocated once and released once, later in the same block; its uses lie between;
- right before a Release stand the checks that its kind of variable has, of all elements;
- a statement checks a window before it records it, and clears what it checked and then writes;
- what a statement reads of an allocated variable it asks to have been written, before it writes;
- elements are initialised where the statement writes the variable, or is `uninit` of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeAlias

from exogpu.ir.types import BarrierMechanism
from exogpu.symbolic.certificate.strict_json import malformed

Op: TypeAlias = Mapping[str, Any]

_UNCHECKED: Final = (BarrierMechanism.FLAG.value, BarrierMechanism.LAUNCH.value)
"""Barriers whose balance nothing asks for at their end."""

_CHECKS: Final = ("CheckReads", "CheckMutates")

_BEFORE: Final[Mapping[str, tuple[str, ...]]] = {
    "RecordRead": ("CheckMutates",),
    "RecordMutate": _CHECKS,
    "ClearReads": ("CheckReads",),
    "ClearMutates": ("CheckMutates",),
}
"""The checks that a statement has before each of these operations."""

_AFTER: Final[Mapping[str, tuple[str, ...]]] = {
    "CheckReads": ("RecordMutate",),
    "CheckMutates": ("RecordRead", "RecordMutate"),
    "ClearReads": ("RecordMutate",),
    "ClearMutates": ("RecordMutate",),
}
"""The operations of which a statement has one after each of these."""


def check_lifetimes(program: Mapping[str, Any]) -> None:
    """Raises MalformedError for a program whose lifetimes are none of the conversion's."""
    variables = {one["name"]: one for one in program["variables"]}
    blocks = list(_blocks(program["body"]))
    for kind in ("Alloc", "Release"):
        _check_unique([op for block in blocks for op in block if op["op"] == kind], kind)
    for block in blocks:
        _ends(block, variables)
    allocated = set[str]().union(*map(_lifetimes, blocks))
    recorded = {
        op["access"]["variable"]
        for block in blocks
        for op in block
        if op["op"] in ("RecordRead", "RecordMutate")
    }
    for statement in _statements(program["body"]):
        _check_statement(statement, variables)
        # Of what needs no synchronisation (CudaGridConstant) nothing is recorded.
        if "imported" not in program:  # a line there has several operations of another language
            _check_values(statement, variables, allocated & recorded)
    for block in blocks:
        for op in block:
            if op["op"] == "Release" and op["variable"] not in allocated:
                _wrong(op, f"releases {op['variable']}, which is not allocated in its block before")


def _blocks(body: Sequence[Op]) -> Iterator[Sequence[Op]]:
    left = [body]
    while left:
        block = left.pop()
        yield block
        left += [op["body"] for op in block if "body" in op]


def _wrong(op: Op, what: str) -> None:
    malformed("body", f"line {op['line']} ({op['text']}) {what}")


def _check_unique(ops: Sequence[Op], kind: str) -> None:
    seen: set[str] = set()
    for op in ops:
        if op["variable"] in seen:
            _wrong(op, f"has a second {kind} of {op['variable']}")
        seen.add(op["variable"])


# --- lifetimes ----------------------------------------------------------------------------------


def _lifetimes(block: Sequence[Op]) -> set[str]:
    """Returns the variables that a block allocates and releases; none is used outside of it."""
    begins = {op["variable"]: at for at, op in enumerate(block) if op["op"] == "Alloc"}
    if not begins:
        return set()
    ends = {op["variable"]: at for at, op in enumerate(block) if op["op"] == "Release"}
    for name, at in begins.items():
        if ends.get(name, -1) < at:
            _wrong(block[at], f"allocates {name}, which is not released later in its block")
    for at, op in enumerate(block):
        for name in _variables_of(op) & begins.keys() if op["op"] != "Require" else ():
            if not begins[name] <= at <= ends[name]:
                _wrong(op, f"uses {name} before its Alloc or after its Release")
    return set(begins)


def _variables_of(op: Op) -> set[str]:
    """The variables that an operation names, or one in its body."""
    found: set[str] = set()
    left: list[object] = [op]
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            if isinstance(value.get("variable"), str):
                found.add(value["variable"])
            left += value.values()
        elif isinstance(value, list):
            left += value
    return found


# --- ends ---------------------------------------------------------------------------------------


def _ends(block: Sequence[Op], variables: Mapping[str, Mapping[str, Any]]) -> None:
    """Right before each Release stand its checks.  Elsewhere stand checks of the end of a shared
    variable for those that take its bytes early (`t_reuse`)."""
    expected: dict[int, Op] = {}
    for at, op in enumerate(block):
        if op["op"] != "Release":
            continue
        variable = variables[op["variable"]]
        kinds = _at_the_end(variable)
        first = at - len(kinds)
        found = [one["op"] for one in block[max(first, 0) : at]]
        if found != kinds:
            many = ", ".join(kinds) or "nothing"
            _wrong(op, f"releases {op['variable']} without {many} of it right before")
        for one in block[first:at]:
            if one["threads"] != op["threads"]:
                name = op["variable"]
                _wrong(one, f"checks the end of {name} by other threads than those that release it")
            _check_end(one, variable)
            expected[id(one)] = one
        early = block[:first] if variable["shared"] and "mechanism" not in variable else ()
        for one in early:
            if one.get("free", False) and one["access"]["variable"] == op["variable"]:
                _check_end(one, variable)
                expected[id(one)] = one
    for op in block:
        is_end = op["op"] == "CheckBarrier" or op.get("free", False)
        if is_end and id(op) not in expected:
            _wrong(op, f"has {op['op']} of an end, and no Release right after it")


def _at_the_end(variable: Mapping[str, Any]) -> list[str]:
    """The operations before a variable's Release (`t_free`)."""
    mechanism = variable.get("mechanism")
    balanced = mechanism is not None and mechanism not in _UNCHECKED
    checked = variable["shared"] or variable.get("host", False)
    return [*(["CheckBarrier"] if balanced else []), *(_CHECKS if checked else [])]


def _check_end(op: Op, variable: Mapping[str, Any]) -> None:
    """It is of the variable that is released, and of all its elements."""
    name = variable["name"]
    if op["op"] == "CheckBarrier":
        if op["variable"] != name:
            _wrong(op, f"checks another barrier than {name} before its Release")
        return
    if op["access"]["variable"] != name or not op["free"]:
        _wrong(op, f"checks something else than the end of {name} before its Release")
    if (op["threads"] is None) != variable.get("host", False):
        _wrong(op, f"checks the end of {name} at another scope than its own")
    on = ["cpu"] if variable.get("host", False) else ["cuda2"]
    temporal = (op["level"], op["convergent"], op["reads"]) == ("temporally_ordered", False, False)
    if not temporal or op["timelines"] != on:
        _wrong(op, f"asks less, or other things, at the end of {name}")
    for coord, extent in zip(op["access"]["coords"], variable["shape"], strict=True):
        # An extent of the source that reads iterators is less than the variable's.
        whole = isinstance(coord, list) and coord[0] == "(0)"
        if not whole or (coord[1] != extent and coord[1].strip("()").isdigit()):
            _wrong(op, f"checks a part of {name} at its end")


# --- statements ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """An operation of a statement, and the loops and guards of the statement around it."""

    op: Op
    around: tuple[int, ...]


def _statements(body: Sequence[Op]) -> Iterator[list[_Step]]:
    """The operations of each statement, with those in loops and guards of its own."""
    blocks: list[tuple[Sequence[Op], tuple[Any, ...] | None]] = [(body, None)]
    while blocks:
        block, around = blocks.pop()
        for place, ops in groupby(block, _place):
            if place != around:
                yield [step for op in ops for step in _steps(op, place, ())]
        blocks += [(op["body"], _place(op)) for op in block if "body" in op]


def _steps(op: Op, place: tuple[Any, ...], around: tuple[int, ...]) -> Iterator[_Step]:
    yield _Step(op, around)
    for inner in op.get("body", ()):
        if _place(inner) == place:
            yield from _steps(inner, place, (*around, id(op)))


def _place(op: Op) -> tuple[Any, ...]:
    return op["file"], op["line"], op["column"], op["text"]


def _check_statement(steps: Sequence[_Step], variables: Mapping[str, Mapping[str, Any]]) -> None:
    """Checks that a statement's steps on each variable have the order of `t_arg` and `t_assign`."""
    ours = [step for step in steps if _is_access(step.op, variables)]
    checked: set[tuple[object, ...]] = set()
    for step in ours:
        name = step.op["access"]["variable"]
        for kind in _BEFORE.get(step.op["op"], ()):
            if not checked & set(_found_by(step, kind)):
                _wrong(step.op, f"has {step.op['op']} of {name}, and no {kind} before it")
        if step.op["op"] in _CHECKS:
            checked |= {_key(step), _key(step)[:-1]}
    later: set[tuple[str, str]] = set()
    for step in reversed(ours):
        name, after = step.op["access"]["variable"], _AFTER.get(step.op["op"], ())
        if after and not any((kind, name) in later for kind in after):
            _wrong(step.op, f"has {step.op['op']} of {name}, and no {' or '.join(after)} after it")
        later.add((step.op["op"], name))


def _check_values(
    steps: Sequence[_Step], variables: Mapping[str, Mapping[str, Any]], allocated: set[str]
) -> None:
    """A statement asks for the values that it reads (decision `initialised`), then gives those that
    it writes, when it has written them.  An operand that it reads and writes may be written first,
    and not asked for."""
    done: dict[str, list[Op]] = {}
    for step in steps:
        if _is_access(step.op, variables) and step.op["access"]["variable"] in allocated:
            done.setdefault(step.op["access"]["variable"], []).append(step.op)
    for name, ops in done.items():
        kinds = {op["op"] for op in ops}
        if "RecordRead" in kinds and not kinds & {"RecordMutate", "CheckInitialised"}:
            _wrong(ops[0], f"reads {name}, and does not ask whether it has been written")
        values = [op for op in ops if op["op"] in ("CheckInitialised", "Initialise")]
        gives = [op for op in values if op["op"] == "Initialise"]
        if len(gives) not in (0, len(values)) and (values[0] in gives or values[-1] not in gives):
            _wrong(values[0], f"asks for values of {name} after it has given them")
        mutated = given = False
        for op in ops:
            if op["op"] != "Initialise":
                mutated, given = op["op"] == "RecordMutate" or (mutated and not given), False
                if op["op"] == "CheckInitialised" and ops[-1] is op:
                    _wrong(op, f"asks for values of {name} after it has read them")
            elif op["uninit"]:
                if not op["text"].startswith("uninit("):
                    _wrong(op, f"is no uninit of {name}, and says that its values do not matter")
            elif not mutated:
                _wrong(op, f"gives {name} values before it has written it")
            else:
                given = True


def _is_access(op: Op, variables: Mapping[str, Mapping[str, Any]]) -> bool:
    if "access" not in op or op.get("free", False):
        return False
    return "mechanism" not in variables[op["access"]["variable"]]


def _key(step: _Step) -> tuple[object, ...]:
    """A check by its kind, variable, loops and window."""
    access = step.op["access"]
    return step.op["op"], access["variable"], step.around, str(access["coords"])


def _found_by(step: _Step, kind: str) -> Iterator[tuple[object, ...]]:
    """Yields the keys that a check may have of the window that a statement records or clears.

    In loops of the statement's own a record has some of the elements that were checked.
    """
    yield kind, *_key(step)[1:]
    for depth in range(len(step.around)):
        yield kind, step.op["access"]["variable"], step.around[:depth]
