"""What GEMMs have in common whose two consumer warpgroups are roles of their own."""

from __future__ import annotations

from dataclasses import dataclass

from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import f32
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig
from exogpu.ir.types import DataType
from exogpu.isa.sm90 import (
    Sm90_store_D,
    Sm90_store_D_f16,
    Sm90_tma_load,
    Sm90_wgmma_f16,
    Sm90_wgmma_tf32,
)

WARPS = [
    CudaWarpConfig("producer", 1, 40, 0),
    CudaWarpConfig("unused", 3, 40, 0),
    CudaWarpConfig("consumer_0", 4, 0, 232),
    CudaWarpConfig("consumer_1", 4, 0, 232),
]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Macros of one instruction each, of the right type."""

    load: Macro
    multiply: Macro
    store: Macro


def pieces(TM: int, TN: int, dtype: DataType) -> Pieces:
    """For consumers that have TM x TN of the result each; a step has 128 bytes a row."""
    TK = 128 // dtype.bytes

    @macro
    def multiply(sums, left, right):
        if dtype is f32:
            Sm90_wgmma_tf32(sums, left, right, M=TM, N=TN)
        else:
            Sm90_wgmma_f16(sums, left, right, M=TM, N=TN, dtype=dtype)

    @macro
    def store(rows, cols, tile, sums):
        if dtype is f32:
            Sm90_store_D(rows, cols, tile, sums, M=TM, N=TN)
        else:
            Sm90_store_D_f16(rows, cols, tile, sums, M=TM, N=TN, dtype=dtype)

    @macro
    def load(tile, tensor, batch, row, k, full, rows):
        (
            Sm90_tma_load(
                tile,
                tensor[batch, row : row + rows, TK * k : TK * k + TK],
                rows=rows,
                cols=TK,
                box=(1, rows, TK),
                dtype=dtype,
            )
            >> full
        )

    return Pieces(load, multiply, store)
