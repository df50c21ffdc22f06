"""The end of a task of a GEMM for Hopper: its tile of sums leaves the registers for C."""

from __future__ import annotations

from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import f32
from exogpu.ir.types import DataType
from exogpu.isa.sm90 import Sm90_store_D, Sm90_store_D_f16


def make_epilogue(
    CM: int, CN: int, TM: int, TN: int, groups: int = 2, dtype: DataType = f32
) -> Macro:
    """Each consumer warpgroup stores its rows of the tile, from D to C."""
    MM = TM // groups

    @macro
    def epilogue(C, D, M, N, batch, tm, tn):
        with CudaWarps(name="consumer"):
            for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                    for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                        row = (CM * tm + m) * TM + MM * wg
                        column = (CN * tn + n) * TN
                        if dtype is f32:
                            Sm90_store_D(
                                M - row,
                                N - column,
                                C[batch, row : row + MM, column : column + TN],
                                D[m, n, wg, :, :],
                                M=MM,
                                N=TN,
                            )
                        else:
                            Sm90_store_D_f16(
                                M - row,
                                N - column,
                                C[batch, row : row + MM, column : column + TN],
                                D[m, n, wg, :, :],
                                M=MM,
                                N=TN,
                                dtype=dtype,
                            )

    return epilogue
