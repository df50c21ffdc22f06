"""A program's JSON as a program of the abstract machine: read without ISL, and to the last byte.

What is read is printed again and compared: `program_schema` says what may stand there, and this
that nothing of it is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from exogpu.amir import nodes as amir
from exogpu.amir.export import to_json
from exogpu.analysis.extremes import Each
from exogpu.analysis.threadmap import Digit
from exogpu.hw.timelines import SHORT
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    CExpr,
    Contract,
    ControlParam,
    Coord,
    CVar,
    ImportSource,
    Interval,
    Point,
)
from exogpu.ir.types import BarrierMechanism, Level, Policy, QualSet
from exogpu.result.errors import Span
from exogpu.result.hazards import HazardKind
from exogpu.symbolic.certificate.expressions import formula, number, threads
from exogpu.symbolic.certificate.strict_json import MalformedError

_LEVELS: Final = {level.name.lower(): level for level in Level}


def program_of(found: Mapping[str, Any]) -> amir.Program:
    """The program of a JSON that `check_program` has admitted.  Raises MalformedError."""
    program = _Reader(found).program()
    if to_json(program) != found:
        raise MalformedError("an expression or a thread map is not written as such a file has it")
    return program


class _Reader:
    """One program: each name is one variable."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = found
        self._syms: dict[str, Sym] = {}

    def program(self) -> amir.Program:
        found = self._found
        return amir.Program(
            found["name"],
            tuple(ControlParam(self._sym(p["name"]), p["kind"]) for p in found["params"]),
            tuple(formula(text, self._variable) for text in found["preconditions"]),
            tuple(self._declared(one) for one in found["variables"]),
            self._block(found["body"]),
            Policy(found["policy"]),
            tuple(
                Contract(one["kind"], self._sym(one["array"])) for one in found.get("contracts", ())
            ),
            self._imported(),
        )

    def _imported(self) -> ImportSource | None:
        found = self._found.get("imported")
        if found is None:
            return None
        return ImportSource(found["compiler"], found["digest"], tuple(found["assumptions"]))

    def _sym(self, name: str) -> Sym:
        return self._syms.setdefault(name, Sym(name))

    def _variable(self, name: str) -> CVar:
        return CVar(self._sym(name))

    def _number(self, text: str) -> CExpr:
        return number(text, self._variable)

    def _declared(self, one: Mapping[str, Any]) -> amir.Variable:
        guard, mechanism = one.get("guard"), one.get("mechanism")
        return amir.Variable(
            self._sym(one["name"]),
            tuple(map(self._number, one["shape"])),
            None if mechanism is None else BarrierMechanism(mechanism),
            None if guard is None else self._sym(guard),
            one.get("depth"),
            one["shared"],
            one["task_local"],
            one["owner"],
            one.get("host", False),
        )

    # --- operations -----------------------------------------------------------------------

    def _block(self, body: list[Mapping[str, Any]]) -> amir.Block:
        return tuple(self._op(op) for op in body)

    def _op(self, op: Mapping[str, Any]) -> amir.Op:
        origin, kind = self._origin(op), op["op"]
        match kind:
            case "Loop":
                return amir.Loop(
                    self._sym(op["iterator"]),
                    self._number(op["lo"]),
                    self._number(op["hi"]),
                    self._block(op["body"]),
                    origin,
                    tasks=op["mode"] == "tasks",
                    threads=op["mode"] == "threads",
                    slot=self._access(op["slot"]) if op["mode"] == "slot" else None,
                    source=self._access(op["source"]) if op["mode"] == "loaded" else None,
                )
            case "Guard":
                condition = formula(op["condition"], self._variable)
                return amir.Guard(condition, self._block(op["body"]), origin)
            case "IncTaskID":
                return amir.IncTaskID(origin)
            case "Alloc":
                return amir.Alloc(self._sym(op["variable"]), origin)
            case "Release":
                return amir.Release(self._sym(op["variable"]), origin)
            case "CheckBarrier":
                return amir.CheckBarrier(self._sym(op["variable"]), origin)
            case "RecordRead" | "RecordMutate":
                return amir.Record(
                    kind == "RecordMutate",
                    _LEVELS[op["level"]],
                    op["convergent"],
                    self._access(op["access"]),
                    None if op["timeline"] is None else SHORT[op["timeline"]],
                    _timelines(op["atomic"]),
                    self._trailing(op["trailing"]),
                    origin,
                    op["inside"],
                )
            case "CheckReads" | "CheckMutates":
                return amir.Check(
                    kind == "CheckMutates",
                    _LEVELS[op["level"]],
                    op["convergent"],
                    self._access(op["access"]),
                    _timelines(op["timelines"]),
                    origin,
                    op["free"],
                    op["reads"],
                )
            case "ClearReads" | "ClearMutates":
                return amir.Clear(kind == "ClearMutates", self._access(op["access"]), origin)
            case "Initialise":
                return amir.Initialise(self._access(op["access"]), origin, op["uninit"])
            case "CheckInitialised":
                return amir.CheckInitialised(self._access(op["access"]), origin)
            case _:
                return self._sync(op, origin)

    def _sync(self, op: Mapping[str, Any], origin: amir.Origin) -> amir.Op:
        match op["op"]:
            case "Fence":
                pre, full = _timelines(op["pre"]), _timelines(op["full"])
                temporal = _timelines(op["temporal"])
                joins = op["joins"]
                return amir.Fence(op["transitive"], pre, full, temporal, origin, joins=joins)
            case "Arrive":
                home, targets = self._targets(op)
                pre = _timelines(op["pre"])
                return amir.Arrive(op["transitive"], pre, home, targets, origin)
            case "Await":
                full, temporal = _timelines(op["full"]), _timelines(op["temporal"])
                return amir.Await(self._access(op["barrier"]), full, temporal, op["n"], origin)
            case "Require":
                each = tuple(
                    Each(self._sym(e["name"]), self._number(e["lo"]), self._number(e["hi"]))
                    for e in op["each"]
                )
                conditions = tuple(formula(text, self._variable) for text in op["conditions"])
                name = op["variable"]
                variable = None if name is None else self._sym(name)
                together = tuple(Digit(d["pitch"], d["extent"], d["size"]) for d in op["together"])
                hazard = HazardKind(op["kind"])
                return amir.Require(hazard, variable, each, conditions, origin, together)
            case unknown:
                raise MalformedError(f"there is no operation {unknown}")

    def _trailing(self, tagged: Mapping[str, Any] | None) -> amir.Trailing | None:
        return None if tagged is None else amir.Trailing(*self._targets(tagged))

    def _targets(self, tagged: Mapping[str, Any]) -> tuple[Access, tuple[Access, ...]]:
        home = self._access(tagged["home"])
        targets = tuple(map(self._access, tagged["targets"]))
        if any(target.name != home.name for target in targets):
            raise MalformedError("an arrival has its home in one barrier and targets in another")
        return home, targets

    # --- fields ---------------------------------------------------------------------------

    def _origin(self, op: Mapping[str, Any]) -> amir.Origin:
        line, column = op["line"], op["column"]
        executing = op["threads"]
        return amir.Origin(
            Span(op["file"], line, column, line, column),
            op["text"],
            None if executing is None else threads(executing, self._variable),
        )

    def _access(self, access: Mapping[str, Any]) -> Access:
        return Access(self._sym(access["variable"]), tuple(map(self._coord, access["coords"])))

    def _coord(self, coord: str | list[str]) -> Coord:
        if isinstance(coord, str):
            return Point(self._number(coord))
        lo, hi = coord
        return Interval(self._number(lo), self._number(hi))


def _timelines(names: list[str]) -> QualSet:
    return frozenset(SHORT[name] for name in names)
