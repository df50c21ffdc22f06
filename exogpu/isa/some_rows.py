"""Stores of the first rows of an accumulator, and of no more: the window ends where they do.

`Sm90_store_D` takes a window of M rows, which may reach beyond the array; rows that are in it and
are not stored must not be another task's.
"""

from __future__ import annotations

from exogpu.hw.language import bf16, f16
from exogpu.isa.sm90 import sm90_store


@sm90_store(template="Sm90_store_D<{M}, {N}>({rows}, {cols}, {C}, {C.ld}, {D});")
def Sm90_store_rows(
    rows: size,
    cols: index,
    C: f32[rows, N] @ CudaGmemLinear,
    D: f32[M, N] @ Sm90_RmemMatrixD(M, N),
    *,
    M=64,
    N=256,
):
    """As Sm90_store_D, into a window of those rows."""
    assert rows <= M
    assert M % 64 == 0 and M > 0 and N % 8 == 0 and N > 0
    for m in seq(0, rows):
        for n in seq(0, N):
            if n < cols:
                C[m, n] = D[m, n]


@sm90_store(template="Sm90_store_D_{dtype_name}<{M}, {N}>({rows}, {cols}, {C}, {C.ld}, {D});")
def Sm90_store_rows_f16(
    rows: size,
    cols: index,
    C: dtype[rows, N] @ CudaGmemLinear,
    D: f32[M, N] @ Sm90_RmemMatrixD(M, N),
    *,
    M=64,
    N=256,
    dtype=f16,
):
    """As Sm90_store_rows, rounded to f16 or bf16."""
    assert rows <= M
    assert dtype in (f16, bf16)
    assert M % 64 == 0 and M > 0 and N % 8 == 0 and N > 0
    for m in seq(0, rows):
        for n in seq(0, N):
            if n < cols:
                C[m, n] = D[m, n]
