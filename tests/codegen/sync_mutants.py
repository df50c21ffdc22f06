"""Mutants of a procedure: one statement of its synchronisation deleted, weakened or shifted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from exogpu.api import Procedure
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.nodes import (
    Access,
    Add,
    Arrive,
    Await,
    Block,
    CallInstr,
    CExpr,
    Compare,
    Fence,
    If,
    Int,
    Interval,
    Mod,
    Point,
    Stmt,
    WindowStmt,
)
from exogpu.ir.walk import map_blocks, walk


@dataclass(frozen=True)
class Mutant:
    """`name` says where and what: `Await 2: n -1`, of the second Await in program order."""

    name: str
    procedure: Procedure


def mutants(procedure: Procedure, weaker: tuple[str, ...]) -> Iterator[Mutant]:
    """Every mutant, in program order; timelines are replaced by each of `weaker`."""
    proc = procedure.ir
    for name, stmt in numbered(proc.body):
        for what, changed in changes(stmt, weaker):
            body = inserted(proc.body, stmt, () if changed is None else (changed,))
            mutated = Procedure(proc.name, replace(proc, body=body), ())
            yield Mutant(f"{name}: {what}", mutated)


def numbered(block: Block) -> Iterator[tuple[str, Stmt]]:
    """Every statement with its name, such as `Await 2`, in program order."""
    numbers = Counter()
    for stmt in walk(block):
        kind = type(stmt).__name__
        numbers[kind] += 1
        yield f"{kind} {numbers[kind]}", stmt


def changes(stmt: Stmt, weaker: tuple[str, ...]) -> Iterator[tuple[str, Stmt | None]]:
    """What is done to one statement, and the result; None where it is deleted."""
    match stmt:
        case Fence():
            yield "deleted", None
            for name in weaker:
                if name != stmt.pre.name:
                    yield f"after {name}", replace(stmt, pre=SYNC_TIMELINES[name])
                if name != stmt.post.name:
                    yield f"before {name}", replace(stmt, post=SYNC_TIMELINES[name])
        case Arrive():
            yield "deleted", None
            yield from _timelines(stmt, weaker)
            if len(stmt.targets) > 1:
                yield "only the first target", replace(stmt, targets=stmt.targets[:1])
                yield "only the last target", replace(stmt, targets=stmt.targets[1:])
        case Await():
            yield "deleted", None
            yield from _timelines(stmt, weaker)
            for by in (-1, 1):
                if (stmt.n < 0) == (stmt.n + by < 0):
                    yield f"n {by:+}", replace(stmt, n=stmt.n + by)
        case If(Compare(op, left, Int(value))):
            for by in (-1, 1):
                condition = Compare(op, left, Int(value + by))
                yield f"{op} {value + by}", replace(stmt, condition=condition)
        case CallInstr():
            if stmt.trailing is not None:
                yield "no signal", replace(stmt, trailing=None)
            for at, argument in enumerate(stmt.arguments):
                if isinstance(argument, Access) and (moved := _next_slot(argument)) != argument:
                    arguments = (*stmt.arguments[:at], moved, *stmt.arguments[at + 1 :])
                    yield f"next slot of {argument.name}", replace(stmt, arguments=arguments)
        case WindowStmt():
            if (moved := _next_slot(stmt.source)) != stmt.source:
                yield f"next slot of {moved.name}", replace(stmt, source=moved)
        case _:
            pass


def _timelines(stmt: Arrive | Await, weaker: tuple[str, ...]) -> Iterator[tuple[str, Stmt]]:
    for name in weaker:
        if name != stmt.timeline.name:
            yield name, replace(stmt, timeline=SYNC_TIMELINES[name])


def _next_slot(access: Access) -> Access:
    """The access with `(k + 1) % ring` for `k % ring`."""

    def shifted(expr: CExpr) -> CExpr:
        return Mod(Add(expr.term, Int(1)), expr.divisor) if isinstance(expr, Mod) else expr

    coords = tuple(c if isinstance(c, Interval) else Point(shifted(c.at)) for c in access.coords)
    return replace(access, coords=coords)


def inserted(block: Block, old: Stmt, new: Block) -> Block:
    """The block with one statement replaced by several."""
    found = []
    for stmt in block:
        if stmt is old:
            found += new
        else:
            found.append(map_blocks(stmt, lambda inner: inserted(inner, old, new)))
    return tuple(found)
