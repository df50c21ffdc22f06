"""Fences that may order two statements: which, and where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from exogpu.amir.nodes import Check, Record
from exogpu.hw.timelines import ASYNC_PROXY, SYNC_TIMELINES, WGMMA
from exogpu.ir.nodes import Fence
from exogpu.ir.types import QualTL
from exogpu.machine.violation import Violation
from exogpu.schedule.proposing.drafts import Draft, after, is_alone, is_sequential
from exogpu.schedule.proposing.moves import Move
from exogpu.schedule.rewrite import Path

Pair = tuple[str, str]

ORDINARY: Final = ("cuda_in_order", "cuda_in_order")
PROXY: Final = ("cuda_in_order", "cuda_generic_and_async")
BETWEEN_WGMMA: Final = ("wgmma_fence_1", "wgmma_fence_2")

_PLAIN: Final = frozenset({QualTL.CUDA1, QualTL.CUDA2})


def fence(pair: Pair) -> Fence:
    """The Fence of two timelines, by their names."""
    return Fence(SYNC_TIMELINES[pair[0]], SYNC_TIMELINES[pair[1]])


def fences(draft: Draft, violation: Violation) -> Iterator[Move]:
    """A Fence at each place on the way from one statement of a violation to the other."""
    check, record = violation.check, violation.record
    if not isinstance(check, Check) or not isinstance(record, Record):
        return
    pairs = timelines(record, check)
    gaps = between(draft, record.origin.span.line, check.origin.span.line, free=check.free)
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


def between(draft: Draft, first: int, second: int, *, free: bool = False) -> tuple[Path, ...]:
    """The places on the way from one statement to another, also by a loop around both; the
    widest scopes first.  Where the second is an allocation that is freed, to its block's end."""
    start, end = draft.places.get(first), draft.places.get(second)
    if start is None or end is None:
        return ()
    if free:
        last = (*end[:-1], (end[-1][0], len(draft.block(end))))
        below = [after(start[:n]) for n in range(len(end) + 1, len(start) + 1)]
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
        deeper += [after(start[:n]) for n in range(common + 2, len(start) + 1)]
        deeper += [end[:n] for n in range(common + 2, len(end) + 1)]
    for length in range(common, 0, -1):
        around = start[:length]
        if is_sequential(draft.at(around)):
            inside = len(getattr(draft.at(around), "body", ()))
            found += [(*around, ("body", inside)), (*around, ("body", 0))]
    shared = draft.around((*start[:common], ("body", 0)))
    wide = (gap for gap in deeper if not any(map(is_alone, draft.around(gap)[len(shared) :])))
    return tuple(dict.fromkeys((*found, *wide)))
