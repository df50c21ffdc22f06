"""A program's JSON as a program of the abstract machine: read without ISL, and to the last byte.

What is read is printed again and compared: `program_schema` says what may stand there, and this
that nothing of it is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final, TypeAlias

from exogpu.amir import nodes as amir
from exogpu.amir.export import to_json
from exogpu.analysis.quantifiers import Each
from exogpu.analysis.threadmap import Digit, ThreadAxis, ThreadMap
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import SHORT
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, Level, QualSet, Sym
from exogpu.symbolic.certificate.strict_json import MalformedError

# The expressions in a certificate's JSON, which are ISL's notation, read by a closed grammar.
#
# number  := (N) | name | (number + number) | (number - number) | (N * number) | floor((number) /
# N) | ((number) mod N) formula := (0 = 0) | (0 = 1) | (number = number) and so on | (formula and
# formula) | (formula or formula) | (not formula) threads := { [name, ...] -> [t] : exists j0, ...
# : t = N * (number + j0) + ... and 0 <= j0 < N ... }

Names: TypeAlias = Callable[[str], ir.CVar | None]
"""The variable of a name; None where it is no variable."""

_TOKEN: Final = re.compile(r" ?([()]|!=|<=|>=|[=<>+*/]|-?\d+|-|\w+(?:\.\w+)?)")

_WORDS: Final = frozenset({"+", "-", "*", "/", "=", "!=", "<", "<=", ">", ">=", "and", "or", "not"})

_LONGEST: Final = 18
"""Digits of a number."""

_DEEPEST: Final = 150
"""Brackets within each other."""


def _truth(one: int, other: int) -> ir.Truth:
    if one != 0 or other not in (0, 1):
        raise MalformedError("two numbers are compared, which nobody writes")
    return ir.Truth(one == other)


_Item: TypeAlias = tuple[str, Any]
"""In brackets stands a number in full, N; an expression, E; a formula, B; or a word itself."""

_BRACKETS: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "N": ("E", lambda n: ir.Int(n)),
    "E": ("(E)", lambda e: e),
    "E + E": ("E", lambda a, b: ir.Add(a, b)),
    "E - E": ("E", lambda a, b: ir.Sub(a, b)),
    "N * E": ("E", lambda n, e: ir.Mul(n, e)),
    "(E) mod N": ("E", lambda e, n: ir.Mod(e, n)),
    "(E) / N": ("(E)/N", lambda e, n: ir.FloorDiv(e, n)),
    "N = N": ("B", _truth),
    "E = E": ("B", lambda a, b: ir.Compare("==", a, b)),
    "E != E": ("B", lambda a, b: ir.Compare("!=", a, b)),
    "E < E": ("B", lambda a, b: ir.Compare("<", a, b)),
    "E <= E": ("B", lambda a, b: ir.Compare("<=", a, b)),
    "E > E": ("B", lambda a, b: ir.Compare(">", a, b)),
    "E >= E": ("B", lambda a, b: ir.Compare(">=", a, b)),
    "B and B": ("B", lambda a, b: ir.And(a, b)),
    "B or B": ("B", lambda a, b: ir.Or(a, b)),
    "not B": ("B", lambda b: ir.Not(b)),
}
"""The value of brackets from the parts inside them."""


def number(text: str, names: Names) -> ir.CExpr:
    """The expression that a text is.  Raises MalformedError."""
    sort, value = _parsed(text, names)
    if sort != "E":
        raise MalformedError("it is no number")
    found: ir.CExpr = value
    return found


def formula(text: str, names: Names) -> ir.BExpr:
    """The condition that a text is.  Raises MalformedError."""
    sort, value = _parsed(text, names)
    if sort != "B":
        raise MalformedError("it is no formula")
    found: ir.BExpr = value
    return found


def _parsed(text: str, names: Names) -> _Item:
    stack: list[list[_Item]] = [[]]
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise MalformedError(f"{text[at : at + 10]!r} is no part of an expression")
        at, token = found.end(), found[1]
        if token == "(":
            if len(stack) > _DEEPEST:
                raise MalformedError(f"more than {_DEEPEST} brackets within each other")
            stack.append([])
        elif token == ")":
            _close(stack)
        else:
            stack[-1].append(_item(token, stack[-1], names))
    if len(stack) != 1 or len(stack[0]) != 1:
        return "", None
    return stack[0][0]


def _close(stack: list[list[_Item]]) -> None:
    inner = stack.pop()
    made = _BRACKETS.get(" ".join(sort for sort, _ in inner))
    if not stack or made is None:
        raise MalformedError("its brackets hold no expression")
    sort, build = made
    value = build(*(value for kind, value in inner if kind not in _WORDS and kind != "mod"))
    if stack[-1][-1:] == [("floor", None)]:
        stack[-1].pop()
        sort = {"(E)/N": "E"}.get(sort, "")
    stack[-1].append((sort, value))


def _item(token: str, before: list[_Item], names: Names) -> _Item:
    if token.lstrip("-").isdigit() and token[-1].isdigit():
        divides = before[-1:] in ([("mod", None)], [("/", None)])
        if (token.startswith("-") and before) or (divides and token.strip("0") == ""):
            raise MalformedError(f"{token} is no divisor")
        if len(token) > _LONGEST:
            raise MalformedError("it has too long a number")
        return "N", int(token)
    if token in _WORDS or token in ("mod", "floor"):
        return token, None
    variable = names(token)
    if variable is None:
        raise MalformedError(f"{token} is no variable here")
    return "E", variable


# --- threads ------------------------------------------------------------------------------------

_THREADS: Final = re.compile(
    r"\{ \[[^\[\]]*\] -> \[t\] : (?:exists ([^:]*) : )?"
    # No number has an `and`: there is one place where bounds can begin.
    r"t = ((?:(?! and ).)*)((?: and 0 <= j\d+ < \d+)*) \}"
)
_TERM: Final = re.compile(r"(\d+) \* \((.*) \+ j(\d+)\)")
_BOUND: Final = re.compile(r" and 0 <= j(\d+) < (\d+)")


def threads(text: str, names: Names) -> ThreadMap:
    """The thread map that a text is, but for the list of iterators before the arrow.

    Raises MalformedError.
    """
    found = _THREADS.fullmatch(text)
    if found is None:
        raise MalformedError("it is no map from iterators to threads")
    bounds = _BOUND.findall(found[3])
    if not bounds:
        if found[1] is not None or found[2] != "0":
            raise MalformedError("it is no map from iterators to threads")
        return ThreadMap(())
    # A term ends with the position on its axis, which stands nowhere else.
    parts = re.split(r"(?<= \+ j)(\d+)\) \+ ", found[2])
    terms = [f"{a}{b})" for a, b in zip(parts[:-1:2], parts[1::2], strict=True)] + [parts[-1]]
    if len(terms) != len(bounds):
        raise MalformedError("it has other axes than bounds")
    axes: list[ThreadAxis] = []
    for at, (term, (bounded, extent)) in enumerate(zip(terms, bounds, strict=True)):
        shape = _TERM.fullmatch(term)
        if shape is None or not shape[3] == bounded == str(at):
            raise MalformedError("it is no map from iterators to threads")
        if max(len(shape[1]), len(extent)) > _LONGEST or not int(shape[1]) or not int(extent):
            raise MalformedError("an axis has a pitch and an extent")
        axes.append(ThreadAxis(int(shape[1]), number(shape[2], names), int(extent)))
    if any(one.pitch < other.pitch for one, other in pairwise(axes)):
        raise MalformedError("its axes stand in another order")
    return ThreadMap(tuple(axes))


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
            tuple(ir.ControlParam(self._sym(p["name"]), p["kind"]) for p in found["params"]),
            tuple(formula(text, self._variable) for text in found["preconditions"]),
            tuple(self._declared(one) for one in found["variables"]),
            self._block(found["body"]),
            Policy(found["policy"]),
            tuple(
                ir.Contract(one["kind"], self._sym(one["array"]), one.get("least"))
                for one in found.get("contracts", ())
            ),
            self._imported(),
        )

    def _imported(self) -> ir.ImportSource | None:
        found = self._found.get("imported")
        if found is None:
            return None
        return ir.ImportSource(found["compiler"], found["digest"], tuple(found["assumptions"]))

    def _sym(self, name: str) -> Sym:
        return self._syms.setdefault(name, Sym(name))

    def _variable(self, name: str) -> ir.CVar:
        return ir.CVar(self._sym(name))

    def _number(self, text: str) -> ir.CExpr:
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

    def _targets(self, tagged: Mapping[str, Any]) -> tuple[ir.Access, tuple[ir.Access, ...]]:
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

    def _access(self, access: Mapping[str, Any]) -> ir.Access:
        return ir.Access(self._sym(access["variable"]), tuple(map(self._coord, access["coords"])))

    def _coord(self, coord: str | list[str]) -> ir.Coord:
        if isinstance(coord, str):
            return ir.Point(self._number(coord))
        lo, hi = coord
        return ir.Interval(self._number(lo), self._number(hi))


def _timelines(names: list[str]) -> QualSet:
    return frozenset(SHORT[name] for name in names)
