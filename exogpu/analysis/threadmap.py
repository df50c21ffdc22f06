"""Thread mappings f: control values -> set of natural thread indices (paper, section 4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from exogpu.ir.nodes import CExpr
from exogpu.ir.types import Sym
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


@dataclass(frozen=True, slots=True)
class Digit:
    """`thread / pitch % extent`, in blocks of `size`."""

    pitch: int
    extent: int
    size: int

    def digit_of(self, thread: int) -> int:
        """The digit of a thread."""
        return thread // self.pitch % self.extent


def left_behind(digits: Sequence[Digit], executing: Collection[int]) -> bool:
    """Tests whether some thread executes a statement that another of its group does not."""
    groups: dict[tuple[int, ...], int] = {}
    for thread in executing:
        blocks = tuple(d.digit_of(thread) // d.size for d in digits)
        if all(block < d.extent // d.size for block, d in zip(blocks, digits, strict=True)):
            groups[blocks] = groups.get(blocks, 0) + 1
    whole = prod(digit.size for digit in digits)
    return any(count != whole for count in groups.values())


def threads_of(threads: ThreadMap, env: Mapping[Sym, int]) -> tuple[int, ...]:
    """The natural thread indices that f maps the control values to, in rising order."""
    found = [0]
    for axis in threads.axes:
        first = evaluate(axis.offset, env)
        found = [t + axis.pitch * (first + j) for t in found for j in range(axis.extent)]
    return tuple(sorted(found))
