"""Cursors: references to statements of a procedure, found by pattern and followed by path.

find(p, "for k in _: _")    the first loop over k
find(p, "C[_] += _ #1")     the second statement that adds to C
find(p, "A_tile")           an allocation, window, loop, instruction by its name
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Generic, TypeVar

from exogpu.ir.nodes import (
    Alloc,
    BarrierAlloc,
    CallInstr,
    CallProc,
    For,
    If,
    Proc,
    Stmt,
    WindowStmt,
)
from exogpu.ir.printer import print_stmt
from exogpu.ir.walk import blocks
from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError, Note
from exogpu.schedule.procedures import Schedulable, ir_of
from exogpu.schedule.rewrite import Path, block_at, paths, stmt_at

P = TypeVar("P", bound=Schedulable)


@dataclass(frozen=True, slots=True)
class Cursor(Generic[P]):
    """A statement of one procedure."""

    procedure: P
    path: Path

    @property
    def stmt(self) -> Stmt:
        """The statement itself."""
        return stmt_at(ir_of(self.procedure), self.path)

    def parent(self) -> Cursor[P]:
        """The statement around it.  Raises ExoGpuError at the outermost."""
        if len(self.path) < 2:
            raise _nowhere(self.stmt, "nothing is around it")
        return replace(self, path=self.path[:-1])

    def body(self) -> tuple[Cursor[P], ...]:
        """The statements inside it; of an `if`, where the condition holds."""
        return self._inside("body")

    def orelse(self) -> tuple[Cursor[P], ...]:
        """The statements inside the `else` of an `if`."""
        return self._inside("orelse")

    def next(self) -> Cursor[P]:
        """The statement after it in its block.  Raises ExoGpuError at the last."""
        return self._beside(1)

    def prev(self) -> Cursor[P]:
        """The statement before it in its block.  Raises ExoGpuError at the first."""
        return self._beside(-1)

    def before(self) -> Gap[P]:
        """The place right before it."""
        return Gap(self, 0)

    def after(self) -> Gap[P]:
        """The place right after it."""
        return Gap(self, 1)

    def _inside(self, name: str) -> tuple[Cursor[P], ...]:
        block = getattr(self.stmt, name, ()) if blocks(self.stmt) else ()
        return tuple(replace(self, path=(*self.path, (name, at))) for at in range(len(block)))

    def _beside(self, offset: int) -> Cursor[P]:
        (name, at) = self.path[-1]
        block = block_at(ir_of(self.procedure), self.path)
        if not 0 <= at + offset < len(block):
            raise _nowhere(self.stmt, f"nothing is {'after' if offset > 0 else 'before'} it")
        return replace(self, path=(*self.path[:-1], (name, at + offset)))

    def __str__(self) -> str:
        return header(self.stmt)


@dataclass(frozen=True, slots=True)
class Gap(Generic[P]):
    """The place before (0) or after (1) a statement."""

    beside: Cursor[P]
    offset: int


def header(stmt: Stmt) -> str:
    """The first line of a statement, as it prints alone."""
    return print_stmt(stmt).splitlines()[0].strip()


def find(procedure: P, pattern: str) -> Cursor[P]:
    """The statement that a pattern finds, the first unless it ends in `#n`.

    Raises ExoGpuError (X990) with the nearest candidates.
    """
    proc = ir_of(procedure)
    text, _, number = pattern.partition("#")
    wanted = int(number) if number.strip().isdigit() else 0
    found = list(_found(proc, text.strip()))
    if wanted < len(found):
        return Cursor(procedure, found[wanted])
    raise ExoGpuError([_not_found(proc, pattern, text.strip(), len(found))])


def find_all(procedure: P, pattern: str) -> tuple[Cursor[P], ...]:
    """Every statement that a pattern finds, in program order."""
    return tuple(Cursor(procedure, path) for path in _found(ir_of(procedure), pattern.strip()))


def _found(proc: Proc, pattern: str) -> Iterator[Path]:
    expression = _expression(pattern)
    for path, stmt in paths(proc):
        if pattern.isidentifier():
            if pattern in _names(stmt):
                yield path
        elif expression.fullmatch(header(stmt)):
            yield path


def _expression(pattern: str) -> re.Pattern[str]:
    """What the first line of a statement must look like; `_` is anything."""
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


def _names(stmt: Stmt) -> tuple[str, ...]:
    match stmt:
        case For():
            return (stmt.iterator.name,)
        case Alloc() | BarrierAlloc() | WindowStmt():
            return (stmt.name.name,)
        case CallInstr():
            return (stmt.instr.name,)
        case CallProc():
            return (stmt.proc.name,)
        case _:
            return ()


def _not_found(proc: Proc, pattern: str, text: str, count: int) -> Diagnostic:
    plain = text.removesuffix(": _")
    candidates = sorted(
        (stmt for _, stmt in paths(proc) if not isinstance(stmt, If) or "if" in text),
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


def _nowhere(stmt: Stmt, why: str) -> ExoGpuError:
    help_ = "find the statement by a pattern"
    return ExoGpuError([Diagnostic("X990", f"`{header(stmt)}`: {why}", stmt.span, help_)])
