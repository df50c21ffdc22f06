"""Barriers of the fast interpreter: counts, what DEADLOCK and BARRIER need, and relative ranks.

Everything a barrier does depends on differences of counts, and on whether counts are small: that
is what `key` says, so that two moments of a loop can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from exogpu.amir.nodes import Op, Variable
from exogpu.analysis.ring_depth import laid_out
from exogpu.diagnostics.hazards import HazardKind
from exogpu.machine.fast.cells import Classes
from exogpu.machine.fast.phase_rule import Fault, Phase, Saved
from exogpu.machine.fast.records import UP_TO, RecordFacts, Threads
from exogpu.machine.fast.visibility_updates import NewTags
from exogpu.machine.literal_barriers import await_counts

Failure: TypeAlias = tuple[HazardKind, int, Op | None]
"""Kind, barrier element, and the operation that is not ordered."""


@dataclass(frozen=True, slots=True, eq=False)
class BarrierFacts:
    """The facts about a barrier variable from the program text."""

    variable: Variable
    shape: tuple[int, ...]
    size: int
    first: int
    """Number of its first element among all barrier elements."""
    counts: tuple[int, ...]
    """The n of every Await on it."""
    own_arrival: bool
    """An Await receives the tags of its own arrival alone (`await-own-arrival`)."""
    multicast: bool
    """An Arrive may target another element than its home."""
    order: RecordFacts | None
    """The facts of the records that PHASE needs; of mbarriers only."""

    @property
    def small(self) -> int:
        """Counts from here on are not small: no rule compares them with a constant."""
        depth = 0
        if self.order is not None:
            depth = laid_out(self.variable.depth)
        return depth + max((abs(n) for n in self.counts), default=0) + 2

    def index(self, element: int) -> tuple[int, ...]:
        """Coordinates of an element."""
        index = []
        for extent in reversed(self.shape):
            index.append(element % extent)
            element //= extent
        return tuple(reversed(index))


@dataclass(frozen=True, slots=True)
class BarrierKey:
    """The state of a barrier, counts relative to the elements' bases."""

    arrives: tuple[int, ...]
    awaits: tuple[int, ...]
    homes: tuple[frozenset[int], ...]
    bounds: tuple[tuple[tuple[int, Op], ...], ...]
    trailing: tuple[tuple[int, frozenset[Op]], ...]
    phase: Saved | None


class Barrier:
    """One allocation of a barrier variable."""

    def __init__(self, facts: BarrierFacts, classes: Classes) -> None:
        size = facts.size
        self.facts = facts
        self.arrives = [0] * size
        self.awaits = [0] * size
        self._homes: list[frozenset[int]] = [frozenset()] * size
        self._bounds: list[list[tuple[int, Op]]] = [[] for _ in range(size)]
        """By element, the Awaits of earlier ranks that an Arrive may turn out to be late for: of
        falling Max, the latest last."""
        self._trailing: dict[int, frozenset[Op]] = {}
        """By home, the trailing tags that no Arrive has followed yet."""
        self.phase: Phase | None = None
        if facts.order is not None:
            depth = facts.variable.depth
            self.phase = Phase(classes, facts.order, depth, size, own_arrival=facts.own_arrival)

    def floor(self, element: int) -> int:
        """The least Max that an Await on the element may still have."""
        a, w = self.arrives[element], self.awaits[element]
        return min(await_counts(a, w, n)[0] for n in self.facts.counts)

    def tags(self, home: int, targets: tuple[int, ...]) -> NewTags:
        """The tags of an Arrive, or of a trailing barrier: the home's count (decision
        `multicast-tags`)."""
        facts = self.facts
        if not facts.counts:
            return ()
        rank = self.arrives[home]
        ranks = [(facts.first + t, rank - self.floor(t)) for t in targets]
        if facts.own_arrival:
            return tuple((t, arrival, 0) for t, arrival in ranks if arrival >= 0)
        return tuple((t, UP_TO, max(count, 0)) for t, count in ranks)

    def rise(self, home: int) -> int:
        """Returns the amount by which the next Arrive on the home raises its floor."""
        counts = self.facts.counts
        if not any(n >= 0 for n in counts):
            return 0
        before = self.floor(home)
        self.arrives[home] += 1
        after = self.floor(home)
        self.arrives[home] -= 1
        return after - before

    def await_rise(self, element: int, w: int) -> int:
        """Returns the amount by which the next Await raises the element's floor, by making the
        count w."""
        before, old = self.floor(element), self.awaits[element]
        self.awaits[element] = w
        after = self.floor(element)
        self.awaits[element] = old
        return after - before

    # --- rules ----------------------------------------------------------------------------

    def check_trailing(
        self, home: int, targets: tuple[int, ...], threads: Threads, op: Op
    ) -> list[Failure]:
        """A trailing barrier: decision `mbarrier-phase` (i); decision `await-counts` wants a later
        Arrive of its rank."""
        self._trailing[home] = self._trailing.get(home, frozenset()) | {op}
        return self._phase_at_arrival(targets, self.arrives[home], threads)

    def check_arrive(self, home: int, targets: tuple[int, ...], threads: Threads) -> list[Failure]:
        """Decision `mbarrier-phase` (i), and decisions `await-counts` and `flags`: an earlier Await
        on a target needed this arrival."""
        rank = self.arrives[home]
        failures = self._phase_at_arrival(targets, rank, threads)
        for target in targets:
            self._homes[target] |= {home}
            for bound, op in reversed(self._bounds[target]):
                if bound >= rank or self.facts.variable.counts_all:
                    failures.append((HazardKind.DEADLOCK, target, op))
                    break
        return failures

    def arrived(self, home: int, targets: tuple[int, ...], threads: Threads) -> None:
        """The arrival has happened."""
        rank = self.arrives[home]
        if self.phase is not None:
            for target in targets:
                self.phase.note_arrival(target, rank, threads)
        self.arrives[home] = rank + 1
        if all(n >= 0 for n in self.facts.counts):
            # Every Await sets its count from that of the arrivals: how far it is behind those that
            # none has waited for makes no difference, and a loop of such arrivals is periodic.
            self.awaits[home] = max(self.awaits[home], rank + 1 - self.facts.small)
        self._trailing.pop(home, None)
        self._prune(targets)

    def counts(self, element: int, n: int) -> tuple[int, int]:
        """Max and New of an Await."""
        return await_counts(self.arrives[element], self.awaits[element], n)

    def check_await(self, element: int, bound: int, threads: Threads) -> list[Failure]:
        """Decision `await-counts`: no Arrive targets the element yet, or a home whose Arrives do
        has no more than `bound`.  Decision `mbarrier-phase` (ii) and (iii)."""
        failures: list[Failure] = []
        if bound >= 0:
            homes = self._homes[element]
            if not homes or any(self.arrives[home] <= bound for home in homes):
                failures.append((HazardKind.DEADLOCK, element, None))
        if self.phase is not None:
            found = self.phase.check_followed(element, bound)
            found += self.phase.check_waiter(element, bound, threads)
            failures += _phase(self.phase.faults(found))
        return failures

    def record_await(self, element: int, bound: int, new: int, op: Op, threads: Threads) -> None:
        """The Await has happened."""
        if self.phase is not None:
            self.phase.begin_await(element, bound, op, threads)
        stack = self._bounds[element]
        while stack and stack[-1][0] <= bound:
            stack.pop()
        stack.append((bound, op))
        self.awaits[element] = new
        self._prune((element,))

    def check_free(self) -> list[Failure]:
        """CheckBarrier: an error iff some element has `a != w`, or by decisions `await-counts` and
        `mbarrier-phase`."""
        failures: list[Failure] = [
            (HazardKind.BARRIER, element, None)
            for element, (a, w) in enumerate(zip(self.arrives, self.awaits, strict=True))
            if a != w
        ]
        for home, ops in self._trailing.items():
            failures += [(HazardKind.DEADLOCK, home, op) for op in ops]
        if self.phase is not None:
            failures += _phase(self.phase.faults_at_free())
        return failures

    def _phase_at_arrival(
        self, targets: tuple[int, ...], rank: int, threads: Threads
    ) -> list[Failure]:
        if self.phase is None:
            return []
        found = [f for t in targets for f in self.phase.check_arrival(t, rank, threads)]
        return _phase(self.phase.faults(found))

    def _prune(self, touched: Iterable[int]) -> None:
        """Forgets what cannot matter any more, at the elements whose counts have changed."""
        least = self.arrives
        if self.facts.multicast:
            # Any element may be the home of a later Arrive on any other.
            least = [min(least)] * len(least)
            touched = range(len(least))
        for element in touched:
            stack = self._bounds[element]
            if self.facts.variable.counts_all:
                stack = []  # It stays: any later Arrive is late.
            if stack and stack[-1][0] < least[element]:
                self._bounds[element] = [entry for entry in stack if entry[0] >= least[element]]
            if self.phase is not None:
                # Without an Await on the variable no arrival is ever paired with one.
                floor = self.floor(element) if self.facts.counts else self.arrives[element]
                self.phase.prune(element, least[element], floor)

    # --- save and restore -----------------------------------------------------------------

    def bases(self) -> list[int]:
        """By element, the count that the others are compared with."""
        if self.facts.multicast:
            return [min(*self.arrives, *self.awaits)] * self.facts.size
        return [min(a, w) for a, w in zip(self.arrives, self.awaits, strict=True)]

    def save(self, bases: list[int]) -> BarrierKey:
        """The state, to be compared and restored."""
        return BarrierKey(
            tuple(a - base for a, base in zip(self.arrives, bases, strict=True)),
            tuple(w - base for w, base in zip(self.awaits, bases, strict=True)),
            tuple(self._homes),
            tuple(
                tuple((bound - base, op) for bound, op in stack)
                for stack, base in zip(self._bounds, bases, strict=True)
            ),
            tuple(sorted(self._trailing.items())),
            None if self.phase is None else self.phase.save(bases),
        )

    def restore(self, key: BarrierKey, bases: list[int]) -> None:
        """The state that was saved, its counts now relative to `bases`."""
        self.arrives = [a + base for a, base in zip(key.arrives, bases, strict=True)]
        self.awaits = [w + base for w, base in zip(key.awaits, bases, strict=True)]
        self._homes = list(key.homes)
        self._bounds = [
            [(bound + base, op) for bound, op in stack]
            for stack, base in zip(key.bounds, bases, strict=True)
        ]
        self._trailing = dict(key.trailing)
        if self.phase is not None and key.phase is not None:
            self.phase.restore(key.phase, bases)


def _phase(faults: list[Fault]) -> list[Failure]:
    return [(HazardKind.PHASE, element, op) for element, op in faults]
