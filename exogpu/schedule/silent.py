"""Compares procedures apart from synchronisation and threads, which the sequential meaning does not
know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from exogpu.ir.nodes import (
    Arrive,
    Await,
    BarrierAlloc,
    Block,
    CallInstr,
    DeviceFunction,
    Fence,
    For,
    If,
    Pass,
    Proc,
    Stmt,
    Uninit,
    Warps,
)

SYNCHRONISATION: Final = (Fence, Arrive, Await, BarrierAlloc)
"""Statements that compute nothing."""

Synchronisation: TypeAlias = Fence | Arrive | Await | BarrierAlloc


@dataclass(frozen=True, slots=True)
class _Heard:
    """A statement that computes, or a loop or `if` with some in it."""

    stmt: Stmt
    inside: tuple[tuple[_Heard, ...], ...] = ()


def same_but_for_silence(old: Proc, new: Proc) -> bool:
    """Tests whether two procedures differ in synchronisation, warps and launches alone.

    Every other statement is the same object in both, in the same order, in loops and conditions
    that are equal; so both have one sequential meaning.
    """
    if old.params != new.params or old.preconditions != new.preconditions:
        return False
    return _same_statements(
        tuple(_computing_statements(old.body)), tuple(_computing_statements(new.body))
    )


def is_silent(stmt: Stmt) -> bool:
    """Tests whether a statement, with all statements in it, computes nothing."""
    return not any(_computing_statements((stmt,)))


def _computing_statements(block: Block) -> Iterator[_Heard]:
    for stmt in block:
        match stmt:
            case Fence() | Arrive() | Await() | BarrierAlloc() | Uninit() | Pass():
                pass
            case DeviceFunction() | Warps():
                yield from _computing_statements(stmt.body)
            case For() | If():
                bodies = (stmt.body,) if isinstance(stmt, For) else (stmt.body, stmt.orelse)
                inside = tuple(tuple(_computing_statements(body)) for body in bodies)
                if any(inside):
                    yield _Heard(stmt, inside)
            case _:
                yield _Heard(stmt)


def _same_statements(old: tuple[_Heard, ...], new: tuple[_Heard, ...]) -> bool:
    return len(old) == len(new) and all(map(_same_statement, old, new))


def _same_statement(old: _Heard, new: _Heard) -> bool:
    if len(old.inside) != len(new.inside) or not all(map(_same_statements, old.inside, new.inside)):
        return False
    match old.stmt, new.stmt:
        case For(), For():
            a, b = old.stmt, new.stmt
            return a.iterator is b.iterator and (a.lo, a.hi) == (b.lo, b.hi)
        case If(), If():
            return old.stmt.condition == new.stmt.condition
        case CallInstr(), CallInstr():
            same = old.stmt.instr is new.stmt.instr
            return same and old.stmt.arguments == new.stmt.arguments
        case a, b:
            return a is b
