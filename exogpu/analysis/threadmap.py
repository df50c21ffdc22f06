"""Thread mappings f: control values -> set of natural thread indices (paper, section 4)."""

from __future__ import annotations

from dataclasses import dataclass

from exogpu.ir.nodes import CExpr


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
