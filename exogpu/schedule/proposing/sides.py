"""The side of a ring that is missing: an mbarrier on which nobody arrives, or nobody waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from exogpu.analysis.barriers import home_of
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Arrive,
    Await,
    BarrierAlloc,
    CallInstr,
    CVar,
    For,
    Stmt,
)
from exogpu.ir.types import BarrierMechanism
from exogpu.ir.walk import substitute_access
from exogpu.schedule.proposing.drafts import Draft, is_threads
from exogpu.schedule.proposing.moves import Move
from exogpu.schedule.proposing.rings import depth_of, given_back, target_of
from exogpu.schedule.rewrite import Path, paths
from exogpu.schedule.silent import is_silent

SEEN: Final = ("cuda_temporal", "cuda_generic_and_async")
"""Second timelines of the new Await: of those that overwrite, and of those that read."""


def sides(draft: Draft) -> Iterator[Move]:
    """An Arrive or an Await for each mbarrier that has none, where its partner is used: who waits
    for one of the two arrives on the other."""
    declared = [s for _, s in paths(draft.proc) if isinstance(s, BarrierAlloc)]
    for barrier in declared:
        partner = _partner(barrier, declared)
        if partner is None:
            continue
        arrives, awaits = _users(draft, barrier.name)
        signals, waits = _users(draft, partner)
        if arrives and not awaits:
            yield from _awaiting(draft, barrier.name, signals)
        elif awaits and not arrives:
            yield from _arriving(draft, barrier.name, partner, waits)


def _partner(barrier: BarrierAlloc, declared: list[BarrierAlloc]) -> Sym | None:
    if barrier.mechanism is not BarrierMechanism.MBARRIER:
        return None
    return barrier.guard or next((b.name for b in declared if b.guard == barrier.name), None)


def _users(draft: Draft, name: Sym) -> tuple[list[Path], list[Path]]:
    """Returns the statements that arrive on a barrier, and those that wait for it; instructions
    that signal it arrive."""
    arrives: list[Path] = []
    awaits: list[Path] = []
    for path, stmt in paths(draft.proc):
        match stmt:
            case Arrive() if stmt.targets[0].name == name:
                arrives.append(path)
            case CallInstr() if stmt.trailing is not None and stmt.trailing.name == name:
                arrives.append(path)
            case Await() if stmt.barrier.name == name:
                awaits.append(path)
            case _:
                pass
    return arrives, awaits


def _awaiting(draft: Draft, name: Sym, signals: list[Path]) -> Iterator[Move]:
    depths = {depth_of(target_of(draft, s)) for s in _loads(draft)}
    for path in signals:
        stmt = draft.at(path)
        home = home_of(stmt.targets) if isinstance(stmt, Arrive) else None
        if home is None:
            continue
        for n in sorted({0, *depths}):
            for seen in SEEN:
                element = Access(name, home.coords)
                yield from _placed(draft, path, Await(element, SYNC_TIMELINES[seen], ~n))


def _arriving(draft: Draft, name: Sym, partner: Sym, waits: list[Path]) -> Iterator[Move]:
    loads = [s for s in _loads(draft) if s.trailing is not None and s.trailing.name == partner]
    for path in waits:
        stmt = draft.at(path)
        assert isinstance(stmt, Await)
        index = stmt.barrier.coords
        targets = given_back(name, index, loads) if loads else (Access(name, index),)
        for first in ("cuda_in_order", "cuda_temporal"):
            yield from _placed(draft, path, Arrive(SYNC_TIMELINES[first], targets))


def _loads(draft: Draft) -> list[CallInstr]:
    calls = (s for s in draft.statements.values() if isinstance(s, CallInstr))
    return [call for call in calls if call.trailing is not None]


def _placed(draft: Draft, beside: Path, stmt: Stmt) -> Iterator[Move]:
    """The statement at each place of the block that another one is in, in loops of the same
    threads if those around the other have no work in them."""
    loops: list[For] = []
    while len(beside) > 1:
        parent = draft.at(beside[:-1])
        if not isinstance(parent, For) or not is_threads(parent) or not is_silent(parent):
            break
        loops.append(parent)
        beside = beside[:-1]
    for loop in loops:
        fresh = Sym(loop.iterator.name)
        body = _renamed(stmt, loop.iterator, fresh)
        stmt = For(fresh, loop.lo, loop.hi, loop.mode, (body,))
    name = beside[-1][0]
    for at in range(len(draft.block(beside)) + 1):
        yield Move("side", 1, draft.inserted([((*beside[:-1], (name, at)), stmt)]))


def _renamed(stmt: Stmt, old: Sym, new: Sym) -> Stmt:
    values = {old: CVar(new)}
    match stmt:
        case Arrive():
            targets = tuple(substitute_access(a, values) for a in stmt.targets)
            return Arrive(stmt.timeline, targets)
        case Await():
            return Await(substitute_access(stmt.barrier, values), stmt.timeline, stmt.n)
        case For():
            body = tuple(_renamed(s, old, new) for s in stmt.body)
            return For(stmt.iterator, stmt.lo, stmt.hi, stmt.mode, body)
        case _:
            return stmt
