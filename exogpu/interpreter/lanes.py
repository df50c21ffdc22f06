"""Lanes: the iterations that run at once, as the axes of numpy arrays.

Every parallel loop that is entered adds an axis.  Axis a is numpy's axis -(a + 1), so that values
made outside a loop broadcast inside it.  A guard keeps the lanes on which it holds: all lanes are
always active, there are no masks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from exogpu.diagnostics.errors import InternalError
from exogpu.interpreter.program import AllOf, AnyOf, Condition, Test
from exogpu.interpreter.values import Array
from exogpu.ir.affine import Affine, Floor, Lookup, Rest
from exogpu.ir.types import Sym

Integers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Ramp:
    """`start + step * position` along one axis."""

    start: int
    step: int
    axis: int


Iterator: TypeAlias = int | Ramp | Integers


@dataclass(frozen=True, slots=True)
class Lanes:
    """The active iterations: `shape[a]` along axis a; the iterators' values on them.

    `slots` are the positions at which lanes entered their loops, with the number that entered:
    they index private memory.
    """

    shape: tuple[int, ...]
    values: dict[Sym, Iterator]
    slots: tuple[tuple[Sym, int], ...]

    @property
    def count(self) -> int:
        """The number of iterations that run at once."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count


@dataclass(frozen=True, slots=True)
class Index:
    """A form on all lanes: `base + sum of steps[a] * position along a`, plus `dense`."""

    base: int
    steps: dict[int, int]
    dense: Integers | None = None

    @property
    def uniform(self) -> bool:
        """Tests whether all lanes agree."""
        return not self.steps and self.dense is None


def evaluate(form: Affine, lanes: Lanes) -> Index:
    """The form on all lanes."""
    base = form.constant
    steps: dict[int, int] = {}
    dense: Integers | None = None
    for atom, coefficient in form.terms:
        match atom:
            case Sym():
                value = lanes.values[atom]
                if isinstance(value, int):
                    base += coefficient * value
                elif isinstance(value, Ramp):
                    base += coefficient * value.start
                    step = steps.get(value.axis, 0) + coefficient * value.step
                    steps[value.axis] = step
                else:
                    part = coefficient * value
                    dense = part if dense is None else dense + part
            case Floor() | Rest():
                inner = evaluate(atom.form, lanes)
                whole = isinstance(atom, Floor)
                if inner.uniform:
                    at = inner.base // atom.divisor if whole else inner.base % atom.divisor
                    base += coefficient * at
                else:
                    spread = materialise(inner, lanes)
                    part = spread // atom.divisor if whole else spread % atom.divisor
                    part = coefficient * part
                    dense = part if dense is None else dense + part
            case Lookup():
                raise InternalError("an index has a table")
            case _:
                assert_never(atom)
    return Index(base, {a: s for a, s in steps.items() if s}, dense)


def along(axis: int, rank: int, values: Integers) -> Integers:
    """One-dimensional values laid along an axis, of full rank."""
    shape = [1] * rank
    shape[rank - 1 - axis] = len(values)
    return values.reshape(shape)


def materialise(index: Index, lanes: Lanes) -> Integers:
    """The index as an array of full rank, of extent 1 along the axes it does not depend on."""
    rank = len(lanes.shape)
    total: Integers = np.full((1,) * rank, index.base, np.int64)
    for axis, step in index.steps.items():
        total = total + along(axis, rank, step * np.arange(lanes.shape[axis], dtype=np.int64))
    return total if index.dense is None else total + index.dense


def index_bounds(index: Index, lanes: Lanes) -> tuple[int, int]:
    """Bounds of the index over the lanes, exact unless it is partly dense."""
    low = high = index.base
    for axis, step in index.steps.items():
        reach = step * (lanes.shape[axis] - 1)
        low, high = low + min(0, reach), high + max(0, reach)
    if index.dense is not None:
        low, high = low + int(index.dense.min()), high + int(index.dense.max())
    return low, high


def enter(lanes: Lanes, iterator: Sym, slot: Sym, first: int, count: int) -> Lanes:
    """The lanes with an axis for `count` iterations of a loop, from `first`."""
    axis = len(lanes.shape)
    values = dict(lanes.values)
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            values[name] = value[np.newaxis]
    values[iterator] = Ramp(first, 1, axis)
    values[slot] = Ramp(0, 1, axis)
    return Lanes((*lanes.shape, count), values, (*lanes.slots, (slot, count)))


# --- conditions ---------------------------------------------------------------------------


def lane_mask(test: Test, lanes: Lanes) -> bool | Mask:
    """Evaluates the test: one truth for all lanes, or a mask of full rank."""
    match test:
        case Condition():
            index = evaluate(test.form, lanes)
            if index.uniform:
                return index.base == 0 if test.equality else index.base >= 0
            low, high = index_bounds(index, lanes)
            if not test.equality and (low >= 0 or high < 0):
                return low >= 0
            spread = materialise(index, lanes)
            return spread == 0 if test.equality else spread >= 0
        case AllOf():
            truth: bool | Mask = True
            for part in test.parts:
                truth = truth & lane_mask(part, lanes)
            return truth
        case AnyOf():
            truth = False
            for part in test.parts:
                truth = truth | lane_mask(part, lanes)
            return truth
        case _:
            assert_never(test)


def holding(test: Test, lanes: Lanes) -> Lanes | None:
    """The lanes on which the test holds; None if there are none."""
    if isinstance(test, AllOf):
        kept: Lanes | None = lanes
        for part in test.parts:
            if kept is None:
                return None
            kept = holding(part, kept)
        return kept
    return keep(lanes, lane_mask(test, lanes))


def failing(test: Test, lanes: Lanes) -> Lanes | None:
    """The lanes on which the test does not hold; None if there are none."""
    truth = lane_mask(test, lanes)
    return keep(lanes, not truth if isinstance(truth, bool) else ~truth)


def keep(lanes: Lanes, mask: bool | Mask) -> Lanes | None:
    """The lanes where the mask holds; None if there are none.

    A mask along one axis shortens that axis.  A mask along several makes one axis of them: the
    last takes the lanes kept, the others get extent 1.
    """
    if isinstance(mask, bool):
        return lanes if mask else None
    if mask.all():
        return lanes
    if not mask.any():
        return None
    rank = len(lanes.shape)
    axes = [a for a in range(rank) if mask.shape[rank - 1 - a] > 1]
    squeezed = mask.reshape([mask.shape[rank - 1 - a] for a in reversed(axes)])
    kept = np.nonzero(squeezed)
    positions = dict(zip(reversed(axes), kept, strict=True))
    into = axes[-1]
    shape = tuple(
        len(kept[0]) if a == into else 1 if a in positions else n for a, n in enumerate(lanes.shape)
    )
    values = {name: _select(value, positions, into, rank) for name, value in lanes.values.items()}
    return Lanes(shape, values, lanes.slots)


def _select(value: Iterator, positions: Mapping[int, Integers], into: int, rank: int) -> Iterator:
    match value:
        case int():
            return value
        case Ramp():
            if value.axis not in positions:
                return value
            at = positions[value.axis]
            return _ramp(value.start + value.step * at, into, rank)
        case _:
            chosen = [a for a in positions if value.shape[rank - 1 - a] > 1]
            # Dense values lie along one axis: they come from `_ramp` alone.
            return _ramp(value.reshape(-1)[positions[chosen[0]]], into, rank) if chosen else value


def _ramp(values: Integers, axis: int, rank: int) -> Iterator:
    """Values along an axis: a ramp where they are evenly spaced."""
    first = int(values[0])
    if len(values) == 1:
        return first
    step = int(values[1]) - first
    if step and np.array_equal(values, first + step * np.arange(len(values))):
        return Ramp(first, step, axis)
    return along(axis, rank, values)


# Sums of products over lanes, by matrix multiplication where two factors share a summed axis.

SMALL: Final = 1 << 18
"""Multiplications up to which BLAS stays in one thread."""


def total(value: Array, shape: tuple[int, ...], summed: list[int]) -> Array:
    """The sum of a value of full rank over numpy axes of the lanes' `shape`.

    Where the value has extent 1 along such an axis, it counts as often as the axis is long.
    """
    if not summed:
        return value
    present = tuple(a for a in summed if value.shape[a] > 1)
    times = 1
    for axis in summed:
        times *= shape[axis] if value.shape[axis] == 1 else 1
    if present:
        value = value.sum(axis=present, keepdims=True, dtype=value.dtype)
    return value if times == 1 else np.multiply(value, np.asarray(times).astype(value.dtype))


def sum_of_products(left: Array, right: Array, shape: tuple[int, ...], summed: list[int]) -> Array:
    """`total(left * right)`, both of full rank and of one type.

    An axis that is summed and stands in one factor only is summed there first.  What is left is
    a matrix product: the axes of both factors are a batch if kept, and contracted if summed.
    """
    rank = len(shape)
    own_left = [a for a in summed if left.shape[a] > 1 and right.shape[a] == 1]
    own_right = [a for a in summed if right.shape[a] > 1 and left.shape[a] == 1]
    both = [a for a in summed if left.shape[a] > 1 and right.shape[a] > 1]
    if not both:
        return total(np.multiply(left, right), shape, summed)
    if own_left:
        left = total(left, shape, own_left)
    if own_right:
        right = total(right, shape, own_right)
    kept = [a for a in range(rank) if a not in summed]
    batch = [a for a in kept if left.shape[a] > 1 and right.shape[a] > 1]
    rows = [a for a in kept if left.shape[a] > 1 and right.shape[a] == 1]
    columns = [a for a in kept if right.shape[a] > 1 and left.shape[a] == 1]
    matrices = _matmul(_matrix(left, batch, rows, both), _matrix(right, batch, both, columns))
    order = [*batch, *rows, *columns]
    extents = [*(left.shape[a] for a in (*batch, *rows)), *(right.shape[a] for a in columns)]
    product = matrices.reshape(extents).transpose([order.index(a) for a in sorted(order)])
    full = [product.shape[sorted(order).index(a)] if a in order else 1 for a in range(rank)]
    once = [a for a in summed if left.shape[a] == 1 and right.shape[a] == 1]
    lone = [a for a in once if a not in own_left and a not in own_right]
    return total(product.reshape(full), shape, lone)


def _matmul(left: Array, right: Array) -> Array:
    """The products of stacked matrices, a band of rows at a time where bands are worth a call.

    Larger products wake all threads of BLAS, which on a busy machine costs a thousand times the
    product of two tiles.
    """
    rows, columns = left.shape[1], right.shape[2]
    band = SMALL // max(1, left.shape[2] * columns)
    if band >= rows or band < 8:
        return np.asarray(np.matmul(left, right))
    found = np.empty((len(left), rows, columns), left.dtype)
    for start in range(0, rows, band):
        found[:, start : start + band] = np.matmul(left[:, start : start + band], right)
    return found


def _matrix(value: Array, batch: list[int], rows: list[int], columns: list[int]) -> Array:
    """The value with its axes gathered into batch, rows and columns."""
    order = [*batch, *rows, *columns]
    rest = [a for a in range(value.ndim) if a not in order]
    moved = value.transpose([*order, *rest])

    def extent(axes: list[int]) -> int:
        count = 1
        for axis in axes:
            count *= value.shape[axis]
        return count

    return moved.reshape(extent(batch), extent(rows), extent(columns))
