"""Shapes of rows that a cluster of CTAs has, and which one is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exogpu.ir.types import DataType
from exogpu.kernels.rows import TYPES

LONG: Final = 16384
"""Elements of the longest rows that one CTA has for itself."""


@dataclass(frozen=True, slots=True)
class LongShape:
    """A cluster of `ctas` CTAs of `warps` warps has a row of `dtype`; a thread, `elements` of it.

    A multiprocessor has room for `blocks` CTAs.

    >>> LongShape("f32", 8).span, LongShape("bf16", 8).span
    (131072, 131072)
    """

    dtype: str
    ctas: int
    warps: int = 16
    elements: int = 32
    blocks: int = 2

    @property
    def type(self) -> DataType:
        """The type of the elements in memory; the computation is in f32."""
        return TYPES[self.dtype]

    @property
    def vector(self) -> int:
        """Elements that a thread reads or writes at once: 16 bytes."""
        return 16 // self.type.bytes

    @property
    def loads(self) -> int:
        """Vectors of a thread."""
        return self.elements // self.vector

    @property
    def across(self) -> int:
        """Elements between two loads of a thread."""
        return 32 * self.all_warps * self.vector

    @property
    def all_warps(self) -> int:
        """The number of warps of the cluster."""
        return self.ctas * self.warps

    @property
    def each(self) -> int:
        """Warps whose partial results a lane combines."""
        return max(1, self.all_warps // 32)

    @property
    def span(self) -> int:
        """Elements of the longest row."""
        return self.across * self.loads

    def __str__(self) -> str:
        return f"{self.dtype}_{self.span}_{self.ctas}x{self.warps}x{self.blocks}"


LONG_SHAPES: Final = (
    *(LongShape(kind, 2) for kind in TYPES),
    *(LongShape(kind, 2, warps=32, blocks=1) for kind in TYPES),
    LongShape("f32", 8),
    LongShape("bf16", 4, warps=32, blocks=1),
)
"""The fastest that were measured; of each type those of shorter rows first."""


def long_shape_of(kind: str, columns: int) -> LongShape | None:
    """The first shape that takes rows of so many columns; None if a CTA takes them, or none does.

    >>> str(long_shape_of("bf16", 65536)), long_shape_of("f32", 1024), long_shape_of("f32", 65537)
    ('bf16_65536_2x32x1', None, None)
    """
    if columns <= LONG:
        return None
    fits = (s for s in LONG_SHAPES if s.dtype == kind and columns <= s.span)
    return next((s for s in fits if columns % s.vector == 0), None)
