"""Commit groups that complete an asynchronous access: where they arrive, and who waits where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from exogpu.amir.nodes import Check, Record
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Arrive,
    Await,
    BarrierAlloc,
    CVar,
    For,
    If,
    Int,
    Point,
    Stmt,
)
from exogpu.ir.types import BarrierMechanism, QualTL
from exogpu.machine.violation import Violation
from exogpu.schedule.proposing.drafts import (
    Draft,
    after,
    allocations,
    is_sequential,
    is_threads,
)
from exogpu.schedule.proposing.fences import ORDINARY, between, fence
from exogpu.schedule.proposing.moves import Move
from exogpu.schedule.rewrite import Path

COMPLETED_BY: Final[dict[QualTL, str]] = {
    QualTL.SM80: "Sm80_cp_async",
    QualTL.TMA_G: "tma_to_gmem_async",
    QualTL.TMA_R: "tma_to_gmem_async",
    QualTL.WG_A: "wgmma_async",
    QualTL.WG_D: "wgmma_async",
    QualTL.WG_S: "wgmma_async",
    QualTL.WG_0: "wgmma_async",
}
"""The first timeline of an Arrive on a commit group, by that of the access."""

FEW: Final = 3
"""So many places are tried, of each kind."""


@dataclass(frozen=True, slots=True)
class Group:
    """A commit group: one element for each of the threads' loops around the access."""

    name: Sym
    loops: tuple[For, ...]

    @property
    def element(self) -> Access:
        return Access(self.name, tuple(Point(CVar(loop.iterator)) for loop in self.loops))


def groups(draft: Draft, violation: Violation) -> Iterator[Move]:
    """A commit group for the first access of a violation, if it is one that needs it."""
    record, check = violation.record, violation.check
    if not isinstance(record, Record) or not isinstance(check, Check) or not record.timeline:
        return
    path, first = draft.places.get(record.origin.span.line), COMPLETED_BY.get(record.timeline)
    if first is None or path is None:
        return
    loops = tuple(s for s in draft.around(path) if isinstance(s, For) and is_threads(s))
    if not all(isinstance(loop.hi, Int) for loop in loops):
        return
    home = allocations(draft, path)
    if home is None:
        return
    group = Group(draft.name("cg"), loops)
    shape = tuple(loop.hi for loop in loops)
    declared = BarrierAlloc(group.name, shape, BarrierMechanism.COMMIT_GROUP)
    arrive = Arrive(SYNC_TIMELINES[first], (group.element,))
    lines = record.origin.span.line, check.origin.span.line
    gaps = between(draft, *lines, free=check.free)[:FEW]
    ends = () if check.free else gaps
    for place in _ends(draft, path)[:FEW]:
        new: list[tuple[Path, Stmt]] = [(home, declared), (place, arrive)]
        for gap in (place, *ends):
            waits = awaits(draft, group, gap, 0)
            yield Move("commit group", 3, draft.inserted([*new, (gap, waits)]))
        for gap in gaps:  # what has arrived for some threads is passed on to the others
            waits = awaits(draft, group, place, 0)
            passed_on = (gap, fence(ORDINARY))
            yield Move("commit group", 4, draft.inserted([*new, (place, waits), passed_on]))


def _ends(draft: Draft, path: Path) -> Sequence[Path]:
    """The places after an access, and after loops and conditions that hold it; the widest first,
    all of the same threads."""
    found = [after(path)]
    while len(path) > 1:
        path = path[:-1]
        parent = draft.at(path)
        if not is_sequential(parent) and not isinstance(parent, If):
            break
        found.append(after(path))
    return found[::-1]


def awaits(draft: Draft, group: Group, gap: Path, n: int) -> Stmt:
    """An Await of a group's elements at a place, in loops of the threads that it is not in."""
    inside = {s.iterator for s in draft.around(gap) if isinstance(s, For)}
    loops = [loop for loop in group.loops if loop.iterator not in inside]
    iterators = {loop.iterator: Sym(loop.iterator.name) for loop in loops}
    index = tuple(Point(CVar(iterators.get(s.iterator, s.iterator))) for s in group.loops)
    made: Stmt = Await(Access(group.name, index), SYNC_TIMELINES["cuda_in_order"], n)
    for loop in reversed(loops):
        made = For(iterators[loop.iterator], loop.lo, loop.hi, loop.mode, (made,))
    return made
