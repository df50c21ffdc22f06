"""wgmma on 8-bit floating point: both operands K-major in shared memory."""

from __future__ import annotations

from exogpu.hw.language import f8e4m3, f8e5m2
from exogpu.isa.sm90 import sm90_wgmma, wgmma_operand


@sm90_wgmma(
    A=wgmma_operand,
    template="Sm90_wgmma_{dtype_name}_n{N}<{M}, {swizzle}>({D}, {D.scale}, {A}, {B});",
)
def Sm90_wgmma_f8(
    D: f32[M, N] @ Sm90_RmemMatrixD(M, N),
    A: dtype[M, 32] @ Sm90_SmemSwizzled(swizzle),
    B: dtype[N, 32] @ Sm90_SmemSwizzled(swizzle),
    *,
    M=64,
    N=256,
    swizzle=128,
    dtype=f8e4m3,
):
    """D += A * B^T on e4m3 or e5m2 tiles in shared memory (wgmma.mma_async.m64nNk32)."""
    assert dtype in (f8e4m3, f8e5m2)
    assert M % 64 == 0 and M > 0
    assert N % 8 == 0 and 8 <= N <= 256
    for m in seq(0, M):
        for n in seq(0, N):
            for k in seq(0, 32):
                D[m, n] += A[m, k] * B[n, k]
