"""Procedures under trial: every statement has a number of its own, which edits keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, count
from typing import Final

from exogpu.diagnostics.errors import ExoGpuError, Span
from exogpu.ir import nodes as ir
from exogpu.ir import render
from exogpu.ir.types import Extent, Sym
from exogpu.ir.walk import map_blocks
from exogpu.schedule import rewrite
from exogpu.schedule.checking.opened_procedure import SYNCHRONISATION
from exogpu.schedule.cursors import Cursor, Gap
from exogpu.schedule.derivations import P
from exogpu.schedule.primitives import barriers
from exogpu.schedule.reparse import declared as declared_in

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


def numbered(proc: ir.Proc, numbers: Numbers) -> ir.Proc:
    """The procedure with a number for each statement."""

    def block(old: ir.Block) -> ir.Block:
        return tuple(map_blocks(replace(s, span=numbers.span()), block) for s in old)

    return replace(proc, body=block(proc.body))


def number(stmt: ir.Stmt) -> int:
    """The number of a statement."""
    return stmt.span.line


@dataclass(frozen=True, eq=False)
class Draft:
    """A procedure whose statements are numbered, and the numbers for more."""

    proc: ir.Proc
    numbers: Numbers = field(repr=False)

    @cached_property
    def places(self) -> dict[int, rewrite.Path]:
        """The path of each statement, by its number."""
        return {number(stmt): path for path, stmt in rewrite.paths(self.proc)}

    @cached_property
    def statements(self) -> dict[int, ir.Stmt]:
        """Each statement by its number."""
        return {number(stmt): stmt for _, stmt in rewrite.paths(self.proc)}

    def statement_at(self, path: rewrite.Path) -> ir.Stmt:
        """The statement of a path."""
        return rewrite.stmt_at(self.proc, path)

    def block(self, path: rewrite.Path) -> ir.Block:
        """The block that a path ends in."""
        return rewrite.block_at(self.proc, path)

    def enclosing(self, path: rewrite.Path) -> tuple[ir.Stmt, ...]:
        """Returns the statements around that of a path, outermost first."""
        return rewrite.enclosing_statements(self.proc, path)

    def fresh(self, stmt: ir.Stmt) -> ir.Stmt:
        """A new statement, with numbers for it and all in it."""

        def block(old: ir.Block) -> ir.Block:
            return tuple(map(self.fresh, old))

        return map_blocks(replace(stmt, span=self.numbers.span()), block)

    def name(self, wanted: str) -> Sym:
        """A new variable of that name, or of one like it that is not taken."""
        taken = {s.name for s in declared_in(self.proc.body)}
        taken |= {p.name.name for p in self.proc.params}
        names = chain([wanted], (f"{wanted}{n}" for n in count(1)))
        return Sym(next(name for name in names if name not in taken))

    # --- edits ----------------------------------------------------------------------------

    def inserted(self, new: Iterable[tuple[rewrite.Path, ir.Stmt]]) -> Draft:
        """With statements put before those paths, all of this procedure; in the order given
        where several paths are the same."""
        listed = list(new)
        order = sorted(range(len(listed)), key=lambda n: (listed[n][0], n), reverse=True)
        edit = rewrite.unchanged_rewrite(self.proc)
        for n in order:
            path, stmt = listed[n]
            rewrite.splice(edit, path, 0, (self.fresh(stmt),))
        return Draft(edit.new, self.numbers)

    def replace_statement(self, path: rewrite.Path, stmt: ir.Stmt, *, same: bool = False) -> Draft:
        """With another statement in the place of one; with its number if it is the `same`."""
        edit = rewrite.unchanged_rewrite(self.proc)
        new = replace(stmt, span=self.statement_at(path).span) if same else self.fresh(stmt)
        rewrite.splice(edit, path, 1, (new,))
        return Draft(edit.new, self.numbers)

    def remove_statement(self, path: rewrite.Path) -> Draft:
        """Without a statement, and what held it alone."""
        edit = rewrite.unchanged_rewrite(self.proc)
        barriers.remove_with_enclosing(edit, path)
        return Draft(edit.new, self.numbers)


def is_sequential(stmt: ir.Stmt) -> bool:
    """Tests whether a statement is a loop in order."""
    return isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.Seq)


def is_threads(stmt: ir.Stmt) -> bool:
    """Tests whether a statement is a loop over threads."""
    return isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.CudaThreads)


def is_tasks(stmt: ir.Stmt) -> bool:
    """Tests whether a statement is a loop over tasks."""
    return isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.CudaTasks)


def is_alone(stmt: ir.Stmt) -> bool:
    """Tests whether it is a loop whose iterations one thread executes each: a sync in it orders
    that thread alone."""
    if not isinstance(stmt, ir.For) or not isinstance(stmt.mode, ir.CudaThreads):
        return False
    return all(e is not None and e == Extent(Fraction(1)) for e in stmt.mode.unit.box)


def is_unsignalled(stmt: ir.Stmt) -> bool:
    """Tests whether a statement calls an instruction that must signal a barrier, and signals
    none."""
    if not isinstance(stmt, ir.CallInstr) or stmt.instr.trailing is None:
        return False
    return stmt.instr.trailing_required and stmt.trailing is None


def path_after(path: rewrite.Path) -> rewrite.Path:
    """The place after the statement of a path."""
    return (*path[:-1], (path[-1][0], path[-1][1] + 1))


def upwards(path: rewrite.Path) -> Iterator[rewrite.Path]:
    """The path and those of what contains it, outwards."""
    for length in range(len(path), 0, -1):
        yield path[:length]


def allocations(draft: Draft, path: rewrite.Path) -> rewrite.Path | None:
    """The place after the first allocations of the task that a path is in."""
    task = next((p for p in upwards(path[:-1]) if p and is_tasks(draft.statement_at(p))), None)
    if task is None:
        return None
    loop = draft.statement_at(task)
    assert isinstance(loop, ir.For)
    many = 0
    while many < len(loop.body) and isinstance(
        loop.body[many], ir.Alloc | ir.BarrierAlloc | ir.WindowStmt
    ):
        many += 1
    return (*task, ("body", many))


# From a draft to a derived procedure: its changes as steps of primitives.

Action = Callable[[P, Draft], tuple[P, Draft]]


def replay_draft(procedure: P, before: Draft, after: Draft) -> P:
    """The procedure with the changes that lead from one draft to the other.

    A step whose rule another one must keep first waits for it.  Raises ExoGpuError where a step
    is refused at last.
    """
    waiting: list[Action[P]] = list(_actions(before, after))
    draft = before
    while waiting:
        refused: list[Action[P]] = []
        last: ExoGpuError | None = None
        for action in waiting:
            try:
                procedure, draft = action(procedure, draft)
            except ExoGpuError as refusal:
                refused.append(action)
                last = refusal
        if len(refused) == len(waiting):
            assert last is not None
            raise last
        waiting = refused
    return procedure


def _actions(before: Draft, after: Draft) -> Iterator[Action[P]]:
    added = [
        (path, stmt)
        for n, stmt in after.statements.items()
        if n not in before.statements
        and number(after.statement_at((path := after.places[n])[:-1])) in before.statements
    ]
    order = {ir.BarrierAlloc: 0, ir.Arrive: 2, ir.Await: 3, ir.Fence: 4}
    for path, stmt in sorted(added, key=lambda one: order.get(type(_leaf(one[1])), 1)):
        if not isinstance(stmt, ir.BarrierAlloc):
            continue
        yield _Insertion(after, path, stmt)
    for n, stmt in before.statements.items():
        other = after.statements.get(n)
        match stmt, other:
            case ir.CallInstr(), ir.CallInstr() if stmt.trailing != other.trailing:
                yield _Signal(n, other)
            case _:
                pass
    for path, stmt in sorted(added, key=lambda one: order.get(type(_leaf(one[1])), 1)):
        if not isinstance(stmt, ir.BarrierAlloc):
            yield _Insertion(after, path, stmt)
    for n, stmt in before.statements.items():
        if isinstance(stmt, SYNCHRONISATION) and n not in after.statements:
            yield _Deletion(n)


def _leaf(stmt: ir.Stmt) -> ir.Stmt:
    while isinstance(stmt, ir.For):
        (stmt,) = stmt.body
    return stmt


@dataclass(frozen=True, slots=True)
class _Deletion:
    number: int

    def __call__(self, procedure: P, draft: Draft) -> tuple[P, Draft]:
        path = draft.places[self.number]
        return barriers.delete_sync(procedure, Cursor(procedure, path)), draft.remove_statement(
            path
        )


@dataclass(frozen=True, slots=True)
class _Signal:
    number: int
    call: ir.CallInstr

    def __call__(self, procedure: P, draft: Draft) -> tuple[P, Draft]:
        path = draft.places[self.number]
        barrier = None if self.call.trailing is None else _access_text(self.call.trailing)
        made: P = barriers.set_trailing_barrier_expr(procedure, Cursor(procedure, path), barrier)
        return made, draft.replace_statement(path, self.call, same=True)


@dataclass(frozen=True, slots=True)
class _Insertion:
    """A new statement, with the loops of threads around it."""

    after: Draft
    path: rewrite.Path
    stmt: ir.Stmt

    def __call__(self, procedure: P, draft: Draft) -> tuple[P, Draft]:
        beside, offset = self._neighbour(draft)
        gap = Gap(Cursor(procedure, beside), offset)
        made = self._insert(procedure, gap)
        edit = rewrite.unchanged_rewrite(draft.proc)
        (name, at) = beside[-1]
        rewrite.splice(edit, (*beside[:-1], (name, at + offset)), 0, (self.stmt,))
        return made, Draft(edit.new, draft.numbers)

    def _neighbour(self, draft: Draft) -> tuple[rewrite.Path, int]:
        """A statement that is there already, and whether the new one comes after it."""
        block, at = self.after.block(self.path), self.path[-1][1]
        for earlier in reversed(block[:at]):
            if number(earlier) in draft.places:
                return draft.places[number(earlier)], 1
        for later in block[at + 1 :]:
            if number(later) in draft.places:
                return draft.places[number(later)], 0
        parent = draft.places[number(self.after.statement_at(self.path[:-1]))]
        return (*parent, (self.path[-1][0], 0)), 0

    def _insert(self, procedure: P, gap: Gap[P]) -> P:
        over, leaf = [], self.stmt
        while isinstance(leaf, ir.For):
            assert isinstance(leaf.mode, ir.CudaThreads) and isinstance(leaf.hi, ir.Int)
            over.append((leaf.iterator.name, leaf.hi.value, leaf.mode.unit))
            (leaf,) = leaf.body
        loops = {"over": over} if over else {}
        made: P
        match leaf:
            case ir.Fence():
                made = barriers.insert_fence(procedure, gap, leaf.pre, leaf.post, **loops)
            case ir.Arrive():
                targets = map(_access_text, leaf.targets)
                made = barriers.insert_arrive(procedure, gap, leaf.timeline, *targets, **loops)
            case ir.Await():
                made = barriers.insert_await(
                    procedure, gap, _access_text(leaf.barrier), leaf.timeline, leaf.n, **loops
                )
            case ir.BarrierAlloc():
                guard = {} if leaf.guard is None else {"guard": leaf.guard.name}
                shape = [e.value for e in leaf.shape if isinstance(e, ir.Int)]
                made = barriers.insert_barrier_alloc(
                    procedure, gap, leaf.name.name, shape, leaf.mechanism, **guard
                )
            case _:
                raise AssertionError(leaf)
        return made


def _access_text(access: ir.Access) -> str:
    return render.access(access, lambda name: name.name)
