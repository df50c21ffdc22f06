"""Cursors: references to statements of a procedure, found by pattern and followed by path.

find(p, "for k in _: _")    the first loop over k
find(p, "C[_] += _ #1")     the second statement that adds to C
find(p, "A_tile")           an allocation, window, loop, instruction by its name

A cursor of a statement leads to its expressions, and to several statements from it on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Generic, TypeVar

from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, Note
from exogpu.ir import nodes as ir
from exogpu.ir.printer import print_stmt
from exogpu.ir.walk import blocks
from exogpu.schedule import expression_parts
from exogpu.schedule.argument_types import Schedulable
from exogpu.schedule.derivations import ir_of
from exogpu.schedule.expression_parts import Where, part_at, part_text, parts, pattern_of
from exogpu.schedule.rewrite import Path, block_at, paths, stmt_at

P = TypeVar("P", bound=Schedulable)


@dataclass(frozen=True, slots=True)
class Cursor(Generic[P]):
    """A statement of one procedure."""

    procedure: P
    path: Path

    @property
    def stmt(self) -> ir.Stmt:
        """The statement itself."""
        return stmt_at(ir_of(self.procedure), self.path)

    def parent(self) -> Cursor[P]:
        """The statement around it.  Raises ExoGpuError at the outermost."""
        if len(self.path) < 2:
            raise _nowhere(self.stmt, "nothing is around it")
        return replace(self, path=self.path[:-1])

    def body(self) -> tuple[Cursor[P], ...]:
        """The statements inside it; of an `if`, where the condition holds."""
        return self._children("body")

    def orelse(self) -> tuple[Cursor[P], ...]:
        """The statements inside the `else` of an `if`."""
        return self._children("orelse")

    def next(self) -> Cursor[P]:
        """The statement after it in its block.  Raises ExoGpuError at the last."""
        return self._sibling(1)

    def prev(self) -> Cursor[P]:
        """The statement before it in its block.  Raises ExoGpuError at the first."""
        return self._sibling(-1)

    def before(self) -> Gap[P]:
        """The place right before it."""
        return Gap(self, 0)

    def after(self) -> Gap[P]:
        """The place right after it."""
        return Gap(self, 1)

    def expand(self, before: int | None = None, after: int | None = None) -> Stretch[P]:
        """It and as many statements before and after it; None for all of its block."""
        return Stretch(self, self).expand(before, after)

    def expressions(self, pattern: str = "_") -> tuple[Expression[P], ...]:
        """The parts of its value that look like the pattern: `A[_]`, `_ * _`, `2 * x[i]`.

        Outermost first, left to right.
        """
        stmt = self.stmt
        if not isinstance(stmt, ir.Assign | ir.Reduce):
            return ()
        wanted = pattern_of(pattern)
        found = (where for where, part in parts(stmt.value) if wanted(part))
        return tuple(Expression(self, where) for where in found)

    def expression(self, pattern: str) -> Expression[P]:
        """The first of these, or the n-th where the pattern ends in `#n`.

        Raises ExoGpuError (X990) with the nearest candidates.
        """
        text, wanted = _numbered(pattern)
        found = self.expressions(text)
        if wanted < len(found):
            return found[wanted]
        raise ExoGpuError([_no_expression(self.stmt, pattern, text, len(found))])

    def _children(self, name: str) -> tuple[Cursor[P], ...]:
        block = getattr(self.stmt, name, ()) if blocks(self.stmt) else ()
        return tuple(replace(self, path=(*self.path, (name, at))) for at in range(len(block)))

    def _sibling(self, offset: int) -> Cursor[P]:
        (name, at) = self.path[-1]
        block = block_at(ir_of(self.procedure), self.path)
        if not 0 <= at + offset < len(block):
            raise _nowhere(self.stmt, f"nothing is {'after' if offset > 0 else 'before'} it")
        return replace(self, path=(*self.path[:-1], (name, at + offset)))

    def __str__(self) -> str:
        return header(self.stmt)


@dataclass(frozen=True, slots=True)
class Expression(Generic[P]):
    """A part of the value of an assignment."""

    statement: Cursor[P]
    where: Where

    @property
    def expr(self) -> ir.DExpr:
        """The expression itself."""
        stmt = self.statement.stmt
        assert isinstance(stmt, ir.Assign | ir.Reduce)
        return part_at(stmt.value, self.where)

    def parent(self) -> Expression[P] | Cursor[P]:
        """The expression around it; of the whole value the statement."""
        return replace(self, where=self.where[:-1]) if self.where else self.statement

    def children(self) -> tuple[Expression[P], ...]:
        """The operands of the expression."""
        count = len(expression_parts.children(self.expr))
        return tuple(replace(self, where=(*self.where, n)) for n in range(count))

    def __str__(self) -> str:
        return part_text(self.expr)


@dataclass(frozen=True, slots=True)
class Stretch(Generic[P]):
    """Statements of one block that follow each other."""

    first: Cursor[P]
    last: Cursor[P]

    def __iter__(self) -> Iterator[Cursor[P]]:
        """Each of them."""
        head, (name, at) = self.first.path[:-1], self.first.path[-1]
        for n in range(at, self.last.path[-1][1] + 1):
            yield replace(self.first, path=(*head, (name, n)))

    def __len__(self) -> int:
        return self.last.path[-1][1] - self.first.path[-1][1] + 1

    def before(self) -> Gap[P]:
        """The place right before them."""
        return self.first.before()

    def after(self) -> Gap[P]:
        """The place right after them."""
        return self.last.after()

    def parent(self) -> Cursor[P]:
        """The statement around them.  Raises ExoGpuError at the outermost."""
        return self.first.parent()

    def expand(self, before: int | None = None, after: int | None = None) -> Stretch[P]:
        """They and as many statements before and after them, no more than there are; None for
        all of their block."""
        (name, low), high = self.first.path[-1], self.last.path[-1][1]
        end = len(block_at(ir_of(self.first.procedure), self.first.path)) - 1
        low = 0 if before is None else max(low - before, 0)
        high = end if after is None else min(high + after, end)
        head = self.first.path[:-1]
        return Stretch(
            replace(self.first, path=(*head, (name, low))),
            replace(self.first, path=(*head, (name, high))),
        )

    def __str__(self) -> str:
        return " ... ".join(dict.fromkeys((str(self.first), str(self.last))))


@dataclass(frozen=True, slots=True)
class Gap(Generic[P]):
    """The place before (0) or after (1) a statement."""

    beside: Cursor[P]
    offset: int


def header(stmt: ir.Stmt) -> str:
    """The first line of a statement, as it prints alone."""
    return print_stmt(stmt).splitlines()[0].strip()


def find(procedure: P, pattern: str) -> Cursor[P]:
    """The statement that a pattern finds, the first unless it ends in `#n`.

    Raises ExoGpuError (X990) with the nearest candidates.
    """
    proc = ir_of(procedure)
    text, wanted = _numbered(_text(proc, pattern))
    found = list(_matching_paths(proc, text))
    if wanted < len(found):
        return Cursor(procedure, found[wanted])
    raise ExoGpuError([_not_found(proc, pattern, text, len(found))])


def _numbered(pattern: str) -> tuple[str, int]:
    """The pattern without `#n`, and n."""
    text, _, number = pattern.rpartition("#")
    if number.strip().isdecimal():
        return text.strip(), int(number)
    return pattern.strip(), 0


def _text(proc: ir.Proc, pattern: object) -> str:
    """A pattern.  Raises ExoGpuError (X990) for what is no text."""
    if isinstance(pattern, str):
        return pattern
    message = f"a pattern is text, and not a {type(pattern).__name__}"
    help_ = "write `followed(p, cursor)` for a cursor of an earlier procedure"
    raise ExoGpuError([Diagnostic("X990", message, proc.span, help_)])


def find_all(procedure: P, pattern: str) -> tuple[Cursor[P], ...]:
    """Every statement that a pattern finds, in program order."""
    proc = ir_of(procedure)
    return tuple(
        Cursor(procedure, path) for path in _matching_paths(proc, _text(proc, pattern).strip())
    )


def _matching_paths(proc: ir.Proc, pattern: str) -> Iterator[Path]:
    expression = _expression(pattern)
    for path, stmt in paths(proc):
        if pattern.isidentifier():
            if pattern in _names(stmt):
                yield path
        elif expression.fullmatch(header(stmt)):
            yield path


def _expression(pattern: str) -> re.Pattern[str]:
    """Compiles the pattern for the first line of a statement; `_` is anything."""
    block = re.match(r"(?:for|if|with)\b", pattern)
    if block:
        pattern = re.sub(r":\s*_$", ":", pattern)
        pattern = pattern if pattern.endswith(":") else f"{pattern}:"
    tokens = re.findall(r"\w+|\+=|[<>=!]=|\S", pattern)
    return re.compile(r"\s*".join(map(_token, tokens)))


def _token(token: str) -> str:
    match token:
        case "_":
            return ".*"
        case "=":  # and not the end of `+=`
            return r"(?<![+<>=!])=(?!=)"
        case _:
            return re.escape(token)


def _names(stmt: ir.Stmt) -> tuple[str, ...]:
    match stmt:
        case ir.For():
            return (stmt.iterator.name,)
        case ir.Alloc() | ir.BarrierAlloc() | ir.WindowStmt():
            return (stmt.name.name,)
        case ir.CallInstr():
            return (stmt.instr.name,)
        case ir.CallProc():
            return (stmt.proc.name,)
        case _:
            return ()


def _not_found(proc: ir.Proc, pattern: str, text: str, count: int) -> Diagnostic:
    plain = text.removesuffix(": _")
    candidates = sorted(
        (stmt for _, stmt in paths(proc) if not isinstance(stmt, ir.If) or "if" in text),
        key=lambda stmt: -SequenceMatcher(None, plain, header(stmt)).ratio(),
    )[:3]
    many = f"only {count} statements match" if count else "no statement matches"
    near = "; ".join(f"line {s.span.line}: {header(s)}" for s in candidates)
    return Diagnostic(
        "X990",
        f"{many} `{pattern}` in {proc.name}",
        proc.span,
        f"the nearest are {near}" if near else "the procedure has no statements",
        tuple(Note("a candidate", s.span) for s in candidates if s.span != NOWHERE),
    )


def _no_expression(stmt: ir.Stmt, pattern: str, text: str, count: int) -> Diagnostic:
    value = stmt.value if isinstance(stmt, ir.Assign | ir.Reduce) else None
    found = [] if value is None else [part_text(part) for _, part in parts(value)]
    near = sorted(found, key=lambda one: -SequenceMatcher(None, text, one).ratio())[:3]
    many = f"only {count} expressions match" if count else "no expression matches"
    return Diagnostic(
        "X990",
        f"{many} `{pattern}` in `{header(stmt)}`",
        stmt.span,
        f"the nearest are {'; '.join(near)}" if near else "the statement is no assignment",
    )


def _nowhere(stmt: ir.Stmt, why: str) -> ExoGpuError:
    help_ = "find the statement by a pattern"
    return ExoGpuError([Diagnostic("X990", f"`{header(stmt)}`: {why}", stmt.span, help_)])
