"""PHASE in the fast interpreter (decision `mbarrier-phase`): neither arrival nor waiter runs a ring
ahead.

An Await makes records of execution order, one a thread, on a timeline of their own which every
sync grants.  They are families like those of accesses, held by classes like those of cells, so
that syncs pass them on with everything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from exogpu.amir.nodes import Op
from exogpu.analysis.ring_depth import DEPTHS
from exogpu.machine.fast.cells import Classes, ClassId
from exogpu.machine.fast.records import EMPTY, EVERYONE, RecordFacts, StateId, Threads

Fault: TypeAlias = tuple[int, Op | None]
"""Barrier element, and the Await at fault if there is one."""


@dataclass(slots=True, eq=False)
class Awaited:
    """An Await of arrival `bound` on an element."""

    element: int
    bound: int
    op: Op
    seen: ClassId
    """Its records: who is ordered after it."""
    waiting: dict[int, ClassId] = field(default_factory=dict)
    """By depth d for which arrival bound + d has happened: the records that none of its threads
    had seen."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The state of a `Phase`, counts relative to the elements' bases."""

    awaited: tuple[tuple[int, int, Op, StateId, tuple[tuple[int, StateId], ...]], ...]
    arrived: tuple[frozenset[int], ...]
    latest: tuple[Op | None, ...]
    depths: tuple[int, ...]
    first: tuple[Fault, ...]


class Phase:
    """The history of one allocation of an mbarrier."""

    def __init__(
        self,
        classes: Classes,
        facts: RecordFacts,
        depth: int | None,
        size: int,
        *,
        own_arrival: bool,
    ) -> None:
        self._own_arrival = own_arrival
        self._classes = classes
        self._facts = facts
        self.known = depth is not None
        self.depths: tuple[int, ...] = (depth,) if depth is not None else tuple(DEPTHS)
        """The depths that are not yet refuted."""
        self.first: tuple[Fault, ...] = ()
        """The faults that refuted depth 1, where the depth must be found."""
        self.awaited: list[Awaited] = []
        self.arrived: list[set[int]] = [set() for _ in range(size)]
        """Ranks of the arrivals on each element that an Await may still be paired with."""
        self.latest: list[Op | None] = [None] * size

    # --- rules ----------------------------------------------------------------------------

    def check_arrival(self, element: int, rank: int, threads: Threads) -> list[tuple[int, Fault]]:
        """(i) every thread of arrival r + d on an element, and of every instruction trailing on
        it, is ordered after an Await for arrival r on it; under `paper`, for r or a later one."""
        here = sorted(
            ((a.bound, self._sees(a.seen)) for a in self.awaited if a.element == element),
            reverse=True,
        )
        found: list[tuple[int, Fault]] = []
        ordered, at = 0, 0
        for depth in self.depths:
            if depth > rank:
                break
            if self._own_arrival:
                ordered = 0
            while at < len(here) and here[at][0] >= rank - depth:
                if here[at][0] == rank - depth or not self._own_arrival:
                    ordered |= here[at][1]
                at += 1
            if threads & ~ordered:
                found.append((depth, (element, self.latest[element])))
        return found

    def note_arrival(self, element: int, rank: int, threads: Threads) -> None:
        """Arrival `rank` has happened: it follows the Awaits that one of its threads sees."""
        self.arrived[element].add(rank)
        classes = self._classes
        for awaited in self.awaited:
            depth = rank - awaited.bound
            if awaited.element == element and depth in self.depths:
                before = awaited.waiting.get(depth)
                state = classes.state_of[awaited.seen if before is None else before]
                awaited.waiting[depth] = classes.hold(self._unseen(state, threads))
                if before is not None:
                    classes.drop(before)

    def check_followed(self, element: int | None, bound: int | None) -> list[tuple[int, Fault]]:
        """(ii) for each Await of r by thread g, some thread of arrival r + d is ordered after it.

        Asked at the Await of `bound` on the element, which makes arrival r + d final where
        `bound >= r + d`, and at the barrier's free, where both are None.
        """
        found: list[tuple[int, Fault]] = []
        for awaited in self.awaited:
            if element is not None and awaited.element != element:
                continue
            for depth in self.depths:
                held = awaited.waiting.get(depth, 0)
                if held and (bound is None or awaited.bound + depth <= bound):
                    self._classes.drop(held)
                    awaited.waiting[depth] = 0
                    found.append((depth, (awaited.element, awaited.op)))
        return found

    def check_waiter(self, element: int, bound: int, threads: Threads) -> list[tuple[int, Fault]]:
        """(iii) each thread of an Await for arrival r >= d on an element is ordered after an Await
        for arrival r - d on it.  Asked before the Await receives anything."""
        ordered: dict[int, Threads] = {}
        for awaited in self.awaited:
            depth = bound - awaited.bound
            if awaited.element == element and depth in self.depths:
                ordered[depth] = ordered.get(depth, 0) | self._sees(awaited.seen)
        return [
            (depth, (element, None))
            for depth in self.depths
            if depth <= bound and threads & ~ordered.get(depth, 0)
        ]

    def begin_await(self, element: int, bound: int, op: Op, threads: Threads) -> None:
        """One record a thread; an Await of nothing (bound < 0) makes none."""
        if bound < 0:
            return
        tables = self._classes.tables
        number = self._facts.number
        # At CPU scope one record that everyone sees.
        owners, seen = (1, EVERYONE) if threads == EVERYONE else (threads, 0)
        state = tables.state([tables.family((number, owners, (seen,), (0,), ()))], [])
        awaited = Awaited(element, bound, op, self._classes.hold(state))
        for depth in self.depths:
            if bound + depth in self.arrived[element]:
                awaited.waiting[depth] = self._classes.hold(state)
        self.awaited.append(awaited)
        self.latest[element] = op

    def faults(self, found: list[tuple[int, Fault]]) -> list[Fault]:
        """Faults at the known depth are reported; where it must be found they rule a depth out."""
        if self.known:
            return [fault for _, fault in found]
        refuted = {depth for depth, _ in found} & set(self.depths)
        if refuted:
            if 1 in refuted:
                self.first = tuple(fault for depth, fault in found if depth == 1)
            self.depths = tuple(d for d in self.depths if d not in refuted)
        return []

    def faults_at_free(self) -> list[Fault]:
        """Returns the remaining faults of (ii); if every depth is ruled out, also the faults that
        first ruled out depth 1."""
        faults = self.faults(self.check_followed(None, None))
        return faults if self.depths else [*faults, *self.first]

    # --- keeping it small -----------------------------------------------------------------

    def prune(self, element: int, least_rank: int, floor: int) -> None:
        """Forgets what no later arrival (of `least_rank` or more) or Await (of the floor or
        more) on the element can ask for."""
        least = min(least_rank, floor) - (self.depths[-1] if self.depths else 0)
        kept = []
        for awaited in self.awaited:
            if (
                awaited.element != element
                or awaited.bound >= least
                or any(awaited.waiting.get(depth, 0) for depth in self.depths)
            ):
                kept.append(awaited)
            else:
                self._let_go(awaited)
        self.awaited = kept
        ranks = self.arrived[element]
        if ranks and min(ranks) <= floor:
            self.arrived[element] = {rank for rank in ranks if rank > floor}

    def close(self) -> None:
        """At the end of the allocation."""
        for awaited in self.awaited:
            self._let_go(awaited)
        self.awaited = []

    def _let_go(self, awaited: Awaited) -> None:
        self._classes.drop(awaited.seen)
        for held in awaited.waiting.values():
            self._classes.drop(held)

    def rename(self, into: dict[ClassId, ClassId]) -> None:
        """After classes were joined."""
        for awaited in self.awaited:
            awaited.seen = into.get(awaited.seen, awaited.seen)
            for depth, held in awaited.waiting.items():
                awaited.waiting[depth] = into.get(held, held)

    # --- save and restore -----------------------------------------------------------------

    def save(self, bases: list[int]) -> Saved:
        """The state, to be compared and restored."""
        state_of = self._classes.state_of
        alive = set(self.depths)
        return Saved(
            tuple(
                (
                    a.element,
                    a.bound - bases[a.element],
                    a.op,
                    state_of[a.seen],
                    tuple((d, state_of[h]) for d, h in a.waiting.items() if d in alive),
                )
                for a in self.awaited
            ),
            tuple(
                frozenset(rank - base for rank in ranks)
                for ranks, base in zip(self.arrived, bases, strict=True)
            ),
            tuple(self.latest),
            self.depths,
            self.first,
        )

    def restore(self, saved: Saved, bases: list[int]) -> None:
        """The state that was saved, its counts now relative to `bases`."""
        hold = self._classes.hold
        before = self.awaited
        self.awaited = [
            Awaited(
                element,
                bound + bases[element],
                op,
                hold(seen),
                {depth: hold(state) for depth, state in waiting},
            )
            for element, bound, op, seen, waiting in saved.awaited
        ]
        for awaited in before:
            self._let_go(awaited)
        self.arrived = [
            {rank + base for rank in ranks}
            for ranks, base in zip(saved.arrived, bases, strict=True)
        ]
        self.latest = list(saved.latest)
        self.depths = saved.depths
        self.first = saved.first

    # --- records of execution order -------------------------------------------------------

    def _sees(self, held: ClassId) -> Threads:
        """The threads that are ordered after some record of the class."""
        tables = self._classes.tables
        seen = 0
        for family in tables.states[self._classes.state_of[held]][0]:
            _, owners, full, _, _ = tables.families[family]
            seen |= owners | full[0]
        return seen

    def _unseen(self, state: StateId, threads: Threads) -> StateId:
        """Without the records that one of the threads sees."""
        if state == EMPTY:
            return EMPTY
        tables = self._classes.tables
        kept = []
        for family in tables.states[state][0]:
            number, owners, full, temporal, tags = tables.families[family]
            if not full[0] & threads and owners & ~threads:
                kept.append(tables.family((number, owners & ~threads, full, temporal, tags)))
        return tables.state(kept, [])
