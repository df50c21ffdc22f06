"""Macros of attention: what its producer warp loads, of queries, keys and values.

Keys and values lie by rows, those of a sequence from row `base` on, or in pages of P rows: then
page `table[base, i]` has keys `P * i` to `P * i + P` of the sequence.  A step is several pages, or
a part of one.  What the table says of pages without keys may be anything, and is not looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from exogpu.frontend.macros import Macro, macro
from exogpu.ir.types import DataType
from exogpu.isa.sm90 import Sm90_tma_load

# Shapes that distinguish the kernels of attention.


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
    """The number of keys of a page, where keys lie in pages: a power of two from 16 to 256."""
    keys: int | None
    """The number of keys of a step, where that is not the usual number."""

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


def make_loads(shape: Shape, RING: int) -> tuple[Macro, Macro]:
    """`load_rows`, and `load_step` into a ring of so many steps."""
    KEYS, P, part = shape.KEYS, shape.page, shape.part
    parts, dtype, packed = shape.parts, shape.dtype, shape.packed
    several = KEYS // part

    @macro
    def load_rows(tile, tensor, head, base, row, full, rows):
        for d in seq(0, parts):
            if packed:
                (
                    Sm90_tma_load(
                        tile[d, :, :],
                        tensor[base + row : base + row + rows, head, 64 * d : 64 * d + 64],
                        rows=rows,
                        cols=64,
                        box=(rows, 1, 64),
                        dtype=dtype,
                    )
                    >> full
                )
            else:
                (
                    Sm90_tma_load(
                        tile[d, :, :],
                        tensor[head, row : row + rows, 64 * d : 64 * d + 64],
                        rows=rows,
                        cols=64,
                        box=(1, rows, 64),
                        dtype=dtype,
                    )
                    >> full
                )

    @macro
    def load_part(tile, i, tensor, page, row, head, full):
        """Part i of a step: rows from `row` on of a page."""
        for d in seq(0, parts):
            (
                Sm90_tma_load(
                    tile[d, part * i : part * i + part, :],
                    tensor[page, row : row + part, head, 64 * d : 64 * d + 64],
                    rows=part,
                    cols=64,
                    box=(1, part, 1, 64),
                    dtype=dtype,
                )
                >> full
            )

    @macro
    def load_keys(tile, tensor, head, j, keys, base, table, pages, full, masked):
        """Loads the keys of step j, of so many; nothing for pages that have none.
        Scores of keys that are not there are `masked`; `forget` writes zeros for their
        values.
        """
        if P is None:
            load_rows(tile, tensor, head, base, KEYS * j, full, KEYS)
        else:
            for i in seq(0, several):
                key = KEYS * j + part * i
                if key < keys:
                    page = load_index(table[base, key / P], 0, pages)
                    load_part(tile, i, tensor, page, key % P, head, full)
                else:
                    if masked:
                        uninit(tile[:, part * i : part * i + part, :])

    @macro
    def load_step(
        j, h, keys, base, table, pages, K, V, K_map, V_map, K_full, K_empty, V_full, V_empty
    ):
        """The keys and values of one step, of head h."""
        with CudaWarps(name="producer"):
            Await(K_empty, cuda_temporal, ~RING)
            load_keys(K[j % RING, :, :, :], K_map, h, j, keys, base, table, pages, K_full, True)
            Arrive(cuda_temporal) >> K_full
            Await(V_empty, cuda_temporal, ~RING)
            load_keys(V[j % RING, :, :, :], V_map, h, j, keys, base, table, pages, V_full, False)
            Arrive(cuda_temporal) >> V_full

    return load_rows, load_step
