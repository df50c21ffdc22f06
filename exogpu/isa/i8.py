"""Products of 8-bit integers, with sums of 32 bits that wrap: wgmma with both operands K-major in
shared memory, and mma.sync of tiles that loops over their fragments fill."""

from __future__ import annotations

from exogpu.frontend.instructions import instr
from exogpu.hw.language import i8, ui8
from exogpu.hw.operands import CUDA_REGISTER, WGMMA_ZERO
from exogpu.hw.units import cuda_warp, cuda_warpgroup
from exogpu.isa.sm90 import sm90_instr, sm90_wgmma, wgmma_operand


@sm90_instr(unit=cuda_warpgroup, D=WGMMA_ZERO, template="{D.scale} = 0;")
def Sm90_zero_scale_i32(D: i32[M, N] @ Sm90_RmemMatrixD(M, N), *, M=64, N=256):
    """As Sm90_zero_scale_d, of an accumulator of integers."""
    for m in seq(0, M):
        for n in seq(0, N):
            D[m, n] = 0


@sm90_wgmma(
    A=wgmma_operand,
    template="Sm90_wgmma_{dtype_name}_n{N}<{M}, {swizzle}>({D}, {D.scale}, {A}, {B});",
)
def Sm90_wgmma_i8(
    D: i32[M, N] @ Sm90_RmemMatrixD(M, N),
    A: dtype[M, 32] @ Sm90_SmemSwizzled(swizzle),
    B: dtype[N, 32] @ Sm90_SmemSwizzled(swizzle),
    *,
    M=64,
    N=256,
    swizzle=128,
    dtype=i8,
):
    """D += A * B^T on i8 or ui8 tiles in shared memory, N 8, 24 or a multiple of 16
    (wgmma.mma_async.m64nNk32)."""
    assert dtype in (i8, ui8)
    assert M % 64 == 0 and M > 0
    assert N in (8, 24) or (N % 16 == 0 and 16 <= N <= 256)
    for m in seq(0, M):
        for n in seq(0, N):
            for k in seq(0, 32):
                D[m, n] += A[m, k] * B[n, k]


@instr(
    unit=cuda_warp,
    D=CUDA_REGISTER,
    A=CUDA_REGISTER,
    B=CUDA_REGISTER,
    template="Sm80_mma_{dtype_name}({D}, {A}, {B});",
)
def Sm80_mma_i8(
    D: i32[16, 8] @ Sm80_RmemMatrixD(16, 8),
    A: dtype[16, K] @ Sm80_RmemMatrixA(16, K),
    B: dtype[8, K] @ Sm80_RmemMatrixB(8, K),
    *,
    K=32,
    dtype=i8,
):
    """D += A * B^T on i8 or ui8 tiles, K 16 or 32 (mma.sync.m16n8k32)."""
    assert dtype in (i8, ui8)
    assert K in (16, 32)
    for m in seq(0, 16):
        for n in seq(0, 8):
            for k in seq(0, K):
                D[m, n] += A[m, k] * B[n, k]
