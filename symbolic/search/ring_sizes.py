"""Counts the steps of a ring that is taken out of its tasks (decision `ring-steps`), at sizes.

The prover's claims are of any number of steps.  Where one fails at some number, the machine is
asked at sizes at which one cluster that executes all tasks has as many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

from exogpu.amir import nodes as amir
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate, holds
from exogpu.symbolic.model import Placed
from exogpu.symbolic.ring_steps import RingSteps

Values: TypeAlias = dict[Sym, int]

MOST: Final = 10_000
"""Steps are counted up to so many."""


ROUNDS: Final = 8
"""Iterations of a loop within a step, of which it is not known how many it has."""


def steps(ring: RingSteps, sizes: Mapping[Sym, int]) -> Iterator[Values]:
    """The iterators of each step, in the order of the tasks.

    A value from memory is the largest that it may be.
    """
    yield from _steps(ring.around, {**sizes})


def _steps(around: Sequence[amir.Loop | amir.Guard], values: Values) -> Iterator[Values]:
    if not around:
        yield values
        return
    first, *inner = around
    if isinstance(first, amir.Guard):
        if holds(first.condition, values):
            yield from _steps(inner, values)
        return
    lo, hi = evaluate(first.lo, values), evaluate(first.hi, values)
    for value in range(lo if first.source is None else max(lo, hi - 1), hi):
        yield from _steps(inner, {**values, first.iterator: value})


def step_counts(
    placed: Placed, sizes: Mapping[str, int], kind: HazardKind | None = None
) -> dict[Sym, int]:
    """The number of steps of each ring at sizes, up to `MOST`, and of rounds; one more for what is
    required as tasks begin, of which the last may have no steps."""
    known = {p.name: sizes[p.name.name] for p in placed.program.params if p.name.name in sizes}
    found: dict[Sym, int] = {}
    for one in placed.by_position.residences:
        if one.ring is not None:
            found[one.count.name] = sum(1 for _ in islice(steps(one.ring, known), MOST))
            found[one.count.name] += kind is HazardKind.SLOT
            found[one.ring.rounds.name] = ROUNDS
    return found
