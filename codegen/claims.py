"""Checks that emitted synchronisation keeps the promises of the abstract machine.

For each mechanism and pair of timelines the machine claims of accesses before the first side that
they are ordered before, or visible to, accesses after the second one.  Every claim is listed, from
the machine's own tables, and held against what PTX guarantees of the rows that are emitted.  A
pair that code generation refuses claims nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from exogpu.analysis.thread_names import group_kind
from exogpu.codegen import guarantees, sync
from exogpu.codegen.arrival_rows import Scope
from exogpu.codegen.proxies import OF_BULK, SOURCES
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import AFTER_FLAG, ASYNC_PROXY, ORDINARY, SYNC_TIMELINES, TEMPORAL_FROM
from exogpu.ir.types import Level, QualSet, QualTL, SyncTL

KERNEL: tuple[SyncTL, ...] = tuple(
    timeline
    for timeline in SYNC_TIMELINES.values()
    if timeline.name not in ("cpu_in_order", "cuda_stream_sync")
)
"""The timelines that stand in kernels."""


@dataclass(frozen=True, slots=True)
class Lowering:
    """The rows of a Fence, or of an Arrive and the Await that it releases."""

    mechanism: str
    first: SyncTL
    second: SyncTL
    rows: tuple[str, ...]
    trailing: bool = False
    """The accesses are a load's, which trail on the barrier, and no Arrive's."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The machine's claim of an access before a sequence and one after it, at one location."""

    sequence: Lowering
    before: guarantees.Kind
    carried: guarantees.Facts
    """The facts that an earlier synchronisation has shown of the first access; empty: none, it is
    the executing threads' own."""
    after: guarantees.Kind
    level: Level

    @property
    def open(self) -> guarantees.Facts:
        """Returns the facts that the claim takes and the rows do not guarantee."""
        return self._facts_without(None)

    @property
    def kept_by(self) -> tuple[str, ...]:
        """The rows without each of which it would be open."""
        return tuple(row for row in self.sequence.rows if self._facts_without(row))

    def _facts_without(self, row: str | None) -> guarantees.Facts:
        rows = [r for r in self.sequence.rows if r != row]
        known = guarantees.facts_after(rows, self.before, self.carried or self.before.issued)
        return guarantees.ordering_facts(self.before, self.after) - known


def sequences() -> Iterator[Lowering]:
    """Every sequence that code generation may emit."""
    for sequence in _sequences():
        yield sequence
        rows = tuple(OF_BULK.get(row, row) for row in sequence.rows)
        if rows != sequence.rows:
            yield replace(sequence, rows=rows)


def _sequences() -> Iterator[Lowering]:
    for first in KERNEL:
        for second in KERNEL:
            if sync.unkept(first, second) is None:
                for scope in Scope:
                    for by_role in (False, True) if scope is Scope.CTA else (False,):
                        rows = sync.fence_rows(first, second, scope, by_role=by_role)
                        what = f"Fence of {scope.value}" + (", by role" if by_role else "")
                        yield Lowering(what, first, second, tuple(rows))
                        if "fence lanes" in rows:
                            rows[rows.index("fence lanes")] = "fence some lanes"
                            yield Lowering(what, first, second, tuple(rows))
            if sync.unkept(first, None) is None:
                yield from _split(first, second)
            elif QualTL.TMA_S in sync.full(first):  # `completing`: all loads signal the mbarrier
                rows = [*sync.drain_rows(first), "trailing load", "arrive mbarrier with bytes"]
                rows += ["await mbarrier", *sync.after_await(sync.full(first), second)]
                yield Lowering("arrive with all loads", first, second, tuple(rows))
    stream = SYNC_TIMELINES["cuda_stream_sync"]
    for second in (*KERNEL, stream):
        yield Lowering("end of a launch", stream, second, (sync.launch_row(second),))
    for second in KERNEL:
        # Whatever the Arrives are full in, the rows after the wait are at least these.
        for wait in ("await mbarrier", "await mbarrier of CTAs"):
            rows = ["trailing load", wait, *sync.after_await(frozenset(), second)]
            empty = SYNC_TIMELINES["empty_sync_tl"]
            yield Lowering("trailing load", empty, second, tuple(rows), trailing=True)


_MBARRIERS = (
    ("arrive mbarrier", "await mbarrier"),
    ("arrive mbarrier of warps", "await mbarrier"),
    ("arrive mbarrier with bytes", "await mbarrier"),
    ("arrive mbarrier", "await mbarrier of CTAs"),
    ("arrive mbarrier of warps", "await mbarrier of CTAs"),
    ("arrive mbarrier with bytes", "await mbarrier of CTAs"),
    ("arrive mbarrier of CTAs", "await mbarrier of CTAs"),
    ("arrive mbarrier with bytes, by all", "await mbarrier of CTAs"),
    ("arrive mbarrier of CTAs with bytes", "await mbarrier of CTAs"),
    ("arrive mbarrier of CTAs with bytes, by all", "await mbarrier of CTAs"),
    ("arrive mbarrier of CTAs, each thread", "await mbarrier of CTAs"),
    ("arrive mbarrier of CTAs, reads", "await mbarrier of CTAs"),
    ("arrive cluster", "await cluster"),
    ("arrive named", "await named"),
)


def _split(first: SyncTL, second: SyncTL) -> Iterator[Lowering]:
    end = sync.after_await(sync.full(first), second)
    for arrive, wait in _MBARRIERS:
        rows = (*sync.drain_rows(first), arrive, wait, *end)
        yield Lowering(f"{arrive}, {wait}", first, second, rows)
    if first.name == ORDINARY and second.name in AFTER_FLAG:
        yield Lowering("flag", first, second, ("arrive flag", "await flag", *end))
    if sync.full(first) == {QualTL.SM80}:
        rows = ("arrive mbarrier of cp.async", "await mbarrier", *end)
        yield Lowering("arrive mbarrier of cp.async", first, second, rows)
    kind = group_kind(first)
    if kind is not None:
        for scope in (Scope.THREAD, Scope.WARP):
            rows = (*sync.group_rows(kind, sync.full(first)), *sync.told_rows(kind, scope), *end)
            yield Lowering(f"{kind.value} group of {scope.value}", first, second, rows)


def claims(sequence: Lowering) -> Iterator[Claim]:
    """The machine's claims of a sequence, under policy ptx."""
    first, second = sequence.first, sequence.second
    for before in guarantees.KINDS:
        starts: list[guarantees.Facts] = []
        if not _precedes(before, sequence):
            continue
        if sequence.trailing:
            starts += [frozenset()] if before.timeline is QualTL.TMA_S else []
        else:
            if before.timeline in sync.full(first):
                starts.append(frozenset())
            if first.transitive or before.timeline in sync.full(first):
                starts += _carried_facts(before)
        for start in starts:
            for later in guarantees.KINDS:
                level = _level(before, start, later, second)
                if before.meets(later) and level is not None:
                    yield Claim(sequence, before, start, later, level)


def _precedes(kind: guarantees.Kind, sequence: Lowering) -> bool:
    """Tests whether such an access may come before the sequence, and another one meet it after."""
    if sequence.mechanism == "end of a launch" and kind.places != {"global"}:
        return False  # registers and shared memory are not those of another launch
    stored = kind.timeline is QualTL.TMA_G
    if stored and stored_only(sequence):
        return False  # `proxies`: nothing else accesses it
    if (
        "arrive mbarrier of CTAs, reads" in sequence.rows
        and not kind.places <= guarantees.REGISTERS
    ):
        return kind.proxy == "async" and not stored  # `published.unwritten`
    return True


def stored_only(sequence: Lowering) -> bool:
    """Tests whether the sequence waits for less of bulk stores than its first timeline takes."""
    return QualTL.TMA_G in sync.full(sequence.first) and any(
        row in SOURCES for row in sequence.rows
    )


def _carried_facts(kind: guarantees.Kind) -> list[guarantees.Facts]:
    """Returns facts that an earlier synchronisation may have established: an access shown to an
    ordinary timeline or its own, and, from the generic proxy, to the async proxy too."""
    if kind.proxy == "flag":
        return []  # only a wgmma fence shows it, to wgmma
    shown = frozenset({guarantees.Fact.DONE, guarantees.Fact.JOINED})
    return [shown, shown | {guarantees.Fact.PROXIED}] if kind.proxy == "generic" else [shown]


def shown_timelines(kind: guarantees.Kind, carried: guarantees.Facts) -> QualSet:
    """The timelines that an earlier synchronisation has shown a carried access to."""
    ordinary = QualTL.CUDA1 if kind.places <= guarantees.REGISTERS else QualTL.CUDA2
    proxied = ASYNC_PROXY if guarantees.Fact.PROXIED in carried else frozenset()
    return proxied | {ordinary, kind.timeline}


def _level(
    before: guarantees.Kind, start: guarantees.Facts, later: guarantees.Kind, second: SyncTL
) -> Level | None:
    """The level at which the machine grants an access to the timeline of a later one."""
    sets, timeline = second.sets_under(Policy.PTX), later.timeline
    if timeline in sets.full:
        return Level.FULLY_ORDERED
    if timeline not in sets.temporal:
        return None
    if start and timeline in ASYNC_PROXY & shown_timelines(before, start):
        return Level.FULLY_ORDERED  # carried on
    origins = TEMPORAL_FROM.get(timeline)
    return Level.TEMPORALLY_ORDERED if origins is None or before.timeline in origins else None


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim of every sequence."""
    return tuple(claim for sequence in sequences() for claim in claims(sequence))


def open_claims(found: Sequence[Claim]) -> list[Claim]:
    """The claims that nothing guarantees."""
    return [claim for claim in found if claim.open]
