"""Hands resident memory of a cluster from task to task (decision `resident-memory`), and assigns
tasks to clusters.

A task begins: threads that have executed the cluster's task before execute this one.  So in the
records of what resides, and in the execution order that its barriers follow, each thread of the
task before becomes that of the new one.  Everything else belongs to its task alone: records of
other variables keep no tag of a resident barrier.
"""

from __future__ import annotations

from collections.abc import Sequence

from exogpu.amir.nodes import Record
from exogpu.ir.names import Sym
from exogpu.machine.literal_records import Threads, VisibilityRecord, drop_tags
from exogpu.machine.literal_state import Machine, Recorded
from exogpu.machine.observer import Moment


def hand_over(machine: Machine, before: int) -> None:
    """Hands resident variables over from task `before` to the one that begins."""
    resident = [name for name in machine.cells if machine.variables[name].resident]
    if not resident:
        return
    for recorded in machine.live:
        for record in recorded.records:
            if name_of(recorded) in resident:
                _renamed(record, before, machine.task)
            else:
                _forget(record, resident)
    for name in resident:
        barrier = machine.barriers.get(name)
        for awaited in () if barrier is None or barrier.phase is None else barrier.phase.awaited:
            awaited.sees = _next(awaited.sees, before, machine.task)


def name_of(recorded: Recorded) -> Sym:
    """The variable whose elements hold a record."""
    op = recorded.moment.op
    assert isinstance(op, Record)
    return op.access.name


def leaks(machine: Machine, name: Sym, recorded: Recorded, at: Moment) -> bool:
    """Tests whether a write to a resident variable was made by another task than a read of it."""
    return machine.variables[name].resident and recorded.moment.task != at.task


def _renamed(record: VisibilityRecord, before: int, after: int) -> None:
    record.own = _next(record.own, before, after)
    for level in (record.temporal, record.full):
        for timeline, threads in level.items():
            level[timeline] = _next(threads, before, after)


def _next(threads: Threads, before: int, after: int) -> Threads:
    return frozenset((after if task == before else task, t) for task, t in threads)


def _forget(record: VisibilityRecord, resident: Sequence[Sym]) -> None:
    for name in resident:
        drop_tags(record, name)
