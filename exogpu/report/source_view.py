"""The source of a procedure with its accesses and synchronisation statements marked."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import dedent
from typing import Final

from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from exogpu.amir.lower_arguments import statement_text
from exogpu.diagnostics.errors import Span
from exogpu.frontend.quote import one_line
from exogpu.ir import nodes as ir
from exogpu.ir.types import AccessMode
from exogpu.ir.walk import reads, walk
from exogpu.report.report_data import Line, Mark, MarkKind, Piece, Segment

_STYLES: Final[tuple[tuple[_TokenType, str], ...]] = (
    (Comment, "c"),
    (String, "s"),
    (Number, "n"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (Name.Decorator, "d"),
    (Name.Function, "f"),
)
"""Classes of the style sheet by token."""

_MODES: Final[Mapping[AccessMode, MarkKind]] = {
    AccessMode.READ: "read",
    AccessMode.WRITE: "write",
    AccessMode.READ_WRITE: "update",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """A place to mark."""

    kind: MarkKind
    variable: str
    statement: Span
    at: Span
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """The lines of a procedure, and its marks by the statement they are in."""

    lines: tuple[Line, ...]
    marks: tuple[Mark, ...]
    by_statement: Mapping[Span, tuple[Mark, ...]]
    by_place: Mapping[Span, Mark]

    def find(self, span: Span, variable: str) -> Mark | None:
        """The mark of a variable in a statement; else the statement's synchronising mark; else,
        where the statement has but one, that one; else that of the very place."""
        marks = self.by_statement.get(span, ())
        for mark in marks:
            if mark.variable == variable and variable and mark.kind != "signal":
                return mark
        only = marks[0] if len(marks) == 1 else None
        return self.synchronising(span) or only or self.by_place.get(span)

    def on_line(self, line: int) -> tuple[Mark, ...]:
        """The marks of the statements that a line is of; of a launch, its first line alone."""
        found = (
            mark
            for span, marks in self.by_statement.items()
            for mark in marks
            if span.line <= line <= (span.line if mark.kind == "launch" else span.end_line)
        )
        return tuple(sorted(found, key=lambda mark: mark.number))

    def synchronising(self, span: Span) -> Mark | None:
        """The mark of a Fence, Arrive, Await or launch, or of a trailing barrier."""
        marks = self.by_statement.get(span, ())
        wanted = [m for m in marks if m.synchronises]
        return wanted[0] if wanted else None


def source_of(proc: ir.Proc) -> Source:
    """The marked source of a procedure; `proc` has no windows (`analysis.inline`)."""
    blocks = tuple(_blocks(proc))
    found = list(dict.fromkeys(f for stmt in walk(proc.body) for f in _places(stmt)))
    found.sort(key=lambda f: (f.at.line, f.at.column))
    inside = [
        f
        for f in found
        if f.at.file == proc.span.file
        and any(first <= f.at.line < first + len(text) for first, text in blocks)
    ]
    marks = tuple(
        Mark(number, f.kind, f.statement.line, f.variable, f.text)
        for number, f in enumerate(inside)
    )
    by_statement: dict[Span, tuple[Mark, ...]] = {}
    for mark, place in zip(marks, inside, strict=True):
        by_statement[place.statement] = (*by_statement.get(place.statement, ()), mark)
    spans = {mark: place.at for mark, place in zip(marks, inside, strict=True)}
    by_place = {place: mark for mark, place in spans.items()}
    lines = tuple(line for first, text in blocks for line in _lines(first, text, spans))
    return Source(lines, marks, by_statement, by_place)


def _blocks(proc: ir.Proc) -> Iterator[tuple[int, list[str]]]:
    """The procedure, and the macros of its file whose statements it has, in the order of the file:
    of each the number of its first line and the lines, decorators included; none if there is no
    file."""
    span = proc.span
    lines = [line.rstrip("\n").expandtabs(4) for line in linecache.getlines(span.file)]
    inside = [stmt.span for stmt in walk(proc.body) if stmt.span.file == span.file]
    defined = _functions("\n".join(lines))
    own = _decorated(span.line, lines), span.end_line
    found = {own}
    for stmt in inside:
        if not own[0] <= stmt.line <= own[1]:
            around = [f for f in defined if f[0] <= stmt.line and stmt.end_line <= f[1]]
            found |= {max(around)} if around else set()  # the innermost begins last
    for first, last in sorted(found):
        if lines:
            yield first, lines[first - 1 : last]


def _decorated(line: int, lines: list[str]) -> int:
    while line > 1 and lines[line - 2 : line - 1] and lines[line - 2].strip().startswith("@"):
        line -= 1
    return line


def _functions(text: str) -> list[tuple[int, int]]:
    """First and last lines of all functions of a module, with their decorators."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    return [
        (min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or 0)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]


# --- what is marked -----------------------------------------------------------------------


def _places(stmt: ir.Stmt) -> Iterator[_Place]:
    span = stmt.span
    if not span.line:
        return
    text = one_line(span, statement_text(stmt))
    match stmt:
        case ir.Fence():
            yield _Place("fence", "", span, span, text)
        case ir.Arrive():
            yield _Place("arrive", stmt.targets[0].name.name, span, span, text)
        case ir.Await():
            yield _Place("await", stmt.barrier.name.name, span, span, text)
        case ir.DeviceFunction():
            yield _Place("launch", "", span, span, text)
        case ir.Alloc() | ir.BarrierAlloc():
            yield _Place("alloc", stmt.name.name, span, span, text)
        case ir.Assign() | ir.Reduce():
            for access in reads(stmt.value):
                yield _access_mark("read", access, span, text)
            kind: MarkKind = "write" if isinstance(stmt, ir.Assign) else "update"
            yield _access_mark(kind, stmt.target, span, text)
        case ir.CallInstr():
            modes = iter(stmt.instr.modes)
            for param, argument in zip(stmt.instr.params, stmt.arguments, strict=True):
                if isinstance(param, ir.DataParam):
                    mode = _MODES[next(modes)]
                    if isinstance(argument, ir.Access):
                        yield _access_mark(mode, argument, span, text)
            if stmt.trailing is not None:
                yield _access_mark("signal", stmt.trailing, span, text)
        case _:
            return


def _access_mark(kind: MarkKind, access: ir.Access, statement: Span, text: str) -> _Place:
    at = access.span if access.span.line else statement
    return _Place(kind, access.name.name, statement, at, text)


# --- lines --------------------------------------------------------------------------------


def _lines(first: int, text: list[str], spans: Mapping[Mark, Span]) -> Iterator[Line]:
    # What follows a first line that is indented is dedented with it.
    shift = _shared_indent(text)
    styles = _styles(dedent("\n".join(text)))
    starts: dict[int, list[tuple[int, int, Mark]]] = {}
    for mark, span in spans.items():
        index = span.line - first
        if 0 <= index < len(text):
            length = len(text[index].rstrip())
            end = span.end_column - 1 if span.end_line == span.line else length
            starts.setdefault(index, []).append((span.column - 1 - shift, end - shift, mark))
    for index, line in enumerate(text):
        shown = line[shift:]
        style = styles[index] if index < len(styles) else [""] * len(shown)
        yield Line(first + index, tuple(_segments(shown, style, sorted_spans(starts.get(index)))))


def sorted_spans(found: list[tuple[int, int, Mark]] | None) -> list[tuple[int, int, Mark]]:
    """The spans of a line from left to right; of two that overlap, the first alone."""
    kept: list[tuple[int, int, Mark]] = []
    for start, end, mark in sorted(found or (), key=lambda s: (s[0], -s[1])):
        if not kept or start >= kept[-1][1]:
            kept.append((start, end, mark))
    return kept


def _shared_indent(text: list[str]) -> int:
    return min((len(line) - len(line.lstrip()) for line in text if line.strip()), default=0)


def _styles(text: str) -> list[list[str]]:
    """The class of every character, by line."""
    lines: list[list[str]] = [[]]
    for kind, value in PythonLexer(stripnl=False).get_tokens(text):
        style = next((name for token, name in _STYLES if kind in token), "")
        for character in value:
            if character == "\n":
                lines.append([])
            else:
                lines[-1].append(style)
    return lines


def _segments(line: str, style: list[str], spans: list[tuple[int, int, Mark]]) -> Iterator[Segment]:
    at = 0
    for start, end, mark in spans:
        if start > at:
            yield Segment(None, tuple(_pieces(line, style, at, start)))
        yield Segment(mark, tuple(_pieces(line, style, start, end)))
        at = end
    if at < len(line):
        yield Segment(None, tuple(_pieces(line, style, at, len(line))))


def _pieces(line: str, style: list[str], start: int, end: int) -> Iterator[Piece]:
    while start < end:
        stop = start + 1
        while stop < end and style[stop : stop + 1] == style[start : start + 1]:
            stop += 1
        yield Piece(line[start:stop], (style[start : start + 1] or [""])[0])
        start = stop
