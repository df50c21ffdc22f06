"""Stores states: variables divided into cells, and classes of cells with one state.

A cell is a box of elements that no access of the program tells apart; its state is that of each
of its elements.  A cell holds the number of a class, and the class has the state: a sync rewrites
every class once, however many cells hold it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from exogpu.ir.types import Sym
from exogpu.machine.fast.records import EMPTY, StateId, Tables
from exogpu.machine.fast.visibility_updates import Lift

ClassId: TypeAlias = int
Run: TypeAlias = tuple[int, int]
"""Cells `first .. last - 1`."""

Numbers: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int32]]"
"""Classes of cells, or their states."""

EMPTY_CLASS: Final[ClassId] = 0

FEW: Final = 32
"""Numbers that are counted one by one."""


def count_each(numbers: Numbers) -> Iterable[tuple[int, int]]:
    """Returns each of the numbers, with how often it stands there."""
    if len(numbers) <= FEW:
        return Counter(numbers.tolist()).items()
    counts = np.bincount(numbers)
    found = np.flatnonzero(counts)
    return zip(found.tolist(), counts[found].tolist(), strict=True)


def replace_each(numbers: Numbers, into: Mapping[int, int]) -> Numbers:
    """Returns the numbers with others in place of some."""
    if len(numbers) <= FEW:
        return np.array([into.get(one, one) for one in numbers.tolist()], np.int32)
    table = np.arange(int(numbers.max()) + 1, dtype=np.int32)
    for one, other in into.items():
        if one < len(table):
            table[one] = other
    found: Numbers = table[numbers]
    return found


def gather_cells(cells: Numbers, runs: Sequence[Run]) -> Numbers:
    """Returns what stands in some runs of cells, in order."""
    if len(runs) == 1:
        first, last = runs[0]
        return cells[first:last]
    if not runs:
        return cells[:0]
    return np.concatenate([cells[first:last] for first, last in runs])


def scatter_cells(cells: Numbers, runs: Sequence[Run], held: Numbers) -> None:
    """Writes into some runs of cells, in order."""
    at = 0
    for first, last in runs:
        cells[first:last] = held[at : at + last - first]
        at += last - first


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Cells of a variable as an index, and how many they are."""

    index: slice | np.ndarray[tuple[int], np.dtype[np.int64]]
    size: int


@dataclass(slots=True, eq=False)
class Store:
    """The cells of one variable; `cells` is None while it is not allocated."""

    name: Sym
    shape: tuple[int, ...]
    breaks: tuple[Sequence[int], ...]
    """By dimension, where cells begin; 0 and the extent are among them, if it is not 0."""
    strides: tuple[int, ...] = field(init=False)
    size: int = field(init=False)
    cells: Numbers | None = None
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

    def enclosing_cells(self, dim: int, lo: int, hi: int) -> tuple[int, int]:
        """The cells that meet `lo .. hi - 1`, where no access need begin or end."""
        lo, hi = max(lo, 0), min(hi, self.shape[dim])
        if lo >= hi:
            return (0, 0)
        breaks = self.breaks[dim]
        first = bisect_left(breaks, lo + 1) - 1
        return (first, bisect_left(breaks, hi))

    def runs(self, spans: Sequence[tuple[int, int]]) -> tuple[Run, ...]:
        """The cells of a box, in order, in as few runs as possible."""
        strides, breaks = self.strides, self.breaks
        starts, length = [0], 1
        whole = True
        for dim in range(len(spans) - 1, -1, -1):
            lo, hi = spans[dim]
            if lo >= hi:
                return ()
            stride = strides[dim]
            if whole:
                # The innermost dimension, and those whose inner neighbours are taken whole.
                starts, length = [lo * stride], (hi - lo) * stride
                whole = (lo, hi) == (0, len(breaks[dim]) - 1)
            elif hi == lo + 1:
                starts = [start + lo * stride for start in starts]
            else:
                starts = [start + i * stride for i in range(lo, hi) for start in starts]
        return tuple([(start, start + length) for start in starts])

    def region(self, spans: Sequence[tuple[int, int]]) -> Region:
        """Returns the cells of a box, in order, as an index."""
        size = first = last = 1
        for (lo, hi), stride in zip(spans, self.strides, strict=True):
            size *= max(hi - lo, 0)
            first, last = first + lo * stride, last + (hi - 1) * stride
        if not size:
            return Region(slice(0, 0), 0)
        if last - first == size - 1:
            return Region(slice(first - 1, last), size)
        cells = np.zeros(1, np.int64)
        for (lo, hi), stride in zip(spans, self.strides, strict=True):
            cells = (cells[:, None] + np.arange(lo, hi) * stride).reshape(-1)
        return Region(cells, size)

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
        self.changed = 0
        """States that syncs were applied to."""
        self.tables = tables
        self.stores = stores
        self.state_of: list[StateId] = [EMPTY]
        self._states: Numbers = np.zeros(1 << 10, np.int32)
        """The same, as an array."""
        self.live: dict[StateId, dict[ClassId, None]] = {}
        """The classes of each state that some element has; EMPTY aside."""
        self._bits = 0
        """The live states, as bits."""
        self._refs: list[int] = [0]
        self._free: list[ClassId] = []
        self._work = 0
        """Classes that were given a state one by one, where one would have done for several."""
        self.renamers: list[Callable[[dict[ClassId, ClassId]], None]] = []
        """Told when classes are joined: other holders of classes than cells."""

    def hold(self, state: StateId, count: int = 1) -> ClassId:
        """A class with the state, with `count` more holders."""
        if state == EMPTY:
            return EMPTY_CLASS
        classes = self.live.get(state)
        if classes is not None:
            found = next(iter(classes))
            self._refs[found] += count
            return found
        if self._free:
            found = self._free.pop()
            self.state_of[found] = state
            self._refs[found] = count
        else:
            found = len(self.state_of)
            self.state_of.append(state)
            self._refs.append(count)
            if found == len(self._states):
                self._states = np.concatenate([self._states, np.zeros_like(self._states)])
        self._states[found] = state
        self.live[state] = {found: None}
        self._bits |= 1 << state
        return found

    def drop(self, held: ClassId, count: int = 1) -> None:
        """With `count` holders less; at none the class goes."""
        if held == EMPTY_CLASS:
            return
        refs = self._refs
        refs[held] -= count
        if refs[held] == 0:
            state = self.state_of[held]
            classes = self.live[state]
            if len(classes) == 1:
                del self.live[state]
                self._bits ^= 1 << state
            else:
                del classes[held]
            self._free.append(held)

    def lift(self, lift: Lift) -> None:
        """Applies a sync to every element of every variable."""
        rest = self._bits & ~lift.still
        if not rest:
            return
        self.changed += rest.bit_count()
        changes: dict[StateId, StateId] = {}
        states, still = lift.states, 0
        while rest:
            low = rest & -rest
            rest ^= low
            state = low.bit_length() - 1
            after = states.get(state)
            if after is None:
                after = lift.state(state)
                if after == state:
                    still |= low
                    continue
            changes[state] = after
        lift.still |= still
        if changes:
            self.rewrite(changes)

    def rewrite(self, changes: dict[StateId, StateId]) -> None:
        """Gives the classes of some states other states, all at once."""
        live, state_of = self.live, self.state_of
        bits = self._bits
        moved: list[tuple[StateId, dict[ClassId, None]]] = []
        for state, after in changes.items():
            classes = live.pop(state, None)
            if classes is not None and after != state:
                bits ^= 1 << state
                moved.append((after, classes))
            elif classes is not None:
                live[state] = classes
        for after, classes in moved:
            self._work += len(classes) - 1
            for held in classes:
                state_of[held] = after
                self._states[held] = after
            found = live.get(after)
            if found is None:
                live[after] = classes
                bits |= 1 << after
            else:
                found.update(classes)
        self._bits = bits
        # Two classes of one state are right but slow; to join them costs a pass over all cells.
        if self._work > sum(len(s.cells) for s in self.stores if s.cells is not None) // 128 + 32:
            self._work = 0
            self._join()

    def _join(self) -> None:
        into: dict[ClassId, ClassId] = {}
        for first, *others in self.live.values():
            into.update(dict.fromkeys(others, first))
        for store in self.stores:
            if store.cells is not None:
                store.cells[:] = replace_each(store.cells, into)
        for rename in self.renamers:
            rename(into)
        for held, other in into.items():
            self._refs[other] += self._refs[held]
            self._refs[held] = 0
            self._free.append(held)
        self.live = {state: {next(iter(held)): None} for state, held in self.live.items()}

    def allocate(self, store: Store) -> None:
        """Fresh state for every element."""
        self.release(store)
        store.cells = np.full(store.size, EMPTY_CLASS, np.int32)

    def release(self, store: Store) -> None:
        """The state of every element is dropped."""
        if store.cells is None:
            return
        counts = count_each(store.cells)
        store.cells = None
        for held, count in counts:
            self.drop(held, count)

    def contents(self, store: Store, region: Region) -> bytes:
        """The states of the cells, in order, as numbers of 32 bits."""
        assert store.cells is not None
        return self._states[store.cells[region.index]].tobytes()

    def fill(self, store: Store, region: Region, contents: bytes) -> None:
        """Gives the cells these states."""
        if self.contents(store, region) == contents:
            return
        cells = store.cells
        assert cells is not None
        states: Numbers = np.frombuffer(contents, np.int32)
        before = list(count_each(cells[region.index]))
        into = {state: self.hold(state, count) for state, count in count_each(states)}
        cells[region.index] = replace_each(states, into)
        for held, count in before:
            self.drop(held, count)


def changed_states(contents: bytes, after: Callable[[StateId], StateId]) -> bytes:
    """Returns contents with other states in place of all."""
    states: Numbers = np.frombuffer(contents, np.int32)
    return replace_each(states, {state: after(state) for state, _ in count_each(states)}).tobytes()
