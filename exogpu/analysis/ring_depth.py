"""Computes the depth of an mbarrier's ring (decision `mbarrier-phase`): one answer for prover and
code generator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from exogpu.ir.nodes import Await, BarrierAlloc, Proc
from exogpu.ir.types import BarrierMechanism, Sym
from exogpu.ir.walk import walk

DEPTHS: Final = range(1, 33)
"""The ring depths that are tried where no skip counts give one."""


def ring_depths(proc: Proc) -> Mapping[Sym, int | None]:
    """By mbarrier: the depth that its declaration has, of an imported kernel; else 1 + the sum of
    the skips over its guard group; of a named barrier 1.

    The guard group of z is z with all `barrier(z)`, transitively.  A variable's skip is the
    largest m of its `Await(..., ~m)`.  None where no guard is used: then the depth is the
    smallest of `DEPTHS` that makes PHASE true, all three conditions of it; and code generation
    may take any deeper one, and has to where no proof says which it is (`laid_out`).
    """
    barriers = [
        stmt
        for stmt in walk(proc.body)
        if isinstance(stmt, BarrierAlloc) and stmt.mechanism is BarrierMechanism.MBARRIER
    ]
    groups = _guard_groups(barriers)
    skips = _skips(proc)
    named = (
        stmt.name
        for stmt in walk(proc.body)
        if isinstance(stmt, BarrierAlloc) and stmt.mechanism is BarrierMechanism.NAMED_BARRIER
    )
    return {
        **{
            name: 1 + sum(skips.get(member, 0) for member in group) if len(group) > 1 else None
            for name, group in groups.items()
        },
        **dict.fromkeys(named, 1),
        **{stmt.name: stmt.depth for stmt in barriers if stmt.depth is not None},
    }


def laid_out(depth: int | None) -> int:
    """Returns the number of hardware mbarriers of an element: the depth, or the deepest tried.

    PHASE at depth d implies PHASE at a deeper one, d + e, if the same threads execute all Awaits
    of an element in order, as code generation asks.

    - (i) Arrival r + d + e comes after an Await for arrival r + e.  The thread of this Await has
      executed its Await for arrival r before.
    - (ii) A thread's Await for r precedes its own for r + e.  Some thread of arrival r + d + e
      follows the latter.
    - (iii) A thread's Await for r follows its own for r - d - e.
    """
    return DEPTHS[-1] if depth is None else depth


def _guard_groups(barriers: list[BarrierAlloc]) -> Mapping[Sym, frozenset[Sym]]:
    groups = {stmt.name: frozenset({stmt.name}) for stmt in barriers}
    for stmt in barriers:
        if stmt.guard is None:
            continue
        joined = groups[stmt.name] | groups.get(stmt.guard, frozenset())
        groups.update(dict.fromkeys(joined, joined))
    return groups


def _skips(proc: Proc) -> Mapping[Sym, int]:
    skips: dict[Sym, int] = {}
    for stmt in walk(proc.body):
        if isinstance(stmt, Await) and stmt.n < 0:
            name = stmt.barrier.name
            skips[name] = max(skips.get(name, 0), -stmt.n - 1)
    return skips
