"""Two procedures run on the same data, to see that they differ."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from exogpu.ir.names import Sym
from exogpu.ir.nodes import ControlParam, Proc
from exogpu.ir.walk import evaluate
from exogpu.result.errors import ExoGpuError

LARGEST: Final = 1 << 24
"""Elements of an array; at sizes beyond nothing is run."""

SEEDS: Final = 3
"""Runs, on other data each."""


def results_differ(one: Proc, other: Proc, sizes: Mapping[str, int]) -> bool:
    """Tests whether some run at sizes of the first leaves another result in a parameter.

    The data are small whole numbers, of which sums are exact in any order.
    """
    return any(_differ_on(one, other, sizes, seed) for seed in range(SEEDS))


def _differ_on(one: Proc, other: Proc, sizes: Mapping[str, int], seed: int) -> bool:
    import numpy as np  # most comparisons run nothing

    from exogpu import meaning
    from exogpu.meaning.values import NUMPY

    random = np.random.default_rng(seed)
    env: dict[Sym, int] = {
        p.name: sizes[p.name.name] for p in one.params if isinstance(p, ControlParam)
    }
    left: dict[str, object] = {}
    right: dict[str, object] = {}
    arrays = []
    for mine, its in zip(one.params, other.params, strict=True):
        if isinstance(mine, ControlParam):
            left[mine.name.name] = right[its.name.name] = env[mine.name]
            continue
        shape = tuple(evaluate(extent, env) for extent in mine.shape)
        if prod(shape) > LARGEST:
            return False
        lowest = 0 if np.dtype(NUMPY[mine.dtype]).kind == "u" else -4
        array = random.integers(lowest, 5, shape).astype(NUMPY[mine.dtype])
        arrays.append((array, array.copy()))
        left[mine.name.name], right[its.name.name] = arrays[-1]
    try:
        meaning.run(one, left)
        meaning.run(other, right)
    except ExoGpuError:
        return False
    return not all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in arrays)
