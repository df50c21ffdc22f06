"""Thread mappings f: control values -> set of natural thread indices (paper, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exogpu.ir.names import Sym
from exogpu.ir.nodes import CExpr
from exogpu.ir.walk import evaluate


@dataclass(frozen=True, slots=True)
class ThreadAxis:
    """`extent` positions from `offset` on, `pitch` natural thread indices apart."""

    pitch: int
    offset: CExpr
    extent: int


@dataclass(frozen=True, slots=True)
class ThreadMap:
    """The sum set of its axes: `{ sum pitch_i * (offset_i + j_i) : 0 <= j_i < extent_i }`.

    Axes are ordered by falling pitch and no two sums coincide.  Without axes, thread 0 alone.
    """

    axes: tuple[ThreadAxis, ...]
    cluster_dim: int = 1
    block_dim: int = 0
    """Threads a CTA of the launch; 0 where it is not known.  Only descriptions use the two."""


def threads_of(threads: ThreadMap, env: Mapping[Sym, int]) -> tuple[int, ...]:
    """The natural thread indices that f maps the control values to, in rising order."""
    found = [0]
    for axis in threads.axes:
        first = evaluate(axis.offset, env)
        found = [t + axis.pitch * (first + j) for t in found for j in range(axis.extent)]
    return tuple(sorted(found))
