"""Instructions from sm_80 on: cp.async, ldmatrix-shaped loads, mma.sync."""

from __future__ import annotations

from exogpu.frontend.instructions import instr
from exogpu.hw.language import bf16, f16, f32
from exogpu.hw.operands import CP_ASYNC, CUDA_MEMORY, CUDA_REGISTER, aligned, by_rows
from exogpu.hw.units import cuda_thread, cuda_warp


def _copied(n, dtype):
    """Both sides are aligned to the bytes that are copied (PTX ISA, cp.async)."""
    return aligned(CP_ASYNC, n * dtype.bytes)


def _depths(dtype):
    """Columns of the tiles that mma.sync multiplies (PTX ISA, mma: m16n8k4, m16n8k8, m16n8k16)."""
    return {f32: (4, 8), f16: (16,), bf16: (16,)}.get(dtype, ())


@instr(
    unit=cuda_thread, dst=_copied, src=_copied, template="Sm80_cp_async_copy<{n}>({dst}, {src});"
)
def Sm80_cp_async_copy(
    dst: dtype[n] @ CudaSmemAtomicity16B, src: dtype[n] @ CudaGmemLinear, *, n=4, dtype=f32
):
    """A thread starts the copy of n adjacent elements, 4, 8 or 16 bytes (cp.async)."""
    assert n * dtype.bytes in (4, 8, 16)
    for i in seq(0, n):
        dst[i] = src[i]


@instr(
    unit=cuda_thread,
    dst=_copied,
    src=_copied,
    template="Sm80_cp_async_copy_zfill<{n}>({valid}, {dst}, {src});",
)
def Sm80_cp_async_copy_zfill(
    valid: index,
    dst: dtype[n] @ CudaSmemAtomicity16B,
    src: dtype[n] @ CudaGmemLinear,
    *,
    n=4,
    dtype=f32,
):
    """As Sm80_cp_async_copy; elements from `valid` on are filled with zero, not read (src-size)."""
    assert n * dtype.bytes in (4, 8, 16)
    for i in seq(0, n):
        if i < valid:
            dst[i] = src[i]
        else:
            dst[i] = 0


@instr(
    unit=cuda_warp,
    A=CUDA_REGISTER,
    src=by_rows(CUDA_MEMORY),
    template="Sm80_load_A<{M}, {K}>({A}, {src}, {src.ld});",
)
def Sm80_load_A(
    A: dtype[M, K] @ Sm80_RmemMatrixA(M, K),
    src: dtype[M, K] @ CudaSmemLinear,
    *,
    M=16,
    K=8,
    dtype=f32,
):
    """A warp loads an A tile from shared memory: tf32 of K 4 or 8, f16 or bf16 of K 16."""
    assert M == 16 and K in _depths(dtype)
    for m in seq(0, M):
        for k in seq(0, K):
            A[m, k] = src[m, k]


@instr(
    unit=cuda_warp,
    B=CUDA_REGISTER,
    src=by_rows(CUDA_MEMORY),
    template="Sm80_load_B<{N}, {K}>({B}, {src}, {src.ld});",
)
def Sm80_load_B(
    B: dtype[N, K] @ Sm80_RmemMatrixB(N, K),
    src: dtype[N, K] @ CudaSmemLinear,
    *,
    N=8,
    K=8,
    dtype=f32,
):
    """A warp loads a B tile, stored N x K, from shared memory: types and K as of Sm80_load_A."""
    assert N == 8 and K in _depths(dtype)
    for n in seq(0, N):
        for k in seq(0, K):
            B[n, k] = src[n, k]


@instr(unit=cuda_warp, D=CUDA_REGISTER, template="Sm80_zero_D({D});")
def Sm80_zero_D(D: f32[M, N] @ Sm80_RmemMatrixD(M, N), *, M=16, N=8):
    """A warp zeroes an accumulator tile."""
    assert M == 16 and N == 8
    for m in seq(0, M):
        for n in seq(0, N):
            D[m, n] = 0


@instr(
    unit=cuda_warp,
    D=CUDA_REGISTER,
    A=CUDA_REGISTER,
    B=CUDA_REGISTER,
    template="Sm80_mma_tf32({D}, {A}, {B});",
)
def Sm80_mma_tf32(
    D: f32[16, 8] @ Sm80_RmemMatrixD(16, 8),
    A: f32[16, K] @ Sm80_RmemMatrixA(16, K),
    B: f32[8, K] @ Sm80_RmemMatrixB(8, K),
    *,
    K=8,
):
    """D += A * B^T, A and B rounded to tf32, ties away from 0, K 4 or 8 (mma.sync.m16n8k8)."""
    assert K in _depths(f32)
    for m in seq(0, 16):
        for n in seq(0, 8):
            for k in seq(0, K):
                D[m, n] += A[m, k] * B[n, k]


@instr(
    unit=cuda_warp,
    D=CUDA_REGISTER,
    A=CUDA_REGISTER,
    B=CUDA_REGISTER,
    template="Sm80_mma_{dtype_name}({D}, {A}, {B});",
)
def Sm80_mma_f16(
    D: f32[16, 8] @ Sm80_RmemMatrixD(16, 8),
    A: dtype[16, 16] @ Sm80_RmemMatrixA(16, 16),
    B: dtype[8, 16] @ Sm80_RmemMatrixB(8, 16),
    *,
    dtype=f16,
):
    """D += A * B^T on f16 or bf16 tiles (mma.sync.m16n8k16)."""
    assert dtype in (f16, bf16)
    for m in seq(0, 16):
        for n in seq(0, 8):
            for k in seq(0, 16):
                D[m, n] += A[m, k] * B[n, k]


@instr(
    unit=cuda_warp,
    C=by_rows(CUDA_MEMORY),
    D=CUDA_REGISTER,
    template="Sm80_store_D({rows}, {cols}, {C}, {C.ld}, {D});",
)
def Sm80_store_D(
    rows: index,
    cols: index,
    C: f32[M, N] @ CudaDeviceVisibleLinear,
    D: f32[M, N] @ Sm80_RmemMatrixD(M, N),
    *,
    M=16,
    N=8,
):
    """A warp stores the first rows x cols elements of an accumulator tile."""
    assert M == 16 and N == 8
    for m in seq(0, M):
        for n in seq(0, N):
            if m < rows and n < cols:
                C[m, n] = D[m, n]
