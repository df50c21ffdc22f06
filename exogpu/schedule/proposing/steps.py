"""From a draft to a derived procedure: its changes as steps of primitives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from exogpu.ir import print_expressions as text
from exogpu.ir.nodes import (
    Access,
    Arrive,
    Await,
    BarrierAlloc,
    CallInstr,
    CudaThreads,
    Fence,
    For,
    Int,
    Stmt,
)
from exogpu.result.errors import ExoGpuError
from exogpu.schedule.cursors import Cursor, Gap
from exogpu.schedule.procedures import P
from exogpu.schedule.proposing.drafts import Draft, number
from exogpu.schedule.rewrite import Path, begun, splice
from exogpu.schedule.silent import SYNCHRONISATION
from exogpu.schedule.synchronisation import (
    delete_sync,
    insert_arrive,
    insert_await,
    insert_barrier_alloc,
    insert_fence,
    set_trailing_barrier_expr,
)

Action = Callable[[P, Draft], tuple[P, Draft]]


def derived(procedure: P, before: Draft, after: Draft) -> P:
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
        and number(after.at((path := after.places[n])[:-1])) in before.statements
    ]
    order = {BarrierAlloc: 0, Arrive: 2, Await: 3, Fence: 4}
    for path, stmt in sorted(added, key=lambda one: order.get(type(_leaf(one[1])), 1)):
        if not isinstance(stmt, BarrierAlloc):
            continue
        yield _Insertion(after, path, stmt)
    for n, stmt in before.statements.items():
        other = after.statements.get(n)
        match stmt, other:
            case CallInstr(), CallInstr() if stmt.trailing != other.trailing:
                yield _Signal(n, other)
            case _:
                pass
    for path, stmt in sorted(added, key=lambda one: order.get(type(_leaf(one[1])), 1)):
        if not isinstance(stmt, BarrierAlloc):
            yield _Insertion(after, path, stmt)
    for n, stmt in before.statements.items():
        if isinstance(stmt, SYNCHRONISATION) and n not in after.statements:
            yield _Deletion(n)


def _leaf(stmt: Stmt) -> Stmt:
    while isinstance(stmt, For):
        (stmt,) = stmt.body
    return stmt


@dataclass(frozen=True, slots=True)
class _Deletion:
    number: int

    def __call__(self, procedure: P, draft: Draft) -> tuple[P, Draft]:
        path = draft.places[self.number]
        return delete_sync(procedure, Cursor(procedure, path)), draft.without(path)


@dataclass(frozen=True, slots=True)
class _Signal:
    number: int
    call: CallInstr

    def __call__(self, procedure: P, draft: Draft) -> tuple[P, Draft]:
        path = draft.places[self.number]
        barrier = None if self.call.trailing is None else _access_text(self.call.trailing)
        made: P = set_trailing_barrier_expr(procedure, Cursor(procedure, path), barrier)
        return made, draft.replaced(path, self.call, same=True)


@dataclass(frozen=True, slots=True)
class _Insertion:
    """A new statement, with the loops of threads around it."""

    after: Draft
    path: Path
    stmt: Stmt

    def __call__(self, procedure: P, draft: Draft) -> tuple[P, Draft]:
        beside, offset = self._beside(draft)
        gap = Gap(Cursor(procedure, beside), offset)
        made = self._made(procedure, gap)
        edit = begun(draft.proc)
        (name, at) = beside[-1]
        splice(edit, (*beside[:-1], (name, at + offset)), 0, (self.stmt,))
        return made, Draft(edit.new, draft.numbers)

    def _beside(self, draft: Draft) -> tuple[Path, int]:
        """A statement that is there already, and whether the new one comes after it."""
        block, at = self.after.block(self.path), self.path[-1][1]
        for earlier in reversed(block[:at]):
            if number(earlier) in draft.places:
                return draft.places[number(earlier)], 1
        for later in block[at + 1 :]:
            if number(later) in draft.places:
                return draft.places[number(later)], 0
        parent = draft.places[number(self.after.at(self.path[:-1]))]
        return (*parent, (self.path[-1][0], 0)), 0

    def _made(self, procedure: P, gap: Gap[P]) -> P:
        over, leaf = [], self.stmt
        while isinstance(leaf, For):
            assert isinstance(leaf.mode, CudaThreads) and isinstance(leaf.hi, Int)
            over.append((leaf.iterator.name, leaf.hi.value, leaf.mode.unit))
            (leaf,) = leaf.body
        loops = {"over": over} if over else {}
        made: P
        match leaf:
            case Fence():
                made = insert_fence(procedure, gap, leaf.pre, leaf.post, **loops)
            case Arrive():
                targets = map(_access_text, leaf.targets)
                made = insert_arrive(procedure, gap, leaf.timeline, *targets, **loops)
            case Await():
                made = insert_await(
                    procedure, gap, _access_text(leaf.barrier), leaf.timeline, leaf.n, **loops
                )
            case BarrierAlloc():
                guard = {} if leaf.guard is None else {"guard": leaf.guard.name}
                shape = [e.value for e in leaf.shape if isinstance(e, Int)]
                made = insert_barrier_alloc(
                    procedure, gap, leaf.name.name, shape, leaf.mechanism, **guard
                )
            case _:
                raise AssertionError(leaf)
        return made


def _access_text(access: Access) -> str:
    return text.access(access, lambda name: name.name)
