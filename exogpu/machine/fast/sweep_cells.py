"""Walks all iterations of a loop of accesses at once, as arrays of the cells that they meet.

`fast.sweeps` makes a table of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from exogpu.machine.fast.affine_code import Array, Values
from exogpu.machine.fast.cells import Store

CELLS: Final = 1 << 20
"""Cells that all accesses of a loop meet, at most; else it is just executed."""


class TooLongError(Exception):
    """The accesses of a loop meet too many cells."""


@dataclass(frozen=True, slots=True, eq=False)
class One:
    """Neighbouring accesses to one window; where it begins and ends by dimension, and who executes
    them."""

    at: int
    store: Store
    bounds: Callable[[Values], tuple[int, ...]]
    offsets: Callable[[Values], tuple[int, ...]]
    shape: tuple[tuple[int, int], ...] | None
    """Pitch and extent of the axes of its threads; None of the host."""


@dataclass(frozen=True, slots=True, eq=False)
class Several:
    """A loop, whose iterator has a slot; or a guard, whose condition is `hi`; or a load, which is a
    guard that holds."""

    slot: int | None
    lo: Callable[[Values], int]
    hi: Callable[[Values], int]
    size: int
    body: tuple[One | Several, ...]


class Walk:
    """All iterations of a loop, as arrays: the values of inner iterators stand in `e`."""

    def __init__(self, e: Values, code: Callable[[One, tuple[int, ...]], int]) -> None:
        self._e = e
        self._code = code
        self._slots: list[int] = []
        self._cells = 0
        self.operations = 0
        self.met: dict[Store, list[tuple[Array, Array, Array]]] = {}
        """By variable: cells, when they are met, and by which access."""

    def block(self, block: tuple[One | Several, ...], times: Array) -> int:
        """Walks a block at several iterations, given when each begins; returns how long it is."""
        length = 0
        for op in block:
            if isinstance(op, One):
                self._access_window(op, times + length)
                length += 1
            elif op.slot is None:
                length += self._guard(op, times + length)
            else:
                length += self._loop(op, op.slot, times + length)
        return length

    def _loop(self, op: Several, slot: int, times: Array) -> int:
        e, (lo, hi), count = self._e, (op.lo(self._e), op.hi(self._e)), len(times)
        extent = max(0, int(hi) - int(lo))
        if not extent or not count:
            return 0
        self.operations += op.size * extent * count
        before = [e[at] for at in self._slots]
        for at in self._slots:
            e[at] = np.repeat(e[at], extent)  # type: ignore[call-overload]
        e[slot] = np.tile(np.arange(int(lo), int(hi)), count)  # type: ignore[call-overload]
        self._slots.append(slot)
        # How long an iteration is does not depend on when it begins.
        length = _length(op.body, e)
        every = np.repeat(times, extent) + np.tile(np.arange(extent) * length, count)
        self.block(op.body, every)
        self._slots.pop()
        for at, old in zip(self._slots, before, strict=True):
            e[at] = old
        return extent * length

    def _guard(self, op: Several, times: Array) -> int:
        e = self._e
        holds = np.flatnonzero(np.broadcast_to(op.hi(e), (len(times),)))
        self.operations += op.size * len(holds)
        before = [e[at] for at in self._slots]
        for at in self._slots:
            e[at] = e[at][holds]  # type: ignore[index]
        if len(holds):
            self.block(op.body, times[holds])
        for at, old in zip(self._slots, before, strict=True):
            e[at] = old
        return _length(op.body, e)

    def _access_window(self, op: One, times: Array) -> None:
        count, bounds = len(times), op.bounds(self._e)
        rows: Array = np.arange(count)
        cells: Array = np.zeros(count, np.int64)
        for dim, (stride, breaks) in enumerate(zip(op.store.strides, op.store.breaks, strict=True)):
            lo = np.maximum(np.broadcast_to(bounds[2 * dim], (count,)), 0)
            hi = np.minimum(np.broadcast_to(bounds[2 * dim + 1], (count,)), op.store.shape[dim])
            if not isinstance(breaks, range):
                ends = np.array(breaks)
                lo, hi = np.searchsorted(ends, lo), np.searchsorted(ends, hi)
            lo, widths = lo[rows], np.maximum(hi - lo, 0)[rows]
            total = int(widths.sum())
            if self._cells + total > CELLS:
                raise TooLongError
            within = np.arange(total) - np.repeat(np.cumsum(widths) - widths, widths)
            cells = np.repeat(cells + lo * stride, widths) + within * stride
            rows = np.repeat(rows, widths)
        self._cells += len(cells)
        codes = self._codes(op, count)[rows]
        self.met.setdefault(op.store, []).append((cells, times[rows], codes))

    def _codes(self, op: One, count: int) -> Array:
        offsets = [np.broadcast_to(at, (count,)) for at in op.offsets(self._e)]
        if not offsets:
            return np.full(count, self._code(op, ()))
        several, which = np.unique(np.stack(offsets, axis=1), axis=0, return_inverse=True)
        codes = [self._code(op, tuple(at)) for at in several.tolist()]
        return np.array(codes, np.int64)[which.reshape(-1)]


def _length(block: tuple[One | Several, ...], e: Values) -> int:
    """Counts the accesses of a block, if every guard holds."""
    length = 0
    for op in block:
        if isinstance(op, One):
            length += 1
        elif op.slot is None:
            length += _length(op.body, e)
        else:
            length += max(0, int(op.hi(e)) - int(op.lo(e))) * _length(op.body, e)
    return length


# --- rows and numbers that are alike ----------------------------------------------------------


def cell_index(cells: Array) -> Array | slice:
    """Returns rising numbers of cells, as a slice where none is left out."""
    first, last = int(cells[0]), int(cells[-1]) + 1
    return slice(first, last) if last - first == len(cells) else cells


def group_numbers(numbers: Array, end: int) -> tuple[list[int], Array, list[int]]:
    """Returns the distinct ones of numbers below `end`, the place of each, and its count."""
    if end > 4 * len(numbers) + (1 << 16):
        found, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
        return found.tolist(), which.reshape(-1), counts.tolist()
    every = np.bincount(numbers, minlength=end)
    found = np.flatnonzero(every)
    place = np.empty(end, np.int64)
    place[found] = np.arange(len(found))
    return found.tolist(), place[numbers], every[found].tolist()


def group_rows(codes: Array, starts: Array) -> tuple[list[bytes], Array]:
    """Returns the distinct rows of a ragged array, given where rows begin; and by row, its number
    among these."""
    lengths = np.diff(starts, append=len(codes))
    found, which = list[bytes](), np.empty(len(starts), np.int64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        every = codes[starts[rows][:, None] + np.arange(length)]
        # Rows of one sum need not be alike: that is looked at.
        sums = every @ np.random.default_rng(0).integers(1 << 62, size=length)
        _, first, same = np.unique(sums, return_index=True, return_inverse=True)
        if not bool((every == every[first][same.reshape(-1)]).all()):
            _, first, same = np.unique(every, axis=0, return_index=True, return_inverse=True)
        which[rows] = len(found) + same.reshape(-1)
        found += [every[at].tobytes() for at in first.tolist()]
    return found, which
