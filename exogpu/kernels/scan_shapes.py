"""Tiles of scans of rows: the owners of elements, and the rows that each tile is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exogpu.hw.datatypes import f32, i32
from exogpu.ir.types import DataType

TYPES: Final = {"f32": f32, "i32": i32}


@dataclass(frozen=True, slots=True)
class Shape:
    """A tile: `warps` warps, of which a thread has `loads` vectors, `span` elements apart.

    A vector is four elements, or one where rows have any length.

    >>> Shape("f32", 8, 8).tile
    8192
    >>> str(Shape("f32", 8, 8))
    'f32_8x8'
    """

    dtype: str
    warps: int
    loads: int
    vectors: bool = True

    @property
    def type(self) -> DataType:
        """The type of the elements, and of their sums."""
        return TYPES[self.dtype]

    @property
    def vector(self) -> int:
        """Elements that a thread reads or writes at once."""
        return 4 if self.vectors else 1

    @property
    def span(self) -> int:
        """Elements that all threads read at once."""
        return 32 * self.warps * self.vector

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.span * self.loads

    def __str__(self) -> str:
        return f"{self.dtype}_{self.warps}x{self.loads}" + ("" if self.vectors else "_any")


SHAPES: Final = tuple(
    Shape(kind, warps, loads * (1 if vectors else 4), vectors)
    for kind in TYPES
    for vectors in (True, False)
    for warps, loads in ((1, 2), (2, 4), (16, 8))
)
"""Of each type those of short rows first; the last takes any row."""


def shape_of(kind: str, N: int) -> Shape:
    """The shape for rows of N elements: the smallest tile that has a row, or else the largest.

    >>> str(shape_of("f32", 1000)), str(shape_of("i32", 100001))
    ('f32_2x4', 'i32_16x32_any')
    """
    of_type = [s for s in SHAPES if s.dtype == kind and s.vectors == (N % 4 == 0)]
    return next((shape for shape in of_type if shape.tile >= N), of_type[-1])
