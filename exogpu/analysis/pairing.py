"""How deep the ring of an mbarrier is (decision 4.12): one answer for prover and code generator."""

from __future__ import annotations

from collections.abc import Mapping

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Await, BarrierAlloc, Proc
from exogpu.ir.types import BarrierMechanism
from exogpu.ir.walk import walk


def ring_depths(proc: Proc) -> Mapping[Sym, int | None]:
    """By mbarrier: 1 + the sum of the skips over its guard group.

    The guard group of z is z with all `barrier(z)`, transitively.  A variable's skip is the
    largest m of its `Await(..., ~m)`.  None where no guard is used: then the depth is the
    smallest one that makes PHASE true.
    """
    barriers = [
        stmt
        for stmt in walk(proc.body)
        if isinstance(stmt, BarrierAlloc) and stmt.mechanism is BarrierMechanism.MBARRIER
    ]
    groups = _guard_groups(barriers)
    skips = _skips(proc)
    return {
        name: 1 + sum(skips.get(member, 0) for member in group) if len(group) > 1 else None
        for name, group in groups.items()
    }


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
