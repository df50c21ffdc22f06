"""Fences that may order two statements: which, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from exogpu.amir.nodes import Check, Record
from exogpu.hw.timelines import ASYNC_PROXY, SYNC_TIMELINES, WGMMA
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, QualTL, Sym
from exogpu.machine.observer import Violation
from exogpu.schedule.proposals.drafts import (
    Draft,
    allocations,
    is_alone,
    is_sequential,
    is_threads,
    path_after,
)
from exogpu.schedule.rewrite import Path

# A move: one change that may mend a hazard.


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """A change of a draft, and the draft after it."""

    kind: str
    cost: float
    """The number of statements of synchronisation that it adds or changes; more for worse ones."""
    draft: Draft


Pair = tuple[str, str]

ORDINARY: Final = ("cuda_in_order", "cuda_in_order")
PROXY: Final = ("cuda_in_order", "cuda_generic_and_async")
BETWEEN_WGMMA: Final = ("wgmma_fence_1", "wgmma_fence_2")

_PLAIN: Final = frozenset({QualTL.CUDA1, QualTL.CUDA2})


def fence(pair: Pair) -> ir.Fence:
    """The Fence of two timelines, by their names."""
    return ir.Fence(SYNC_TIMELINES[pair[0]], SYNC_TIMELINES[pair[1]])


def fences(draft: Draft, violation: Violation) -> Iterator[Move]:
    """A Fence at each place on the way from one statement of a violation to the other."""
    check, record = violation.check, violation.record
    if not isinstance(check, Check) or not isinstance(record, Record):
        return
    pairs = timelines(record, check)
    gaps = paths_between(draft, record.origin.span.line, check.origin.span.line, free=check.free)
    for pair in pairs:
        # What orders wgmma alone is for the threads of one: the narrowest scope comes first.
        for gap in reversed(gaps) if pair == BETWEEN_WGMMA else gaps:
            yield Move("fence", 1, draft.inserted([(gap, fence(pair))]))


def timelines(record: Record, check: Check) -> tuple[Pair, ...]:
    """The pairs of timelines that may do."""
    if check.timelines & (WGMMA - ASYNC_PROXY):
        return (BETWEEN_WGMMA, ORDINARY)
    if check.timelines & ASYNC_PROXY:
        return (PROXY,) if record.timeline in _PLAIN else (ORDINARY, PROXY)
    return (ORDINARY,)


def paths_between(draft: Draft, first: int, second: int, *, free: bool = False) -> tuple[Path, ...]:
    """The places on the way from one statement to another, also by a loop around both; the
    widest scopes first.  Where the second is an allocation that is freed, to its block's end."""
    start, end = draft.places.get(first), draft.places.get(second)
    if start is None or end is None:
        return ()
    if free:
        last = (*end[:-1], (end[-1][0], len(draft.block(end))))
        below = [path_after(start[:n]) for n in range(len(end) + 1, len(start) + 1)]
        return (last, *below)
    common = 0
    while common < min(len(start), len(end)) and start[common] == end[common]:
        common += 1
    found: list[Path] = []
    deeper: list[Path] = []
    if common < min(len(start), len(end)):
        (name, a), (other, b) = start[common], end[common]
        if name == other and a < b:
            steps = [b, *(at for at in range(a + 1, b))]
            found += [(*start[:common], (name, at)) for at in steps]
        deeper += [path_after(start[:n]) for n in range(common + 2, len(start) + 1)]
        deeper += [end[:n] for n in range(common + 2, len(end) + 1)]
    for length in range(common, 0, -1):
        around = start[:length]
        if is_sequential(draft.statement_at(around)):
            inside = len(getattr(draft.statement_at(around), "body", ()))
            found += [(*around, ("body", inside)), (*around, ("body", 0))]
    shared = draft.enclosing((*start[:common], ("body", 0)))
    wide = (gap for gap in deeper if not any(map(is_alone, draft.enclosing(gap)[len(shared) :])))
    return tuple(dict.fromkeys((*found, *wide)))


# Commit groups that complete an asynchronous access: where they arrive, and who waits where.

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
    loops: tuple[ir.For, ...]

    @property
    def element(self) -> ir.Access:
        return ir.Access(self.name, tuple(ir.Point(ir.CVar(loop.iterator)) for loop in self.loops))


def groups(draft: Draft, violation: Violation) -> Iterator[Move]:
    """A commit group for the first access of a violation, if it is one that needs it."""
    record, check = violation.record, violation.check
    if not isinstance(record, Record) or not isinstance(check, Check) or not record.timeline:
        return
    path, first = draft.places.get(record.origin.span.line), COMPLETED_BY.get(record.timeline)
    if first is None or path is None:
        return
    loops = tuple(s for s in draft.enclosing(path) if isinstance(s, ir.For) and is_threads(s))
    if not all(isinstance(loop.hi, ir.Int) for loop in loops):
        return
    home = allocations(draft, path)
    if home is None:
        return
    group = Group(draft.name("cg"), loops)
    shape = tuple(loop.hi for loop in loops)
    declared = ir.BarrierAlloc(group.name, shape, BarrierMechanism.COMMIT_GROUP)
    arrive = ir.Arrive(SYNC_TIMELINES[first], (group.element,))
    lines = record.origin.span.line, check.origin.span.line
    gaps = paths_between(draft, *lines, free=check.free)[:FEW]
    ends = () if check.free else gaps
    for place in _ends(draft, path)[:FEW]:
        new: list[tuple[Path, ir.Stmt]] = [(home, declared), (place, arrive)]
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
    found = [path_after(path)]
    while len(path) > 1:
        path = path[:-1]
        parent = draft.statement_at(path)
        if not is_sequential(parent) and not isinstance(parent, ir.If):
            break
        found.append(path_after(path))
    return found[::-1]


def awaits(draft: Draft, group: Group, gap: Path, n: int) -> ir.Stmt:
    """An Await of a group's elements at a place, in loops of the threads that it is not in."""
    inside = {s.iterator for s in draft.enclosing(gap) if isinstance(s, ir.For)}
    loops = [loop for loop in group.loops if loop.iterator not in inside]
    iterators = {loop.iterator: Sym(loop.iterator.name) for loop in loops}
    index = tuple(ir.Point(ir.CVar(iterators.get(s.iterator, s.iterator))) for s in group.loops)
    made: ir.Stmt = ir.Await(ir.Access(group.name, index), SYNC_TIMELINES["cuda_in_order"], n)
    for loop in reversed(loops):
        made = ir.For(iterators[loop.iterator], loop.lo, loop.hi, loop.mode, (made,))
    return made
