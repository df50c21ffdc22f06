"""The state of one thread in the product of PTX and program, and the meeting of two states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from exogpu.solvers import bitvectors as bv
from exogpu.validate.cursor import Cursor
from exogpu.validate.events import Expected, ExpectedSync


@dataclass(frozen=True, slots=True)
class State:
    """A thread between two instructions."""

    registers: Mapping[str, bv.Term]
    cursor: Cursor
    known: tuple[bv.Formula, ...]
    """The facts of the way here."""
    pending: tuple[Expected, ...] = ()
    """Accesses of the program before the cursor that PTX has not made yet."""
    started: bool = False
    """The mbarriers are initialised, as far as that is this thread's to do."""
    fenced: bool = False
    """It has fenced the async proxy since its last barrier and access of shared memory."""
    syncs: tuple[ExpectedSync, ...] = ()
    """Synchronisation of the operation before the cursor that is still to come."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for states that differ in registers, and in the way to them, alone."""
        listed = (tuple(map(id, self.pending)), tuple(map(id, self.syncs)))
        return (self.cursor.key, self.started, self.fenced, *listed)

    def assuming(self, *facts: bv.Formula) -> State:
        """The state where more is known."""
        return replace(self, known=(*self.known, *facts)) if facts else self


def merged(states: Sequence[State], live: Iterable[str]) -> list[State]:
    """The states, those with one key as one: their registers depend on the way."""
    groups: dict[tuple[object, ...], list[State]] = {}
    for one in states:
        groups.setdefault(one.key, []).append(one)
    needed = frozenset(live)
    return [_union(group, needed) for group in groups.values()]


def _union(states: Sequence[State], live: frozenset[str]) -> State:
    first, *others = states
    if not others:
        return first
    common = 0
    shortest = min(len(one.known) for one in states)
    while common < shortest and all(one.known[common].eq(first.known[common]) for one in others):
        common += 1
    ways = [bv.conjunction(one.known[common:]) for one in states]
    registers = {}
    for name in live:
        values = [one.registers.get(name) for one in states]
        if any(value is None for value in values):
            continue
        found = values[-1]
        for way, value in zip(reversed(ways[:-1]), reversed(values[:-1]), strict=True):
            found = bv.choose(way, value, found)
        registers[name] = found
    known = (*first.known[:common], bv.disjunction(ways))
    return replace(first, registers=registers, known=known)
