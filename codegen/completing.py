"""Arrives on TMA's own timeline that their mbarrier keeps: it counts the bytes of all the loads.

No instruction waits for the TMA loads of a thread.  Where every load of a kernel signals one
mbarrier, by the bytes that land beside it, the phase of an Arrive on it completes when the loads
before the Arrive have: those of earlier phases were awaited, one phase after the other, by the
threads that await this one.  Where several roles await the phases in turns, none has awaited all
of them (`await-own-arrival`), and the Arrive has no lowering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exogpu.codegen.mbarriers import Ring
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Arrive, CallInstr, DataParam, DeviceFunction
from exogpu.ir.types import Policy, QualTL
from exogpu.ir.walk import walk


def completing(launch: DeviceFunction, rings: Mapping[Sym, Ring]) -> frozenset[Arrive]:
    """The Arrives on TMA's timeline whose phase completes after all TMA loads that their threads
    started before.

    A multicast is none: its arrivals in other CTAs do not wait for the bytes in this one, and
    the bytes in other CTAs do not count here.
    """
    loads = tuple(_loads(launch))
    if any(load.trailing is None or load.instr.trailing_units for load in loads):
        return frozenset()
    signalled = {load.trailing.name for load in loads if load.trailing is not None}
    return frozenset(
        stmt
        for stmt in walk(launch.body)
        if isinstance(stmt, Arrive)
        and QualTL.TMA_S in stmt.timeline.under(Policy.PTX).full
        and (ring := rings.get(stmt.targets[0].name)) is not None
        and signalled <= {ring.name}
        and ring.elements == 1
        and not ring.roles.dims
        and not ring.awaits_shared
        and ring.skip == 0
        and ring.warps
        and all(mask == 1 << cta for cta, mask in enumerate(ring.targets[stmt]))
    )


def _loads(launch: DeviceFunction) -> Iterator[CallInstr]:
    """The calls that read or write on TMA's timeline of shared memory."""
    for stmt in walk(launch.body):
        if isinstance(stmt, CallInstr) and any(
            isinstance(param, DataParam)
            and param.operand is not None
            and param.operand.initial is QualTL.TMA_S
            for param in stmt.instr.params
        ):
            yield stmt
