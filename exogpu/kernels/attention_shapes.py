"""Shapes that distinguish the kernels of attention."""

from __future__ import annotations

import math
from dataclasses import dataclass

from exogpu.hw.datatypes import DataType


@dataclass(frozen=True, slots=True)
class Shape:
    """Heads of D columns, 64 or 128, of bf16 or f16, of which G share keys; of all rows, or of
    sequences (`packed`)."""

    D: int
    G: int
    dtype: DataType
    causal: bool
    packed: bool
    page: int | None
    """How many keys a page has, where they lie in pages: a power of two from 16 to 256."""
    keys: int | None
    """How many a step has, where that is not the usual number."""

    @property
    def KEYS(self) -> int:
        """The number of keys of a step."""
        return self.keys or (176 if self.D == 128 and self.page is None else 128)

    @property
    def part(self) -> int:
        """The number of keys of a page that a step has."""
        return min(self.KEYS, self.page or self.KEYS)

    @property
    def parts(self) -> int:
        """The parts of a row: 64 columns of 16 bits are 128 bytes, the swizzle."""
        return self.D // 64

    @property
    def scale(self) -> float:
        """The scale of scores, as exponents of 2."""
        return math.log2(math.e) / math.sqrt(self.D)
