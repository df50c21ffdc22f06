"""Changes of the synchronisation that is there: other skips, other places, less of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.ir.nodes import Arrive, Await, Fence, Stmt
from exogpu.schedule.proposing.drafts import Draft, number
from exogpu.schedule.proposing.moves import Move
from exogpu.schedule.proposing.repairs import moved
from exogpu.schedule.rewrite import Path, paths
from exogpu.schedule.scopes import out_of_scope


def edits(draft: Draft) -> Iterator[Move]:
    """Every small change of one statement of synchronisation, or of all Awaits of one barrier."""
    for path, stmt in paths(draft.proc):
        if isinstance(stmt, Await):
            for n in _others(stmt.n):
                yield Move("skip", 1, draft.replaced(path, replace(stmt, n=n)))
        if isinstance(stmt, Fence | Arrive | Await):
            for made in _elsewhere(draft, path, stmt):
                if out_of_scope(made.proc) is None:
                    yield Move("place", 1.5, made)


def removals(draft: Draft, broken: int) -> Iterator[Move]:
    """Without the barrier of a statement: every Arrive and Await on it."""
    stmt = draft.statements.get(broken)
    match stmt:
        case Arrive():
            name = stmt.targets[0].name
        case Await():
            name = stmt.barrier.name
        case Fence():
            yield Move("removal", 1, draft.without(draft.places[broken]))
            return
        case _:
            return
    made, many = draft, 0
    while True:
        found = next((p for p, s in paths(made.proc) if _on(s, name)), None)
        if found is None:
            break
        made, many = made.without(found), many + 1
    yield Move("removal", many, made)


def _on(stmt: Stmt, name: object) -> bool:
    match stmt:
        case Arrive():
            return stmt.targets[0].name == name
        case Await():
            return stmt.barrier.name == name
        case _:
            return False


def _others(n: int) -> Iterator[int]:
    for other in (n + 1, n - 1):
        if (n < 0) == (other < 0):
            yield other


def _elsewhere(draft: Draft, path: Path, stmt: Stmt) -> Iterator[Draft]:
    """The statement before its neighbour, after it, and out of what holds it."""
    block, at = draft.block(path), path[-1][1]
    which = number(stmt)
    if at > 0:
        yield from moved(draft, which, number(block[at - 1]), False)
    if at + 1 < len(block):
        yield from moved(draft, which, number(block[at + 1]), True)
    if len(path) > 1:
        holder = number(draft.at(path[:-1]))
        yield from moved(draft, which, holder, False)
        yield from moved(draft, which, holder, True)
