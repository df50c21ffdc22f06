"""Counts the obligations a program must have, from its AMIR as JSON, with nothing of the prover.

A certificate without one of them proves less than it says, though every solver agrees with it.
An obligation is known by its kind and its statements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from exogpu.ir.types import BarrierMechanism
from exogpu.symbolic.certificate.strict_json import malformed

Op: TypeAlias = Mapping[str, Any]
"""An operation of the AMIR, by the schema of docs/amir.md."""

Statement: TypeAlias = tuple[str, int, str]
"""File, line and text."""

PHASED: Final = ("CudaMbarrier", "CudaNamedBarrier")

COUNT: Final = "COUNT"


@dataclass(frozen=True, slots=True)
class Need:
    """An obligation that a program has."""

    kind: str
    """A hazard's, or `COUNT` for the lemma on a count."""
    first: Statement | None
    second: Statement | None

    def __str__(self) -> str:
        sites = [f"line {site[1]} ({site[2]})" for site in (self.first, self.second) if site]
        return f"{self.kind} at {' and '.join(sites)}"


@dataclass(frozen=True, slots=True)
class Needs:
    """Numbers of obligations of each sort, and of those that hold by the rules alone, whatever the
    iterations."""

    all: Counter[Need]
    by_rules: Counter[Need]
    again: frozenset[Need]
    """The obligations that may be there more often: of commit groups, which a ring that is taken
    out of its tasks copies (decision `ring-steps`)."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """An operation, its place in the text, and the outermost loop around it."""

    op: Op
    number: int
    loop: int | None


def needs(program: Mapping[str, Any]) -> Needs:
    """The obligations of a program.

    Raises KeyError or TypeError for what is no AMIR program.
    """
    ops = list(_placed_operations(program["body"]))
    loaded = list(_after_loads(program["body"]))
    found, by_rules, again = Counter[Need](), Counter[Need](), set[Need]()
    resident = any(one["shared"] and not one["task_local"] for one in program["variables"])
    for need, holds in _pairs(ops):
        found[need] += 1
        by_rules[need] += holds
    found.update(dict.fromkeys(_needs_of(placed.op for placed in ops), 1))
    found.update(_reads(placed.op for placed in ops))
    for variable in program["variables"]:
        if variable["owner"] is not None and _is_accessed(variable, ops):
            alloc = next(
                placed.op
                for placed in ops
                if placed.op["op"] == "Alloc" and placed.op["variable"] == variable["name"]
            )
            found[Need("OWNERSHIP", None, _statement(alloc))] += 1
        if "mechanism" in variable:
            of_barrier = tuple(_of_barrier(variable, [placed.op for placed in ops], loaded))
            found.update(of_barrier)
            if resident and variable["mechanism"] == "CudaCommitGroup":
                again.update(of_barrier)
    return Needs(found, by_rules, frozenset(again))


def _placed_operations(body: Sequence[Op]) -> Iterator[_Placed]:
    """The operations but loops and guards, in the order of the text; of loops, those that bind
    slots."""
    number = 0
    stack: list[tuple[Op, int | None]] = [(op, None) for op in reversed(body)]
    while stack:
        op, loop = stack.pop()
        number += 1
        if op["op"] in ("Loop", "Guard"):
            if "slot" in op:
                yield _Placed(op, number, loop)
            if loop is None and op["op"] == "Loop":
                loop = number
            stack += [(inner, loop) for inner in reversed(op["body"])]
        else:
            yield _Placed(op, number, loop)


# --- accesses -----------------------------------------------------------------------------------


def _pairs(ops: Sequence[_Placed]) -> Iterator[tuple[Need, bool]]:
    """Every Record and Check of one variable that could meet, and whether the rules are enough."""
    checks: dict[tuple[str, bool], list[_Placed]] = {}
    for check in ops:
        if check.op["op"] in ("CheckReads", "CheckMutates"):
            key = (check.op["access"]["variable"], check.op["op"] == "CheckMutates")
            checks.setdefault(key, []).append(check)
    for record in ops:
        if record.op["op"] in ("RecordRead", "RecordMutate"):
            key = (record.op["access"]["variable"], record.op["op"] == "RecordMutate")
            for check in checks.get(key, ()):
                need = Need(_hazard(check.op), _statement(record.op), _statement(check.op))
                yield need, _seen_by_all(record.op, check.op) or _never_earlier(record, check)


def _hazard(check: Op) -> str:
    if check["free"]:
        return "FREE"
    if check["op"] == "CheckReads":
        return "WAR"
    return "RAW" if check["reads"] else "WAW"


def _seen_by_all(record: Op, check: Op) -> bool:
    """Nothing is asked, or atomics are, which see each other."""
    atomic = check["level"] == "atomic_only" and set(record["atomic"]) & set(check["timelines"])
    return check["level"] == "invisible" or bool(atomic)


def _never_earlier(record: _Placed, check: _Placed) -> bool:
    """No loop is around both, and the record stands below."""
    if record.loop is not None and record.loop == check.loop:
        return False
    return record.number > check.number


# --- what is required ---------------------------------------------------------------------------


def _needs_of(ops: Iterable[Op]) -> Iterator[Need]:
    """One of each statement and kind: of what a Require says, and of bounds, where a window lies
    inside its variable."""
    for op in ops:
        if op["op"] == "Require":
            yield Need(op["kind"], None, _statement(op))
        elif op["op"] in ("Arrive", "Await") or op.get("inside") or op.get("trailing"):
            yield Need("BOUNDS", None, _statement(op))


def _is_accessed(variable: Mapping[str, Any], ops: Iterable[_Placed]) -> bool:
    """Tests whether a variable is recorded to be accessed."""
    return any(
        placed.op["op"].startswith("Record")
        and placed.op["access"]["variable"] == variable["name"]
        and placed.op["threads"] is not None
        for placed in ops
    )


# --- what is read -------------------------------------------------------------------------------


def _reads(ops: Iterable[Op]) -> Iterator[Need]:
    """One of each read of what may not have been written."""
    for op in ops:
        if op["op"] == "CheckInitialised":
            yield Need("UNINIT", None, _statement(op))


# --- barriers -----------------------------------------------------------------------------------


def _of_barrier(
    variable: Mapping[str, Any], ops: Sequence[Op], loaded: Sequence[Op]
) -> Iterator[Need]:
    """Counts, balance, DEADLOCK and PHASE of one barrier (docs/proof.md); of a flag where values
    from memory are known, no counts."""
    name = variable["name"]
    arrives = [op for op in ops if op["op"] == "Arrive" and op["home"]["variable"] == name]
    awaits = [op for op in ops if op["op"] == "Await" and op["barrier"]["variable"] == name]
    trailing = [op for op in ops if op.get("trailing") and _home(op) == name]
    slots = [op for op in ops if "slot" in op and op["slot"]["variable"] == name]
    told = any(op is one for op in (*arrives, *awaits) for one in loaded)
    numbered = variable["mechanism"] != "CudaFlag" or not told
    for op in (*arrives, *trailing, *slots, *awaits) if numbered else ():
        yield Need(COUNT, None, _statement(op))
    for free in (op for op in ops if op["op"] == "CheckBarrier" and op["variable"] == name):
        for op in (*arrives, *(op for op in awaits if op["n"] < 0)):
            yield Need("BARRIER", _statement(op), _statement(free))
        for op in trailing:
            yield Need("DEADLOCK", _statement(op), _statement(free))
    for op in awaits if numbered else ():
        yield Need("DEADLOCK", None, _statement(op))
    followed = [(_statement(op), _statement(arrive)) for op in awaits for arrive in arrives]
    for first, second in followed:
        yield Need("DEADLOCK", first, second)
    if variable["mechanism"] in PHASED and (awaits or variable["depth"] is not None):
        for op in (*arrives, *trailing):
            yield Need("PHASE", None, _statement(op))
        for first, second in followed:
            yield Need("PHASE", first, second)
        for op in awaits:
            yield Need("PHASE", None, _statement(op))


def _after_loads(body: Sequence[Op], told: bool = False) -> Iterator[Op]:
    """The operations that stand where a value from memory is known."""
    for op in body:
        if told:
            yield op
        if op["op"] in ("Loop", "Guard"):
            yield from _after_loads(op["body"], told or op.get("mode") == "loaded")


def _home(op: Op) -> str:
    return str(op["trailing"]["home"]["variable"])


def _statement(op: Op) -> Statement:
    return (op["file"], op["line"], op["text"])


# Flags in a program's JSON: what the tasks of one launch wait for (decision `flags`).

FLAG: Final = BarrierMechanism.FLAG.value


def check_flags(
    variables: Iterable[Mapping[str, Any]], operations: Iterable[Mapping[str, Any]]
) -> None:
    """Allocated outside of tasks, arrived on and awaited by threads of tasks, one element at a
    time, all Arrives together.  Raises MalformedError."""
    flags = {one["name"]: one for one in variables if one.get("mechanism") == FLAG}
    resident = [one["name"] for one in variables if one["shared"] and not one["task_local"]]
    if flags and resident:
        malformed("variables", f"there are flags, and {resident[0]} serves task after task")
    if not flags:
        return
    for op in operations:
        match op["op"]:
            case "Arrive" if op["home"]["variable"] in flags:
                if op["threads"] is None or op["targets"] != [op["home"]]:
                    _wrong_flag(op, "arrives on a flag otherwise than by threads, on one element")
            case "Await" if op["barrier"]["variable"] in flags:
                if op["threads"] is None or op["n"] != 0:
                    _wrong_flag(op, "awaits a flag otherwise than by threads, for all that arrive")
            case "RecordRead" | "RecordMutate" if (op["trailing"] or {}).get("home", {}).get(
                "variable"
            ) in flags:
                _wrong_flag(op, "trails on a flag")
            case _:
                pass
    for name, one in flags.items():
        if one["task_local"] or one["guard"] is not None or one["depth"] is not None:
            malformed("variables", f"{name} is no flag of a launch")


def _wrong_flag(op: Mapping[str, Any], what: str) -> None:
    malformed("body", f"line {op['line']} ({op['text']}) {what}")


# The ends of launches in a program's JSON: what dependent launches wait for (decision
# `dependent-launch`).

LAUNCH: Final = BarrierMechanism.LAUNCH.value


def check_launches(
    variables: Iterable[Mapping[str, Any]], operations: Iterable[Mapping[str, Any]]
) -> None:
    """One end, at CPU scope, of everything that was done; waited for by threads of tasks, all of
    it.  Raises MalformedError."""
    ends = {one["name"]: one for one in variables if one.get("mechanism") == LAUNCH}
    arrived = dict.fromkeys(ends, 0)
    for op in operations:
        match op["op"]:
            case "Arrive" if op["home"]["variable"] in ends:
                arrived[op["home"]["variable"]] += 1
                if op["threads"] is not None or not op["transitive"]:
                    _wrong_launch(op, "ends a launch elsewhere than after it")
            case "Await" if op["barrier"]["variable"] in ends:
                if op["threads"] is None or op["n"] != 0:
                    _wrong_launch(
                        op, "waits for launches otherwise than by threads, for all of them"
                    )
            case "RecordRead" | "RecordMutate" if (op["trailing"] or {}).get("home", {}).get(
                "variable"
            ) in ends:
                _wrong_launch(op, "trails on the end of a launch")
            case "Alloc" | "Release" | "CheckBarrier" if op["variable"] in ends:
                _wrong_launch(op, "allocates or frees the end of a launch")
            case _:
                pass
    for name, one in ends.items():
        if one["shape"] or one["task_local"] or one["guard"] is not None or arrived[name] != 1:
            malformed("variables", f"{name} is not the end of one launch")


def _wrong_launch(op: Mapping[str, Any], what: str) -> None:
    malformed("body", f"line {op['line']} ({op['text']}) {what}")


# Values from memory in a program's JSON: what they are loaded from, and what is taken to hold of
# it (decision `loaded-values`).


def assumed(program: Mapping[str, Any], operations: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lists a program's assumptions, as a certificate states them.

    These are contracts such as `monotone(offsets)`, the assumptions of a kernel's import, and the
    elements that need not have been written, as `uninit(scores)`.
    """
    contracts = [f"{one['kind']}({one['array']})" for one in program.get("contracts", ())]
    imported = program.get("imported", {}).get("assumptions", ())
    uninit = (op["access"]["variable"] for op in operations if op.get("uninit"))
    return [*contracts, *imported, *dict.fromkeys(f"uninit({name})" for name in uninit)]


def check_loads(
    variables: Iterable[Mapping[str, Any]],
    operations: Sequence[Mapping[str, Any]],
    contracts: Iterable[Mapping[str, Any]],
) -> None:
    """A value is loaded from data that nothing writes, which is read there; contracts are of data
    of one dimension, that nothing writes either.  What is loaded has a name of its own, since an
    operation reads loads that are beside it, too.  Raises MalformedError."""
    declared = {one["name"]: one for one in variables}
    loaded = [op for op in operations if op.get("mode") == "loaded"]
    for one in contracts:
        if len(declared[one["array"]]["shape"]) != 1:
            malformed("contracts", f"{one['array']} has not one dimension")
    arrays = {op["source"]["variable"] for op in loaded} | {one["array"] for one in contracts}
    read = set()
    for op in operations:
        name = op["access"]["variable"] if "access" in op else op.get("variable")
        if op["op"] == "RecordRead" and op["inside"]:
            read.add((name, op["line"], op["text"], op["file"]))
        if name in arrays and op["op"] in ("RecordMutate", "Alloc", "Release"):
            malformed(
                "body", f"line {op['line']} ({op['text']}) changes {name}, a table of indices"
            )
    iterators = Counter(op["iterator"] for op in operations if op["op"] == "Loop")
    for op in loaded:
        if iterators[op["iterator"]] > 1:
            malformed("body", f"line {op['line']} ({op['text']}) has another loop's iterator")
        name = op["source"]["variable"]
        if (name, op["line"], op["text"], op["file"]) not in read:
            malformed("body", f"line {op['line']} ({op['text']}) has no RecordRead of {name}")
