"""Compares emitted kernels with and without a synchronisation statement."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from exogpu.analysis.everything import facts_of
from exogpu.analysis.facts import Facts
from exogpu.api import Procedure
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Arrive,
    Await,
    BarrierAlloc,
    Block,
    CallInstr,
    Fence,
    Free,
    Pass,
    Proc,
    Stmt,
)
from exogpu.ir.walk import accesses, map_blocks, walk
from exogpu.result.errors import ExoGpuError
from exogpu.result.verdict import Redundancy

Code: TypeAlias = tuple[str, ...]
"""Lines of kernels, without comments."""


def ranked(procedure: Procedure, found: tuple[Redundancy, ...]) -> tuple[Redundancy, ...]:
    """Returns the changes that can be written down, those that save most first.

    A procedure without this statement, or with the weaker one, may be ill-formed, or have no
    lowering where the procedure itself has one.
    """
    proc = procedure.facts.proc
    before = _code(procedure.facts)
    judged = (_judged(proc, before, one) for one in found)
    known = [one for one in judged if one is not None]
    return tuple(sorted(known, key=lambda one: -len(one.saves or ())))


def _judged(proc: Proc, before: Code | None, one: Redundancy) -> Redundancy | None:
    edited, _ = facts_of(_edited(proc, one))
    if edited is None:
        return None
    if before is None:
        return one
    after = _code(edited)
    if after is None:
        return None
    return replace(one, saves=_gone(before, after))


def _gone(before: Code, after: Code) -> tuple[str, ...]:
    """The lines that go, as many as there are fewer, calls first.

    Numbers are not compared, which move with the layout of memory.
    """
    left = Counter(map(_plain, after))
    gone: list[str] = []
    for line in before:
        left[_plain(line)] -= 1
        if left[_plain(line)] < 0:
            gone.append(line)
    gone.sort(key=lambda line: "(" not in line or line.endswith("{"))
    return tuple(gone[: max(0, len(before) - len(after))])


def _plain(line: str) -> str:
    return re.sub(r"\d+", "#", line)


# --- emitted code -------------------------------------------------------------------------------


def _code(facts: Facts) -> Code | None:
    """The kernels' lines; None where there is no kernel, or no lowering."""
    from exogpu.codegen.host import emit

    for arch in ("sm_90a", "sm_80"):
        try:
            text = emit(facts, arch).source
        except ExoGpuError:
            continue
        _, kernel, body = text.partition('extern "C" __global__')
        lines = (re.sub(r"//.*", "", line).strip() for line in body.splitlines())
        return tuple(line for line in lines if line) if kernel else None
    return None


# --- the procedure with less synchronisation ----------------------------------------------------


def _edited(proc: Proc, one: Redundancy) -> Proc:
    """The procedure with the statements left out, or with the weaker timeline."""

    def change(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Fence | Arrive | Await) or stmt.span not in one.spans:
            return stmt
        return Pass(span=stmt.span) if one.kind == "delete" else _weaker(stmt, one)

    edited = _mapped(proc, change)
    unused = _barriers(proc) - _barriers(edited)

    def declared(stmt: Stmt) -> Stmt:
        match stmt:
            case BarrierAlloc() | Free() if stmt.name in unused:
                return Pass(span=stmt.span)
            case BarrierAlloc() if stmt.guard in unused:
                return replace(stmt, guard=None)
            case _:
                return stmt

    return _mapped(edited, declared) if unused else edited


def _mapped(proc: Proc, change: Callable[[Stmt], Stmt]) -> Proc:
    def block(body: Block) -> Block:
        return tuple(change(map_blocks(stmt, block)) for stmt in body)

    return replace(proc, body=block(proc.body))


def _weaker(stmt: Fence | Arrive | Await, one: Redundancy) -> Stmt:
    row = SYNC_TIMELINES[one.timeline]
    match stmt:
        case Fence():
            return replace(stmt, pre=row) if one.side == "pre" else replace(stmt, post=row)
        case Arrive() | Await():
            return replace(stmt, timeline=row)


def _barriers(proc: Proc) -> frozenset[Sym]:
    """The barrier variables that some statement signals or waits for."""
    used: set[Sym] = set()
    for stmt in walk(proc.body):
        if isinstance(stmt, Arrive | Await):
            used |= {access.name for access in accesses(stmt)}
        elif isinstance(stmt, CallInstr) and stmt.trailing is not None:
            used.add(stmt.trailing.name)
    return frozenset(used)
