"""Sums of products over lanes, by matrix multiplication where two factors share a summed axis."""

from __future__ import annotations

from typing import Final

import numpy as np

from exogpu.meaning.values import Array

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
