"""ldmatrix, from sm_75 on: tiles of mma.sync from shared memory, 16 bytes a lane (PTX ISA,
ldmatrix: four matrices of 8 x 8 elements of 16 bits, each lane the address of a row)."""

from __future__ import annotations

from exogpu.frontend.instructions import instr
from exogpu.hw.language import bf16, f16
from exogpu.hw.operands import CUDA_MEMORY, CUDA_REGISTER, aligned
from exogpu.hw.units import cuda_warp

_ROWS = aligned(CUDA_MEMORY, 16, stride=16)
"""Rows of eight elements begin at multiples of 16 bytes."""


@instr(
    unit=cuda_warp,
    A=CUDA_REGISTER,
    src=_ROWS,
    template="Sm80_ldmatrix_A({A}, {src}, {src.ld});",
)
def Sm80_ldmatrix_A(
    A: dtype[16, 16] @ Sm80_RmemMatrixA(16, 16), src: dtype[16, 16] @ CudaSmemLinear, *, dtype=bf16
):
    """As Sm80_load_A, by one instruction (ldmatrix.x4)."""
    assert dtype in (f16, bf16)
    for m in seq(0, 16):
        for k in seq(0, 16):
            A[m, k] = src[m, k]


@instr(
    unit=cuda_warp,
    B=CUDA_REGISTER,
    src=_ROWS,
    template="Sm80_ldmatrix_B({B}, {src}, {src.ld});",
)
def Sm80_ldmatrix_B(
    B: dtype[2, 8, 16] @ Sm80_RmemMatrixB(8, 16), src: dtype[16, 16] @ CudaSmemLinear, *, dtype=bf16
):
    """A warp loads two B tiles, stored N x K, from shared memory (ldmatrix.x4)."""
    assert dtype in (f16, bf16)
    for tile in seq(0, 2):
        for n in seq(0, 8):
            for k in seq(0, 16):
                B[tile, n, k] = src[8 * tile + n, k]


@instr(
    unit=cuda_warp,
    B=CUDA_REGISTER,
    src=_ROWS,
    template="Sm80_ldmatrix_trans_B({B}, {src}, {src.ld});",
)
def Sm80_ldmatrix_trans_B(
    B: dtype[2, 8, 16] @ Sm80_RmemMatrixB(8, 16), src: dtype[16, 16] @ CudaSmemLinear, *, dtype=bf16
):
    """As Sm80_ldmatrix_B, of tiles stored K x N (ldmatrix.x4.trans)."""
    assert dtype in (f16, bf16)
    for tile in seq(0, 2):
        for n in seq(0, 8):
            for k in seq(0, 16):
                B[tile, n, k] = src[k, 8 * tile + n]
