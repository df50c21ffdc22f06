"""wgmma with B stored as K x N, its rows the rows of shared memory: 16-bit types (PTX ISA, wgmma:
imm-trans-b, and the canonical layouts called MN-major)."""

from __future__ import annotations

from exogpu.hw.language import bf16, f16
from exogpu.hw.operands import WGMMA_A, WGMMA_D, WGMMA_SMEM, aligned
from exogpu.hw.units import cuda_warpgroup
from exogpu.isa.sm90 import sm90_instr, wgmma_operand


def _columns(swizzle):
    """Rows of one swizzle, next to each other, of which eight are one repeat of it: they begin
    where a repeat does, and so does each further block of columns."""
    return aligned(WGMMA_SMEM, 8 * swizzle, pitch=swizzle, blocks=8 * swizzle)


@sm90_instr(
    unit=cuda_warpgroup,
    D=WGMMA_D,
    A=wgmma_operand,
    B=_columns,
    template="Sm90_wgmma_mn_{dtype_name}_n{N}<{M}, {swizzle}>({D}, {D.scale}, {A}, {B}, "
    "{B.strides[0]});",
)
def Sm90_wgmma_mn_f16(
    D: f32[M, N] @ Sm90_RmemMatrixD(M, N),
    A: dtype[M, 16] @ Sm90_SmemSwizzled(swizzle),
    B: dtype[2 * N / swizzle, 16, swizzle / 2] @ Sm90_SmemSwizzled(swizzle),
    *,
    M=64,
    N=256,
    swizzle=128,
    dtype=f16,
):
    """As Sm90_wgmma_f16 with B by columns: D += A * B, B in blocks of 16 x 64 (imm-trans-b)."""
    assert dtype in (f16, bf16)
    assert M % 64 == 0 and M > 0
    assert 2 * N % swizzle == 0 and 8 <= N <= 256
    for m in seq(0, M):
        for block in seq(0, 2 * N / swizzle):
            for n in seq(0, swizzle / 2):
                for k in seq(0, 16):
                    D[m, swizzle / 2 * block + n] += A[m, k] * B[block, k, n]


@sm90_instr(
    unit=cuda_warpgroup,
    D=WGMMA_D,
    A=WGMMA_A,
    B=_columns,
    template="Sm90_wgmma_rs_mn_{dtype_name}_n{N}<{swizzle}>({D}, {D.scale}, {A}, {B}, "
    "{B.strides[0]});",
)
def Sm90_wgmma_rs_mn_f16(
    D: f32[64, N] @ Sm90_RmemMatrixD(64, N),
    A: dtype[64, 16] @ Sm90_RmemMatrixA(64),
    B: dtype[2 * N / swizzle, 16, swizzle / 2] @ Sm90_SmemSwizzled(swizzle),
    *,
    N=256,
    swizzle=128,
    dtype=f16,
):
    """As Sm90_wgmma_mn_f16, with A in registers."""
    assert dtype in (f16, bf16)
    assert 2 * N % swizzle == 0 and 8 <= N <= 256
    for m in seq(0, 64):
        for block in seq(0, 2 * N / swizzle):
            for n in seq(0, swizzle / 2):
                for k in seq(0, 16):
                    D[m, swizzle / 2 * block + n] += A[m, k] * B[block, k, n]
