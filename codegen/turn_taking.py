"""One mbarrier element that several collectives arrive on and await in turn, as two roles do.

Where Arrives and Awaits alternate, and each Arrive is by the threads that executed the Await
before, all of them are in one order: PHASE holds at any ring depth.  Arrival r + d follows an Await
for r, each Await for r precedes arrival r + d, and an Await for r follows one for r - 1.  Then each
thread may count what all of them do, since each passes the places of all in the program's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from exogpu.analysis.affine import difference
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Arrive,
    Await,
    Block,
    CudaThreads,
    For,
    If,
    Loaded,
    Slot,
    Stmt,
    Warps,
)
from exogpu.solvers import isl

States: TypeAlias = frozenset[Stmt | None]
"""The use of the element that came last, in some execution; None before the first."""


class _NotInTurnError(Exception):
    """Two uses may follow each other that do not take turns."""


def take_turns(block: Block, name: Sym, threads: Mapping[Stmt, isl.Map]) -> bool:
    """Tests whether the Arrives and Awaits on a barrier variable in a block alternate, each Arrive
    by the threads of the Await before it.

    `threads` are the relations from elements to threads of each of them.
    """
    try:
        _block(block, name, threads, frozenset({None}))
    except _NotInTurnError:
        return False
    return True


def _block(block: Block, name: Sym, threads: Mapping[Stmt, isl.Map], states: States) -> States:
    for stmt in block:
        states = _statement(stmt, name, threads, states)
    return states


def _statement(stmt: Stmt, name: Sym, threads: Mapping[Stmt, isl.Map], states: States) -> States:
    match stmt:
        case For(mode=Slot() | Loaded()):
            return _block(stmt.body, name, threads, states)
        case For() if (count := difference(stmt.hi, stmt.lo)) is not None:
            # Of a thread loop each element sees one iteration: that of its CTA, or the only one.
            most = 1 if isinstance(stmt.mode, CudaThreads) else 2
            for _ in range(min(count, most)):
                states = _block(stmt.body, name, threads, states)
            return states
        case For():
            once = states | _block(stmt.body, name, threads, states)
            return once | _block(stmt.body, name, threads, once)
        case If():
            return _block(stmt.body, name, threads, states) | _block(
                stmt.orelse, name, threads, states
            )
        case Warps():
            return _block(stmt.body, name, threads, states)
        case Arrive() if stmt.targets[0].name == name:
            for before in states:
                mine = before is None or (
                    isinstance(before, Await) and isl.is_equal_map(threads[before], threads[stmt])
                )
                if not mine:
                    raise _NotInTurnError
            return frozenset({stmt})
        case Await() if stmt.barrier.name == name:
            if not all(isinstance(before, Arrive) for before in states):
                raise _NotInTurnError
            return frozenset({stmt})
        case _:
            return states
