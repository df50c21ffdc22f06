"""Procedures under trial: every statement has a number of its own, which edits keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, count
from typing import Final

from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Alloc,
    BarrierAlloc,
    Block,
    CallInstr,
    CudaTasks,
    CudaThreads,
    For,
    Proc,
    Seq,
    Stmt,
    WindowStmt,
)
from exogpu.ir.types import Extent
from exogpu.ir.walk import map_blocks
from exogpu.result.errors import Span
from exogpu.schedule.rewrite import Path, around, begun, block_at, paths, splice, stmt_at
from exogpu.schedule.scopes import declared as declared_in
from exogpu.schedule.synchronisation import cut

FILE: Final = "<synchronise>"
"""The file of the spans that number statements."""


class Numbers:
    """Numbers for statements, each once."""

    def __init__(self) -> None:
        self._next = count(1)

    def span(self) -> Span:
        """A span that no other statement has."""
        n = next(self._next)
        return Span(FILE, n, 1, n, 1)


def numbered(proc: Proc, numbers: Numbers) -> Proc:
    """The procedure with a number for each statement."""

    def block(old: Block) -> Block:
        return tuple(map_blocks(replace(s, span=numbers.span()), block) for s in old)

    return replace(proc, body=block(proc.body))


def number(stmt: Stmt) -> int:
    """The number of a statement."""
    return stmt.span.line


@dataclass(frozen=True, eq=False)
class Draft:
    """A procedure whose statements are numbered, and the numbers for more."""

    proc: Proc
    numbers: Numbers = field(repr=False)

    @cached_property
    def places(self) -> dict[int, Path]:
        """The path of each statement, by its number."""
        return {number(stmt): path for path, stmt in paths(self.proc)}

    @cached_property
    def statements(self) -> dict[int, Stmt]:
        """Each statement by its number."""
        return {number(stmt): stmt for _, stmt in paths(self.proc)}

    def at(self, path: Path) -> Stmt:
        """The statement of a path."""
        return stmt_at(self.proc, path)

    def block(self, path: Path) -> Block:
        """The block that a path ends in."""
        return block_at(self.proc, path)

    def around(self, path: Path) -> tuple[Stmt, ...]:
        """Returns the statements around that of a path, outermost first."""
        return around(self.proc, path)

    def fresh(self, stmt: Stmt) -> Stmt:
        """A new statement, with numbers for it and all in it."""

        def block(old: Block) -> Block:
            return tuple(map(self.fresh, old))

        return map_blocks(replace(stmt, span=self.numbers.span()), block)

    def name(self, wanted: str) -> Sym:
        """A new variable of that name, or of one like it that is not taken."""
        taken = {s.name for s in declared_in(self.proc.body)}
        taken |= {p.name.name for p in self.proc.params}
        names = chain([wanted], (f"{wanted}{n}" for n in count(1)))
        return Sym(next(name for name in names if name not in taken))

    # --- edits ----------------------------------------------------------------------------

    def inserted(self, new: Iterable[tuple[Path, Stmt]]) -> Draft:
        """With statements put before those paths, all of this procedure; in the order given
        where several paths are the same."""
        listed = list(new)
        order = sorted(range(len(listed)), key=lambda n: (listed[n][0], n), reverse=True)
        edit = begun(self.proc)
        for n in order:
            path, stmt = listed[n]
            splice(edit, path, 0, (self.fresh(stmt),))
        return Draft(edit.new, self.numbers)

    def replaced(self, path: Path, stmt: Stmt, *, same: bool = False) -> Draft:
        """With another statement in the place of one; with its number if it is the `same`."""
        edit = begun(self.proc)
        new = replace(stmt, span=self.at(path).span) if same else self.fresh(stmt)
        splice(edit, path, 1, (new,))
        return Draft(edit.new, self.numbers)

    def without(self, path: Path) -> Draft:
        """Without a statement, and what held it alone."""
        edit = begun(self.proc)
        cut(edit, path)
        return Draft(edit.new, self.numbers)


def is_sequential(stmt: Stmt) -> bool:
    """Tests whether a statement is a loop in order."""
    return isinstance(stmt, For) and isinstance(stmt.mode, Seq)


def is_threads(stmt: Stmt) -> bool:
    """Tests whether a statement is a loop over threads."""
    return isinstance(stmt, For) and isinstance(stmt.mode, CudaThreads)


def is_tasks(stmt: Stmt) -> bool:
    """Tests whether a statement is a loop over tasks."""
    return isinstance(stmt, For) and isinstance(stmt.mode, CudaTasks)


def is_alone(stmt: Stmt) -> bool:
    """Tests whether it is a loop whose iterations one thread executes each: a sync in it orders
    that thread alone."""
    if not isinstance(stmt, For) or not isinstance(stmt.mode, CudaThreads):
        return False
    return all(e is not None and e == Extent(Fraction(1)) for e in stmt.mode.unit.box)


def is_unsignalled(stmt: Stmt) -> bool:
    """Tests whether a statement calls an instruction that must signal a barrier, and signals
    none."""
    if not isinstance(stmt, CallInstr) or stmt.instr.trailing is None:
        return False
    return stmt.instr.trailing_required and stmt.trailing is None


def after(path: Path) -> Path:
    """The place after the statement of a path."""
    return (*path[:-1], (path[-1][0], path[-1][1] + 1))


def upwards(path: Path) -> Iterator[Path]:
    """The path and those of what contains it, outwards."""
    for length in range(len(path), 0, -1):
        yield path[:length]


def allocations(draft: Draft, path: Path) -> Path | None:
    """The place after the first allocations of the task that a path is in."""
    task = next((p for p in upwards(path[:-1]) if p and is_tasks(draft.at(p))), None)
    if task is None:
        return None
    loop = draft.at(task)
    assert isinstance(loop, For)
    many = 0
    while many < len(loop.body) and isinstance(loop.body[many], Alloc | BarrierAlloc | WindowStmt):
        many += 1
    return (*task, ("body", many))
