"""Where states are kept: variables divided into cells, and classes of cells with one state.

A cell is a box of elements that no access of the program tells apart; its state is that of each
of its elements.  A cell holds the number of a class, and the class has the state: a sync rewrites
every class once, however many cells hold it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, TypeAlias

from exogpu.ir.names import Sym
from exogpu.machine.fast.lifts import Lift
from exogpu.machine.fast.records import EMPTY, StateId, Tables

ClassId: TypeAlias = int
Run: TypeAlias = tuple[int, int]
"""Cells `first .. last - 1`."""

EMPTY_CLASS: Final[ClassId] = 0


@dataclass(slots=True, eq=False)
class Store:
    """The cells of one variable; `cells` is None while it is not allocated."""

    name: Sym
    shape: tuple[int, ...]
    breaks: tuple[Sequence[int], ...]
    """By dimension, where cells begin; 0 and the extent are among them, if it is not 0."""
    strides: tuple[int, ...] = field(init=False)
    size: int = field(init=False)
    cells: list[ClassId] | None = None
    _numbers: tuple[dict[int, int] | None, ...] = field(init=False)
    """By dimension, the cell that begins at an element; None where every element is a cell."""

    def __post_init__(self) -> None:
        counts = [len(b) - 1 for b in self.breaks]
        strides, size = [], 1
        for count in reversed(counts):
            strides.append(size)
            size *= count
        self.strides = tuple(reversed(strides))
        self.size = size
        self._numbers = tuple(
            None if isinstance(b, range) else {at: i for i, at in enumerate(b)} for b in self.breaks
        )

    def span(self, dim: int, lo: int, hi: int) -> tuple[int, int]:
        """The cells of the elements `lo .. hi - 1` that exist, in one dimension."""
        lo, hi = max(lo, 0), min(hi, self.shape[dim])
        if lo >= hi:
            return (0, 0)
        numbers = self._numbers[dim]
        return (lo, hi) if numbers is None else (numbers[lo], numbers[hi])

    def around(self, dim: int, lo: int, hi: int) -> tuple[int, int]:
        """The cells that meet `lo .. hi - 1`, where no access need begin or end."""
        lo, hi = max(lo, 0), min(hi, self.shape[dim])
        if lo >= hi:
            return (0, 0)
        breaks = self.breaks[dim]
        first = bisect_left(breaks, lo + 1) - 1
        return (first, bisect_left(breaks, hi))

    def runs(self, spans: Sequence[tuple[int, int]]) -> tuple[Run, ...]:
        """The cells of a box, in order, in as few runs as possible."""
        if any(lo >= hi for lo, hi in spans):
            return ()
        if not spans:
            return ((0, 1),)
        # Dimensions that are taken whole join the one before.
        last = len(spans) - 1
        while last > 0 and spans[last] == (0, len(self.breaks[last]) - 1):
            last -= 1
        lo, hi = spans[last]
        stride = self.strides[last]
        return tuple(
            (start + lo * stride, start + hi * stride)
            for start in (
                sum(i * s for i, s in zip(outer, self.strides, strict=False))
                for outer in product(*(range(*span) for span in spans[:last]))
            )
        )

    def window(self, bounds: tuple[int, ...]) -> tuple[Run, ...]:
        """The cells of an access: `bounds` has lo and hi of each dimension."""
        return self.runs(
            [self.span(d, bounds[2 * d], bounds[2 * d + 1]) for d in range(len(self.shape))]
        )

    def index(self, cell: int) -> tuple[int, ...]:
        """The smallest element of a cell."""
        index = []
        for breaks, stride in zip(self.breaks, self.strides, strict=True):
            index.append(breaks[cell // stride])
            cell %= stride
        return tuple(index)


class Classes:
    """The classes of cells, and how many cells (and other holders) each has."""

    def __init__(self, tables: Tables, stores: Sequence[Store]) -> None:
        self.tables = tables
        self.stores = stores
        self.state_of: list[StateId] = [EMPTY]
        self.class_of: dict[StateId, ClassId] = {EMPTY: EMPTY_CLASS}
        self.refs: list[int] = [0]
        self.live: dict[ClassId, None] = {}
        self._free: list[ClassId] = []
        self._work = 0
        self.renamers: list[Callable[[dict[ClassId, ClassId]], None]] = []
        """Told when classes are joined: other holders of classes than cells."""

    def hold(self, state: StateId, count: int = 1) -> ClassId:
        """A class with the state, with `count` more holders."""
        if state == EMPTY:
            return EMPTY_CLASS
        found = self.class_of.get(state)
        if found is None:
            if self._free:
                found = self._free.pop()
                self.state_of[found] = state
            else:
                found = len(self.state_of)
                self.state_of.append(state)
                self.refs.append(0)
            self.class_of[state] = found
            self.live[found] = None
        self.refs[found] += count
        return found

    def drop(self, held: ClassId, count: int = 1) -> None:
        """With `count` holders less; at none the class goes."""
        if held == EMPTY_CLASS:
            return
        refs = self.refs
        refs[held] -= count
        if refs[held] == 0:
            state = self.state_of[held]
            if self.class_of.get(state) == held:
                del self.class_of[state]
            del self.live[held]
            self._free.append(held)

    def lift(self, lift: Lift) -> None:
        """Applies a sync to every element of every variable."""
        states, state_of = lift.states, self.state_of
        changed = False
        for held in self.live:
            state = state_of[held]
            after = states.get(state)
            if after is None:
                after = lift.state(state)
            if after != state:
                state_of[held] = after
                changed = True
        if changed:
            self.renamed()

    def renamed(self) -> None:
        """After the states of classes have changed."""
        state_of = self.state_of
        self.class_of = {state_of[held]: held for held in self.live}
        self.class_of[EMPTY] = EMPTY_CLASS
        # Two classes of one state are right but slow; to join them costs a pass over all cells.
        self._work += len(self.live)
        if len(self.live) > 2 * len(self.class_of) + 32 and self._work > self._total():
            self._work = 0
            self._join()

    def _total(self) -> int:
        return sum(len(s.cells) for s in self.stores if s.cells is not None) // 8

    def _join(self) -> None:
        into = {held: self.class_of[self.state_of[held]] for held in self.live}
        for store in self.stores:
            if store.cells is not None:
                store.cells[:] = [into.get(c, c) for c in store.cells]
        for rename in self.renamers:
            rename(into)
        for held, other in into.items():
            if held != other:
                self.refs[other] += self.refs[held]
                self.refs[held] = 0
                del self.live[held]
                self._free.append(held)

    def allocate(self, store: Store) -> None:
        """Fresh state for every element."""
        self.release(store)
        store.cells = [EMPTY_CLASS] * store.size

    def release(self, store: Store) -> None:
        """The state of every element is dropped."""
        if store.cells is None:
            return
        counts: dict[ClassId, int] = {}
        for held in store.cells:
            if held:
                counts[held] = counts.get(held, 0) + 1
        store.cells = None
        for held, count in counts.items():
            self.drop(held, count)

    def contents(self, store: Store, runs: Sequence[Run]) -> tuple[StateId, ...]:
        """The states of the cells, in order."""
        cells, state_of = store.cells, self.state_of
        assert cells is not None
        if len(runs) == 1:
            first, last = runs[0]
            return tuple([state_of[c] for c in cells[first:last]])
        return tuple([state_of[c] for first, last in runs for c in cells[first:last]])

    def fill(self, store: Store, runs: Sequence[Run], states: Sequence[StateId]) -> None:
        """Gives the cells these states."""
        cells, state_of = store.cells, self.state_of
        assert cells is not None
        at = 0
        for first, last in runs:
            for cell in range(first, last):
                after = states[at]
                at += 1
                held = cells[cell]
                if state_of[held] != after:
                    cells[cell] = self.hold(after)
                    self.drop(held)
