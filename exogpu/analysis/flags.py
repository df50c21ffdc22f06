"""Flags (decision `flags`): who may wait for whom is the order of all tasks of all clusters."""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Alloc,
    Arrive,
    Await,
    BarrierAlloc,
    Block,
    DeviceFunction,
    Proc,
)
from exogpu.ir.types import BarrierMechanism
from exogpu.ir.walk import walk
from exogpu.result.errors import Diagnostic, Note


def flags_of(proc: Proc) -> tuple[BarrierAlloc, ...]:
    """The flags of a procedure, in the order of its text."""
    return tuple(
        stmt
        for stmt in walk(proc.body)
        if isinstance(stmt, BarrierAlloc) and stmt.mechanism is BarrierMechanism.FLAG
    )


def uses(block: Block, flags: frozenset[Sym]) -> tuple[Arrive | Await, ...]:
    """The Arrives on flags and the Awaits of them, in the order of the text."""
    return tuple(
        stmt
        for stmt in walk(block)
        if (isinstance(stmt, Arrive) and stmt.targets[0].name in flags)
        or (isinstance(stmt, Await) and stmt.barrier.name in flags)
    )


def check(proc: Proc) -> Iterator[Diagnostic]:
    """Launches that use flags beside memory that serves one task of a cluster after another.

    Of that memory a proof knows the tasks of one cluster, in any order; an Await of a flag counts
    the Arrives of all clusters, in theirs.
    """
    flags = {flag.name: flag for flag in flags_of(proc)}
    launches = [stmt for stmt in walk(proc.body) if isinstance(stmt, DeviceFunction)]
    resides = [s for one in launches for s in one.body if isinstance(s, Alloc | BarrierAlloc)]
    if flags and resides:
        name, place = resides[0].name, resides[0].span
        flag = next(iter(flags.values()))
        yield Diagnostic(
            "D525",
            f"{name} serves one task of a cluster after another, and {flag.name} is a flag",
            place,
            f"declare {name} inside the innermost cuda_tasks loop, or divide the procedure",
            (Note("the flag", flag.span),),
        )
