"""Instructions on the rows of an accumulator: over a whole tile, the result in all lanes that hold
elements of the row."""

from __future__ import annotations

from exogpu.hw.operands import CUDA_REGISTER
from exogpu.hw.units import cuda_warpgroup
from exogpu.isa.sm90 import sm90_instr


@sm90_instr(
    unit=cuda_warpgroup,
    rows=CUDA_REGISTER,
    D=CUDA_REGISTER,
    template="Sm90_row_max<{M}, {N}>({rows}, {D});",
)
def Sm90_row_max(
    rows: f32[M, 4] @ Sm90_RmemRows(M), D: f32[M, N] @ Sm90_RmemMatrixD(M, N), *, M=64, N=256
):
    """The greatest element of each row, by a tree of max and two shuffles; NaN if one is."""
    assert M % 64 == 0 and M > 0 and N % 8 == 0 and N > 0
    for m in seq(0, M):
        for copy in seq(0, 4):
            rows[m, copy] = D[m, 0]
            for n in seq(0, N):
                rows[m, copy] = max(rows[m, copy], D[m, n])


@sm90_instr(
    unit=cuda_warpgroup,
    rows=CUDA_REGISTER,
    D=CUDA_REGISTER,
    template="Sm90_row_sum<{M}, {N}>({rows}, {D});",
)
def Sm90_row_sum(
    rows: f32[M, 4] @ Sm90_RmemRows(M), D: f32[M, N] @ Sm90_RmemMatrixD(M, N), *, M=64, N=256
):
    """The sum of each row, in some order that is the same for all four copies: pairs of columns
    from left to right, then two shuffles."""
    assert M % 64 == 0 and M > 0 and N % 8 == 0 and N > 0
    for m in seq(0, M):
        for copy in seq(0, 4):
            rows[m, copy] = 0
            for n in seq(0, N):
                rows[m, copy] += D[m, n]
