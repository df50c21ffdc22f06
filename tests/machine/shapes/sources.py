"""Source text of programs with windows and calls, each written twice: through its windows, and
with every access in terms of the variable behind them, calls written out."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exogpu import Procedure
from exogpu.cli.loader import load

Extent = tuple[int, int]
"""`(a, b)` is a * size + b."""

SIZE = "SIZE"
"""In texts, the size of the procedure at hand."""


@dataclass(eq=False)
class Term:
    """A control expression from 0 to `most`, and what a mutation adds to it."""

    text: str
    most: Extent = (0, 0)
    shift: int = 0


@dataclass(frozen=True, eq=False)
class Range:
    """An interval: `length` elements from the first on."""

    first: Term
    length: Term


Coord = Term | Range


@dataclass(frozen=True, eq=False)
class View:
    """A variable, a parameter, or a window of one."""

    name: str
    extents: tuple[Extent, ...]
    lane: int
    """The dimension of which each thread has a part of its own."""
    least: int
    """Elements of that dimension which a window has to keep."""
    pinned: Mapping[int, str] = field(default_factory=dict)
    """Dimensions of which one element is used."""
    window_of: Window | None = None
    spread: bool = False
    """Whether the lanes are an index of distributed registers, of which each thread has its own."""


Window = tuple[View, tuple[Coord, ...]]
"""A window, or an element, of a variable."""


@dataclass(eq=False)
class Line:
    """A text in which `{0}`, `{1}` ... stand for accesses."""

    text: str
    accesses: tuple[Window, ...] = ()
    declares_window: bool = False
    dropped: bool = False


@dataclass(frozen=True, eq=False)
class Nest:
    """A line that opens a block."""

    header: str
    body: Sequence[Statement]


@dataclass(frozen=True, eq=False)
class Callee:
    """A procedure of a size and of global variables."""

    name: str
    params: tuple[View, ...]
    body: Sequence[Statement]


@dataclass(frozen=True, eq=False)
class Call:
    """A call with a window for each parameter; its size is the caller's and `more`."""

    callee: Callee
    more: int
    given: tuple[Window, ...]


Statement = Line | Nest | Call


@dataclass(frozen=True)
class Scope:
    """How names are written; without windows, what the parameters stand for."""

    direct: bool
    size: str
    passed: Mapping[View, tuple[Window, Scope]] = field(default_factory=dict)

    def control(self, text: str) -> str:
        return text.replace(SIZE, self.size)

    def term(self, term: Term) -> str:
        return plus(self.control(term.text), str(term.shift))


def plus(*terms: str) -> str:
    """A sum, as one would write it."""
    return " + ".join([term for term in terms if term != "0"] or ["0"]).replace("+ -", "- ")


def extent(size: Extent) -> str:
    return plus(SIZE if size[0] else "0", str(size[1]))


Place = tuple[str, str | None]
"""Where a coordinate begins and, of an interval, how long it is."""


def access(window: Window, scope: Scope) -> str:
    """In text."""
    view, coords = window
    places = [place(coord, scope) for coord in coords]
    while scope.direct and (view.window_of or view in scope.passed):
        if view.window_of:
            view, outer = view.window_of
        else:
            (view, outer), scope = scope.passed[view]
        places = behind(outer, places, scope)
    parts = [at if size is None else f"{at} : {plus(at, size)}" for at, size in places]
    return f"{view.name}[{', '.join(parts)}]"


def place(coord: Coord, scope: Scope) -> Place:
    if isinstance(coord, Term):
        return scope.term(coord), None
    return scope.term(coord.first), scope.term(coord.length)


def behind(outer: Sequence[Coord], places: Sequence[Place], scope: Scope) -> list[Place]:
    """What the coordinates of a window are in what it is a window of."""
    left = iter(places)
    found: list[Place] = []
    for coord in outer:
        first, length = place(coord, scope)
        if length is None:
            found.append((first, None))
        else:
            at, size = next(left)
            found.append((plus(first, at), size))
    return found


def lines(block: Sequence[Statement], scope: Scope, depth: int) -> list[str]:
    """The text of a block, indented."""
    found: list[str] = []
    indent = "    " * depth
    for stmt in block:
        match stmt:
            case Line(dropped=True):
                pass
            case Line():
                if not (stmt.declares_window and scope.direct):
                    text = scope.control(stmt.text)
                    found.append(indent + text.format(*(access(a, scope) for a in stmt.accesses)))
            case Nest():
                found.append(indent + scope.control(stmt.header))
                found += lines(stmt.body, scope, depth + 1) or [indent + "    pass"]
            case Call():
                size = plus(scope.size, str(stmt.more))
                if scope.direct:
                    pairs = zip(stmt.callee.params, stmt.given, strict=True)
                    inner = Scope(True, size, {param: (given, scope) for param, given in pairs})
                    found += lines(stmt.callee.body, inner, depth)
                else:
                    given = ", ".join([size, *(access(window, scope) for window in stmt.given)])
                    found.append(f"{indent}{stmt.callee.name}({given})")
    return found


@dataclass(frozen=True)
class Sources:
    """The two texts of a program."""

    windows: str
    direct: str


HEAD = """\
from __future__ import annotations

from exogpu import *
from exogpu.isa.cuda import *
from exogpu.isa.sm80 import *
"""


def text(callees: Sequence[Callee], *, direct: bool) -> str:
    """A file of procedures, each of which may call those before it; directly, the last alone."""
    found = [HEAD]
    for number, callee in enumerate(callees):
        if direct and number + 1 < len(callees):
            continue
        size = f"K{number}" if number + 1 < len(callees) else "K"
        shapes = [
            f"{view.name}: f32[{', '.join(map(extent, view.extents))}] @ CudaGmemLinear"
            for view in callee.params
        ]
        scope = Scope(direct, size)
        head = f"def {callee.name}({', '.join([f'{size}: size', *shapes])}):"
        found += ["", "@proc", scope.control(head), f"    assert {size} >= 0"]
        found += lines(callee.body, scope, 1)
    return "\n".join(found) + "\n"


def procedure(source: str) -> Procedure:
    """The last procedure of a text, read as a user's file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "generated.py"
        file.write_text(source)
        made = load(str(file))[-1]
        assert made.procedure is not None, made.diagnostics
        assert not made.procedure.diagnostics, (source, made.procedure.diagnostics)
        return made.procedure
