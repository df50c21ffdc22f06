"""Shapes of rows whose greatest elements are asked for, and which one is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exogpu.hw.datatypes import bf16, f16, f32, i32
from exogpu.ir.types import DataType

TYPES: Final = {"f32": f32, "bf16": bf16, "f16": f16}
MOST: Final = 128
"""Elements of a result."""
COLUMNS: Final = 4096
"""Of a warp, at most."""
LONGEST: Final = 2**31 - 2**13
"""Columns that i32 tells, whatever the last part of a row begins with."""


@dataclass(frozen=True, slots=True)
class Part:
    """A warp's part of a row: `loads` vectors of 16 bytes for each lane, or so many elements.

    What a lane brings is its group: vectors that are 32 vectors apart.
    """

    dtype: str
    loads: int
    vectors: bool = True

    @property
    def type(self) -> DataType:
        """The type of the elements in memory: one of TYPES, or i32, which are ordinals already."""
        return TYPES.get(self.dtype, i32)

    @property
    def vector(self) -> int:
        """Elements of a vector."""
        return 16 // self.type.bytes if self.vectors else 1

    @property
    def group(self) -> int:
        """Elements of a lane."""
        return self.loads * self.vector

    @property
    def span(self) -> int:
        """Elements of a warp."""
        return 32 * self.group

    @property
    def words(self) -> int:
        """The words of shared memory: after 32 vectors the place of one is left out, so that 32
        elements of one group, one after the other, are in 32 banks."""
        return self.loads * 33 * self.vector

    def __str__(self) -> str:
        return f"{self.dtype}{'' if self.vectors else '_any'}_{self.span}"


FURTHER: Final = Part("i32", 32)
"""What a warp has of the greatest elements of other parts."""


@dataclass(frozen=True, slots=True)
class TopkShape:
    """The K greatest of rows that a warp has at once, or in parts, on so many levels."""

    part: Part
    K: int
    levels: int = 1
    warps: int = 1
    """Of a CTA; each has another row."""
    further: Part = FURTHER
    """What a warp has on other levels than the first."""

    @property
    def in_registers(self) -> bool:
        """Tests whether rows are in registers, and not in shared memory."""
        most = COLUMNS // 4 if self.part.type.bytes == 2 else 128
        return self.levels == 1 and self.part.span <= most

    @property
    def halves(self) -> int:
        """Results that a lane has, at most."""
        return -(-self.K // 32)

    @property
    def padded(self) -> int:
        """Places that the K greatest of a part have in memory: whole vectors."""
        return -(-self.K // 4) * 4

    @property
    def longest(self) -> int:
        """Elements of the longest row.

        >>> [TopkShape(Part("f32", 32), 64, levels).longest for levels in (1, 2, 3)]
        [4096, 262144, 16777216]
        """
        columns = 1
        for level in range(self.levels):
            span = (self.part if level == self.levels - 1 else self.further).span
            columns = (columns if level == 0 else columns // self.padded) * span
        return min(columns, LONGEST)

    def __str__(self) -> str:
        return f"{self.part}_{self.K}" + f"_{self.levels}" * (self.levels > 1)


def topk_shape(kind: str, columns: int, K: int) -> TopkShape:
    """The first shape that takes rows of so many columns.

    >>> str(topk_shape("f32", 256, 8)), str(topk_shape("bf16", 151936, 50))
    ('f32_256_8', 'bf16_4096_50_2')
    """
    vectors = columns * TYPES[kind].bytes % 16 == 0
    elements = 16 // TYPES[kind].bytes if vectors else 1
    parts = [Part(kind, 2**n, vectors) for n in range(8) if 2 <= 2**n * elements <= 128]
    part = next((part for part in parts if columns <= part.span), parts[-1])
    warps = max(1, min(8, 4096 // part.span))
    shapes = (TopkShape(part, K, levels, warps) for levels in range(1, 7))
    return next(shape for shape in shapes if columns <= shape.longest)


SHIPPED: Final = (
    TopkShape(Part("f32", 2), 8, warps=8),
    TopkShape(Part("bf16", 1), 8, warps=8),
    TopkShape(Part("f32", 4, vectors=False), 5, warps=8),
    TopkShape(Part("f32", 32), 64, 2),
    TopkShape(Part("bf16", 16), 50, 2),
)
"""These are made when the kernels' module is imported, the others when they are needed."""
