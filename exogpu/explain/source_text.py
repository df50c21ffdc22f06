"""Places in the text of a source file: statements, blocks, and lines put beside them."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import Replacement
from exogpu.frontend.source import span_of

Step: TypeAlias = tuple[list[ast.stmt], int]
"""A block, and which of its statements."""

Path: TypeAlias = tuple[Step, ...]
"""From the file down to a statement."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file as it was read."""

    file: str
    lines: tuple[str, ...]
    tree: ast.Module


@lru_cache(maxsize=8)
def _parsed(file: str, lines: tuple[str, ...]) -> SourceText:
    return SourceText(file, lines, ast.parse("".join(lines)))


def read_source(span: Span) -> SourceText:
    lines = tuple(linecache.getlines(span.file))
    if lines[span.line - 1 : span.line] != (f"{span.text}\n",) and span.text:
        raise ValueError("the file is not what was read")
    return _parsed(span.file, lines)


def path_down(text: SourceText, span: Span) -> Path:
    """Down to the innermost statement around a place."""
    block, found = text.tree.body, list[Step]()
    while block:
        for at, stmt in enumerate(block):
            here = span_of(stmt, text.file, text.lines)
            if (here.line, here.column) <= (span.line, span.column) and (
                span.end_line,
                span.end_column,
            ) <= (here.end_line, here.end_column):
                found.append((block, at))
                block = next((b for b in blocks_of(stmt) if _holds(b, span)), [])
                break
        else:
            break
    return tuple(found)


def blocks_of(stmt: ast.stmt) -> list[list[ast.stmt]]:
    match stmt:
        case ast.If() | ast.For():
            return [stmt.body, stmt.orelse]
        case ast.With() | ast.FunctionDef():
            return [stmt.body]
        case _:
            return []


def _holds(block: list[ast.stmt], span: Span) -> bool:
    return bool(block) and block[0].lineno <= span.line <= (block[-1].end_lineno or 0)


def statement_of(step: Step) -> ast.stmt:
    return step[0][step[1]]


def indent_of(text: SourceText, stmt: ast.stmt) -> str:
    line = text.lines[stmt.lineno - 1]
    return line[: len(line) - len(line.lstrip())]


def insert_before(text: SourceText, stmt: ast.stmt, *new: str) -> Replacement:
    indent = indent_of(text, stmt)
    at = Span(text.file, stmt.lineno, 1, stmt.lineno, 1)
    return Replacement(at, "".join(f"{indent}{line}\n" for line in new))


def insert_after(text: SourceText, stmt: ast.stmt, *new: str) -> Replacement:
    indent, line = indent_of(text, stmt), stmt.end_lineno or stmt.lineno
    end = len(text.lines[line - 1].rstrip("\n")) + 1
    made = "".join(f"\n{indent}{one}" for one in new)
    return Replacement(Span(text.file, line, end, line, end), made)


def inserted(anchor: Span, after: bool, new: Sequence[str]) -> Replacement:
    """Lines before or after a statement, indented as it is.  Raises ValueError where the file is
    not what was read."""
    text = read_source(anchor)
    first = text.lines[anchor.line - 1]
    indent = first[: len(first) - len(first.lstrip())]
    if len(indent) != anchor.column - 1:
        raise ValueError("something stands before the statement in its line")
    if not after:
        at = Span(text.file, anchor.line, 1, anchor.line, 1)
        return Replacement(at, "".join(f"{indent}{line}\n" for line in new))
    last = max(anchor.line, anchor.end_line)
    end = len(text.lines[last - 1].rstrip("\n")) + 1
    made = "".join(f"\n{indent}{line}" for line in new)
    return Replacement(Span(text.file, last, end, last, end), made)


def indented_below(anchor: Span, header: str, rest: bool, *after: str) -> Replacement | None:
    """A statement, or it and the rest of its block, below a header, and lines after it; None where
    the file is not what was read."""
    try:
        text = read_source(anchor)
        block, at = path_down(text, anchor)[-1]
    except (ValueError, SyntaxError, RecursionError, IndexError):
        return None
    first = block[at]
    last = (block[-1] if rest else first).end_lineno or first.lineno
    lines = text.lines[first.lineno - 1 : last]
    indent = indent_of(text, first)
    new = "".join(f"    {line}" if line.strip() else line for line in lines)
    new += "".join(f"{indent}{line}\n" for line in after)
    return Replacement(Span(text.file, first.lineno, 1, last + 1, 1), f"{indent}{header}\n{new}")


def strict_bound(guard: Span) -> Replacement | None:
    """`<` in the place of the only `<=` of an `if`; None where that is not what the file has."""
    try:
        text = read_source(guard)
        stmt = statement_of(path_down(text, guard)[-1])
    except (ValueError, SyntaxError, RecursionError, IndexError):
        return None
    line = text.lines[stmt.lineno - 1]
    if not isinstance(stmt, ast.If) or line.count("<=") != 1:
        return None
    at = line.index("<=") + 1
    return Replacement(Span(text.file, stmt.lineno, at, stmt.lineno, at + 2), "<")


def call_of_macro(anchor: Span, around: Span) -> Span | None:
    """The statement of a block that calls the macro in which another stands: `around` is what
    holds the block.  None where the block itself holds it, or there is no one such call."""
    try:
        text, holder = read_source(anchor), read_source(around)
        inner, outer = path_down(text, anchor), path_down(holder, around)
    except (ValueError, SyntaxError, RecursionError, IndexError):
        return None
    macros = [s for s in map(statement_of, inner) if isinstance(s, ast.FunctionDef)]
    within = [s for s in map(statement_of, outer) if isinstance(s, ast.FunctionDef)]
    if not macros or not within or macros[-1] is within[-1]:
        return None
    calls = [
        stmt
        for block in blocks_of(statement_of(outer[-1]))
        for stmt in block
        if isinstance(stmt, ast.Expr) and _callee_name(stmt.value) == macros[-1].name
    ]
    return span_of(calls[0], holder.file, holder.lines) if len(calls) == 1 else None


def _callee_name(expr: ast.expr) -> str:
    """The name of the function that an expression calls; empty of another expression."""
    match expr:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case _:
            return ""


SHOWN: Final = 48
"""Characters of a statement that a sentence quotes."""


def scope(anchor: Span) -> str:
    """`, in the loop of line 20`: what holds a statement in the text; empty where that is not what
    was read."""
    try:
        text = read_source(anchor)
        around = path_down(text, anchor)[-2:-1]
    except (ValueError, SyntaxError, RecursionError):
        return ""
    match [statement_of(step) for step in around]:
        case [ast.For() as loop]:
            return f", in the loop of line {loop.lineno}"
        case [ast.If() as condition]:
            return f", in the `if` of line {condition.lineno}"
        case [ast.With() as block]:
            header = text.lines[block.lineno - 1].strip().removesuffix(":")
            header = header if len(header) <= SHOWN else "with"
            return f", in the `{header}` of line {block.lineno}"
        case [ast.FunctionDef(name=name)]:
            return f", in {name}"
        case _:
            return ""


def delete_statement(text: SourceText, stmt: ast.stmt) -> Replacement:
    return Replacement(Span(text.file, stmt.lineno, 1, (stmt.end_lineno or 0) + 1, 1), "")
