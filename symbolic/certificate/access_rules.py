"""Checks that the Checks and the Records of one statement in a program's JSON agree.

Each rule is one of `exogpu.amir.lower_arguments`.  What a statement records on a timeline it checks
on the timelines of that operand, at the level of its access, for the threads that execute it:

- a read asks to see the writes before it: CheckMutates, fully ordered;
- a write comes after the reads and writes before it: in time, and fully if it reads as well;
- an atomic access may meet others that are atomic with it, and no other;
- an Arrive or an Await of a barrier in shared memory is recorded to use it, by its own threads.

A check that asks for less is of no statement of the language; nor is a Fence, an Arrive or an
Await of other timelines than those of the language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import prod
from typing import Any, Final, TypeAlias

from exogpu.diagnostics.verdict import Policy
from exogpu.hw import operands
from exogpu.hw.timelines import SHORT_NAME, SYNC_TIMELINES
from exogpu.ir.types import Level, Operand, QualTL
from exogpu.symbolic.certificate.strict_json import malformed

Op: TypeAlias = Mapping[str, Any]

Row: TypeAlias = tuple[object, ...]
"""Level, convergence and atomic timelines of a record; and the timelines of its checks."""

FULL: Final = Level.FULLY_ORDERED.name.lower()
IN_TIME: Final = Level.TEMPORALLY_ORDERED.name.lower()
ATOMIC: Final = Level.ATOMIC_ONLY.name.lower()
UNORDERED: Final = Level.UNORDERED.name.lower()

ORDINARY: Final = (QualTL.CPU, QualTL.CUDA1, QualTL.CUDA2)
"""The timelines of assignments."""

_BOUND: Final = re.compile(r"< (\d+)")


def check_accesses(program: Mapping[str, Any]) -> None:
    """Raises MalformedError for a program with a Check that no Record beside it explains, or a
    Record that is not checked as its operand is."""
    variables = {one["name"]: one for one in program["variables"]}
    rows = _rows(Policy(program["policy"]))
    for statement in _statements(program["body"], ()):
        _Statement(statement, variables, rows).check()
        for step in statement:
            _check_timelines(step, Policy(program["policy"]))


class _Step:
    """An operation and the loops and guards of its own statement around it."""

    def __init__(self, op: Op, around: tuple[Op, ...]) -> None:
        self.op, self.around = op, around

    @property
    def name(self) -> str:
        """The variable that it accesses."""
        return str(self.op["access"]["variable"])

    @property
    def loops(self) -> tuple[int, ...]:
        """The loops and guards, by identity."""
        return tuple(map(id, self.around))


def _rows(policy: Policy) -> Mapping[str, Sequence[Row]]:
    """By timeline, what operands of instructions and assignments record there."""
    found: dict[str, list[Row]] = {}
    for operand in vars(operands).values():
        if isinstance(operand, Operand):
            level = UNORDERED if operand.out_of_order else FULL
            asked = _short(operand.extended_under(policy))
            row = level, operand.convergent, _short(operand.atomic), asked
            found.setdefault(SHORT_NAME[operand.initial], []).append(row)
            plain = level, operand.convergent, (), asked
            found[SHORT_NAME[operand.initial]].append(plain)
    for timeline in ORDINARY:
        own = SHORT_NAME[timeline]
        found.setdefault(own, []).append((FULL, False, (), (own,)))
    return found


def _short(timelines: Iterable[QualTL]) -> tuple[str, ...]:
    some = set(timelines)
    return tuple(name for timeline, name in SHORT_NAME.items() if timeline in some)


def _statements(body: Sequence[Op], around: tuple[Any, ...]) -> Iterator[list[_Step]]:
    """The operations of each statement, with those in loops and guards of its own."""
    for place, ops in groupby(body, _place):
        listed = list(ops)
        if place != around:
            yield [step for op in listed for step in _steps(op, place, ())]
        for op in listed:
            if "body" in op:
                yield from _statements(op["body"], place)


def _steps(op: Op, place: tuple[Any, ...], around: tuple[Op, ...]) -> Iterator[_Step]:
    yield _Step(op, around)
    for inner in op.get("body", ()):
        if _place(inner) == place:
            yield from _steps(inner, place, (*around, op))


def _place(op: Op) -> tuple[Any, ...]:
    return op["file"], op["line"], op["column"], op["text"]


class _Statement:
    """The accesses of one statement."""

    def __init__(
        self,
        steps: Sequence[_Step],
        variables: Mapping[str, Mapping[str, Any]],
        rows: Mapping[str, Sequence[Row]],
    ) -> None:
        self._steps, self._variables, self._rows = steps, variables, rows
        data = [s for s in steps if "access" in s.op and not self._is_barrier(s)]
        self._checks = [s for s in data if _is_check(s) and not s.op["free"]]
        self._records = [s for s in data if _is_record(s)]
        self._uses = [s for s in steps if "access" in s.op and self._is_barrier(s)]
        self._asked = {s.name for s in data if s.op["op"] == "CheckInitialised"}

    def check(self) -> None:
        """Raises MalformedError where the operations do not agree."""
        explained: set[int] = set()
        for record in self._records:
            explained |= self._checks_of(record)
        for check in self._checks:
            if id(check) not in explained:
                _wrong(check, "and no Record beside it on these timelines, at this level")
        self._barriers()

    def _is_barrier(self, step: _Step) -> bool:
        return "mechanism" in self._variables[step.name]

    def _checks_of(self, record: _Step) -> set[int]:
        """The checks that a record has, of which it has one of each kind."""
        op = record.op
        asked = self._timelines(op)
        if not asked or (op["op"] == "RecordRead" and op["atomic"]):
            _wrong(record, f"as no operand on {op['timeline']} is recorded")
        found: set[int] = set()
        for kind, level, reads in self._kinds(record):
            some = [
                check
                for check in self._checks
                if check.op["op"] == kind
                and check.name == record.name
                and (check.op["level"], check.op["reads"]) in [(level, r) for r in reads]
                and tuple(check.op["timelines"]) in asked
                and _same_convergence(check.op, op)
                and _may_check(check, record)
                and _same_threads(check, record)
            ]
            found |= {id(check) for check in some}
        wanted = {kind for kind, *_ in self._kinds(record)}
        has = {check.op["op"] for check in self._checks if id(check) in found}
        for kind in sorted(wanted - has):
            _wrong(record, f"and no {kind} that asks what its access has to")
        reading = {c.op["reads"] for c in self._checks if id(c) in found}
        if op["op"] == "RecordMutate" and len(reading) > 1 and not self._is_repeated(record.name):
            _wrong(record, "and its checks do not agree whether it reads")
        return found

    def _is_repeated(self, name: str) -> bool:
        """Tests whether a statement records more than one access of a variable."""
        return sum(record.name == name for record in self._records) > 1

    def _timelines(self, op: Op) -> set[object]:
        """The timelines that a record's checks may have."""
        return {
            asked
            for level, convergent, atomic, asked in self._rows.get(op["timeline"], ())
            if (level, atomic) == (op["level"], tuple(op["atomic"]))
            and (convergent == op["convergent"] or op["threads"] is None)
        }

    def _kinds(self, record: _Step) -> Iterator[tuple[str, str, tuple[bool, ...]]]:
        """The checks of a record: kind, level, and whether the statement may read."""
        op = record.op
        if op["op"] == "RecordRead":
            yield "CheckMutates", FULL, (True,)
            return
        read_too = record.name in self._asked and not any(
            one.op["op"] == "RecordRead" and one.name == record.name for one in self._records
        )
        both = (True,) if read_too else (True, False)
        yield "CheckReads", IN_TIME, both
        if op["atomic"]:
            yield "CheckMutates", ATOMIC, both
            return
        for reads in both:
            yield "CheckMutates", FULL if reads else IN_TIME, (reads,)

    def _barriers(self) -> None:
        """Barriers are recorded as an Arrive, an Await or an instruction uses them."""
        syncs = [s for s in self._steps if s.op["op"] in ("Arrive", "Await")]
        trailing = [
            (str(s.op["trailing"]["home"]["variable"]), s)
            for s in self._records
            if s.op["trailing"] is not None
        ]
        trailed = {name for name, _ in trailing}
        for use in self._uses:
            op = use.op
            if not _is_record(use):
                continue
            plain = (op["op"], op["level"], op["convergent"], op["atomic"], op["inside"])
            if plain != ("RecordRead", FULL, False, [], True):
                _wrong(use, "as no use of a barrier is recorded")
            own = [s for s in syncs if _barrier_of(s.op) == use.name]
            if own and not (op["timeline"] is None and use.name in trailed):
                if op["timeline"] not in {_timeline_of(s.op) for s in own}:
                    _wrong(use, f"on {op['timeline']}, which is not that of its {own[0].op['op']}")
                if op["threads"] not in [s.op["threads"] for s in own]:
                    _wrong(use, f"by other threads than its {own[0].op['op']}")
            elif op["timeline"] is not None:
                _wrong(use, f"on {op['timeline']}, and neither Arrive nor Await")
        used = {use.name for use in self._uses if _is_record(use)}
        named = [(_barrier_of(s.op), s) for s in syncs]
        for name, step in (*named, *trailing):
            if self._variables[name]["shared"] and name not in used:
                _wrong(step, f"and no RecordRead of {name}")


def _check_timelines(step: _Step, policy: Policy) -> None:
    """The first and second timelines of a synchronisation are some of the language, or those of a
    launch."""
    op = step.op
    if "pre" in op:
        before = {
            (tl.transitive, _short(tl.sets_under(policy).full)) for tl in SYNC_TIMELINES.values()
        }
        if op["op"] == "Fence":  # one stands before a launch
            stream = SYNC_TIMELINES["cuda_stream_sync"].sets_under(policy).full
            before |= {(True, _short(stream | {QualTL.CPU})), (True, ())}
        if (op["transitive"], tuple(op["pre"])) not in before:
            _wrong(step, "with a first timeline that there is not")
    if "full" in op:
        sets = [tl.sets_under(policy) for tl in SYNC_TIMELINES.values()]
        after = {(_short(one.full), _short(one.temporal)) for one in sets} | {((), ())}
        if (tuple(op["full"]), tuple(op["temporal"])) not in after:
            _wrong(step, "with a second timeline that there is not")


def _is_check(step: _Step) -> bool:
    return step.op["op"] in ("CheckReads", "CheckMutates")


def _is_record(step: _Step) -> bool:
    return step.op["op"] in ("RecordRead", "RecordMutate")


def _barrier_of(op: Op) -> str:
    return str((op["home"] if op["op"] == "Arrive" else op["barrier"])["variable"])


def _timeline_of(op: Op) -> str:
    """The timeline on which an Arrive or an Await uses its barrier."""
    copies = SHORT_NAME[QualTL.SM80]
    return copies if op["op"] == "Arrive" and copies in op["pre"] else SHORT_NAME[QualTL.CUDA2]


def _same_convergence(check: Op, record: Op) -> bool:
    return check["convergent"] == record["convergent"] or record["threads"] is None


def _may_check(check: _Step, record: _Step) -> bool:
    """Tests whether a check is of the window that is recorded, or of what lies around the loops
    that record parts of it."""
    depth = len(check.around)
    if check.loops != record.loops[:depth]:
        return False
    same = check.op["access"]["coords"] == record.op["access"]["coords"]
    return same or depth < len(record.around)


def _same_threads(check: _Step, record: _Step) -> bool:
    """Tests whether a check is by the threads of a record: of a multicast, those of all CTAs."""
    if check.op["threads"] == record.op["threads"]:
        return True
    inner = record.around[len(check.around) :]
    if None in (check.op["threads"], record.op["threads"]) or record.op["trailing"] is None:
        return False
    if not inner:
        return False
    split = [op for op in inner if op["op"] == "Loop" and op["iterator"] in record.op["threads"]]
    many = prod(int(op["hi"].strip("()")) for op in split)
    return _count(check.op["threads"]) == many * _count(record.op["threads"])


def _count(threads: str) -> int:
    return prod(int(bound) for bound in _BOUND.findall(threads))


def _wrong(step: _Step, what: str) -> None:
    op = step.op
    name = f" of {step.name}" if "access" in op else ""
    malformed("body", f"line {op['line']} ({op['text']}) has {op['op']}{name}, {what}")
