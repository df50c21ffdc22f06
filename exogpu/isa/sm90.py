"""Instructions of sm_90a: wgmma, and the tensor memory accelerator (TMA)."""

from __future__ import annotations

from functools import partial

from exogpu.diagnostics.errors import UnfitError
from exogpu.frontend.instructions import instr
from exogpu.hw.language import bf16, f16, f32, f64, i32, ui64
from exogpu.hw.memories import (
    CudaMbarrier,
    CudaSmemLinear,
    Sm90_SmemSwizzled,
    Sm90_tensorMap,
    Sm90_tensorMap_tf32,
)
from exogpu.hw.operands import (
    CUDA_MEMORY,
    CUDA_REGISTER,
    TMA_LOAD,
    TMA_REDUCE,
    TMA_SOURCE,
    TMA_STORE,
    WGMMA_A,
    WGMMA_D,
    WGMMA_SMEM,
    WGMMA_ZERO,
    aligned,
    by_rows,
    clipped,
    over,
)
from exogpu.hw.units import (
    cuda_warp,
    cuda_warp_in_cluster,
    cuda_warp_in_cluster_strided,
    cuda_warpgroup,
)

sm90_instr = partial(instr, arch="sm_90a")
sm90_store = partial(sm90_instr, unit=cuda_warpgroup, C=by_rows(CUDA_MEMORY), D=CUDA_REGISTER)
"""A warpgroup stores an accumulator."""

BOX = 128
"""Where a box begins in shared memory, a multiple of bytes (PTX ISA, cp.async.bulk.tensor)."""


def _box(operand, swizzle):
    """A box lies without gaps, in rows of one swizzle, if there is one."""
    return aligned(operand, BOX, pitch=swizzle, adjacent=2)


def _staged(swizzle):
    """Shared memory in the layout that a tensor map of this swizzle copies from."""
    return Sm90_SmemSwizzled(swizzle) if swizzle else CudaSmemLinear


def _mapped(swizzle, box, of=Sm90_tensorMap):
    """The tensor map of a global operand."""
    if not isinstance(box, tuple | list):
        raise UnfitError(
            f"box={box!r} is no box", "give an extent for each dimension, such as box=(8, 32)"
        )
    return of(swizzle, *box)


def wgmma_operand(swizzle):
    """A wgmma descriptor counts in 16 bytes, and takes eight rows, which lie next to each other,
    for one repeat of the swizzle (PTX ISA, wgmma, matrix descriptor, base offset 0)."""
    return aligned(WGMMA_SMEM, 16, rows=8 * swizzle, pitch=swizzle)


sm90_wgmma = partial(sm90_instr, unit=cuda_warpgroup, D=WGMMA_D, B=wgmma_operand)


SUMMED = (f16, bf16, f32, f64, i32, ui64)
"""Types that TMA adds up (PTX ISA, cp.reduce.async.bulk)."""


@sm90_instr(unit=cuda_warpgroup, D=WGMMA_ZERO, template="{D.scale} = 0;")
def Sm90_zero_scale_d(D: f32[M, N] @ Sm90_RmemMatrixD(M, N), *, M=64, N=256):
    """The next wgmma overwrites the accumulator instead of adding to it (scale-d = 0)."""
    for m in seq(0, M):
        for n in seq(0, N):
            D[m, n] = 0


@sm90_wgmma(
    A=wgmma_operand,
    template="Sm90_wgmma_tf32_n{N}<{M}, {swizzle}>({D}, {D.scale}, {A}, {B});",
)
def Sm90_wgmma_tf32(
    D: f32[M, N] @ Sm90_RmemMatrixD(M, N),
    A: f32[M, 8] @ Sm90_SmemSwizzled(swizzle),
    B: f32[N, 8] @ Sm90_SmemSwizzled(swizzle),
    *,
    M=64,
    N=256,
    swizzle=128,
):
    """D += A * B^T on tf32 tiles in shared memory (wgmma.mma_async.m64nNk8, M/64 times)."""
    assert M % 64 == 0 and M > 0
    assert N % 8 == 0 and 8 <= N <= 256
    for m in seq(0, M):
        for n in seq(0, N):
            for k in seq(0, 8):
                D[m, n] += A[m, k] * B[n, k]


@sm90_wgmma(
    A=wgmma_operand,
    template="Sm90_wgmma_{dtype_name}_n{N}<{M}, {swizzle}>({D}, {D.scale}, {A}, {B});",
)
def Sm90_wgmma_f16(
    D: f32[M, N] @ Sm90_RmemMatrixD(M, N),
    A: dtype[M, 16] @ Sm90_SmemSwizzled(swizzle),
    B: dtype[N, 16] @ Sm90_SmemSwizzled(swizzle),
    *,
    M=64,
    N=256,
    swizzle=128,
    dtype=f16,
):
    """D += A * B^T on f16 or bf16 tiles in shared memory (wgmma.mma_async.m64nNk16)."""
    assert dtype in (f16, bf16)
    assert M % 64 == 0 and M > 0
    assert N % 8 == 0 and 8 <= N <= 256
    for m in seq(0, M):
        for n in seq(0, N):
            for k in seq(0, 16):
                D[m, n] += A[m, k] * B[n, k]


@sm90_wgmma(
    A=WGMMA_A,
    template="Sm90_wgmma_rs_tf32_n{N}<{swizzle}>({D}, {D.scale}, {A}, {B});",
)
def Sm90_wgmma_rs_tf32(
    D: f32[64, N] @ Sm90_RmemMatrixD(64, N),
    A: f32[64, 8] @ Sm90_RmemMatrixA(64),
    B: f32[N, 8] @ Sm90_SmemSwizzled(swizzle),
    *,
    N=256,
    swizzle=128,
):
    """As Sm90_wgmma_tf32, with A in registers."""
    assert N % 8 == 0 and 8 <= N <= 256
    for m in seq(0, 64):
        for n in seq(0, N):
            for k in seq(0, 8):
                D[m, n] += A[m, k] * B[n, k]


@sm90_wgmma(
    A=WGMMA_A,
    template="Sm90_wgmma_rs_{dtype_name}_n{N}<{swizzle}>({D}, {D.scale}, {A}, {B});",
)
def Sm90_wgmma_rs_f16(
    D: f32[64, N] @ Sm90_RmemMatrixD(64, N),
    A: dtype[64, 16] @ Sm90_RmemMatrixA(64),
    B: dtype[N, 16] @ Sm90_SmemSwizzled(swizzle),
    *,
    N=256,
    swizzle=128,
    dtype=f16,
):
    """As Sm90_wgmma_f16, with A in registers."""
    assert dtype in (f16, bf16)
    assert N % 8 == 0 and 8 <= N <= 256
    for m in seq(0, 64):
        for n in seq(0, N):
            for k in seq(0, 16):
                D[m, n] += A[m, k] * B[n, k]


@sm90_instr(
    unit=cuda_warpgroup,
    A=CUDA_REGISTER,
    src=by_rows(CUDA_MEMORY),
    template="Sm90_load_A<{K}>({A}, {src}, {src.ld});",
)
def Sm90_load_A(
    A: dtype[64, K] @ Sm90_RmemMatrixA(64),
    src: dtype[64, K] @ CudaSmemLinear,
    *,
    K=8,
    dtype=f32,
):
    """A warpgroup loads a wgmma A tile from shared memory into registers."""
    assert dtype in (f32, f16, bf16) and K > 0 and K * dtype.bytes % 32 == 0
    for m in seq(0, 64):
        for k in seq(0, K):
            A[m, k] = src[m, k]


@sm90_store(template="Sm90_store_D<{M}, {N}>({rows}, {cols}, {C}, {C.ld}, {D});")
def Sm90_store_D(
    rows: index,
    cols: index,
    C: f32[M, N] @ CudaGmemLinear,
    D: f32[M, N] @ Sm90_RmemMatrixD(M, N),
    *,
    M=64,
    N=256,
):
    """A warpgroup stores the first rows x cols elements of an accumulator."""
    assert M % 64 == 0 and M > 0 and N % 8 == 0 and N > 0
    for m in seq(0, M):
        for n in seq(0, N):
            if m < rows and n < cols:
                C[m, n] = D[m, n]


@sm90_store(template="Sm90_store_D_{dtype_name}<{M}, {N}>({rows}, {cols}, {C}, {C.ld}, {D});")
def Sm90_store_D_f16(
    rows: index,
    cols: index,
    C: dtype[M, N] @ CudaGmemLinear,
    D: f32[M, N] @ Sm90_RmemMatrixD(M, N),
    *,
    M=64,
    N=256,
    dtype=f16,
):
    """As Sm90_store_D, rounded to f16 or bf16."""
    assert dtype in (f16, bf16)
    assert M % 64 == 0 and M > 0 and N % 8 == 0 and N > 0
    for m in seq(0, M):
        for n in seq(0, N):
            if m < rows and n < cols:
                C[m, n] = D[m, n]


@sm90_instr(
    unit=cuda_warpgroup,
    C=aligned(CUDA_MEMORY, 16, stride=16),
    D=CUDA_REGISTER,
    template="Sm90_stage_D<{M}, {N}>({C}, {C.ld}, {D});",
)
def Sm90_stage_D(
    C: f32[M, N] @ CudaSmemLinear,
    D: f32[M, N] @ Sm90_RmemMatrixD(M, N),
    *,
    M=64,
    N=256,
):
    """A warpgroup stores an accumulator into shared memory, for TMA to take from there."""
    assert M % 64 == 0 and M > 0 and N % 16 == 0 and N > 0
    for m in seq(0, M):
        for n in seq(0, N):
            C[m, n] = D[m, n]


def _tile(swizzle):
    """The rows that a warpgroup stages: of one swizzle, eight to a repeat of it; without a swizzle
    of 16 bytes or more, anywhere."""
    if swizzle:
        return aligned(CUDA_MEMORY, 8 * swizzle, pitch=swizzle, adjacent=2)
    return aligned(CUDA_MEMORY, 16, stride=16)


@sm90_instr(
    unit=cuda_warpgroup,
    C=_tile,
    D=CUDA_REGISTER,
    template="Sm90_stage_{dtype_name}<{M}, {N}, {cols}, {swizzle}>({C}, {C.ld}, {D}, {at});",
)
def Sm90_stage_tile(
    at: index,
    C: dtype[M, cols] @ _staged(swizzle),
    D: f32[M, N] @ Sm90_RmemMatrixD(M, N),
    *,
    M=64,
    N=256,
    cols=32,
    swizzle=128,
    dtype=f32,
):
    """A warpgroup stores columns `at` to `at + cols` of an accumulator, rounded to the type, into
    shared memory as TMA takes it (of 16 bits: stmatrix)."""
    assert dtype in (f32, f16, bf16)
    assert M % 64 == 0 and M > 0 and N % 8 == 0 and N > 0
    assert 0 < cols <= N and cols * dtype.bytes % 32 == 0
    assert swizzle in (0, cols * dtype.bytes)
    assert at % 8 == 0 and at >= 0 and at + cols <= N
    for m in seq(0, M):
        for n in seq(0, cols):
            C[m, n] = D[m, at + n]


sm90_load = partial(
    sm90_instr,
    unit=cuda_warp,
    barrier=CudaMbarrier,
    dst=lambda swizzle: _box(TMA_LOAD, swizzle),
    src=clipped(TMA_LOAD),
    template="Sm90_tma_load<1, {once}>({transfer.shared}, {transfer.tensor}, {barrier}, "
    "{transfer.ctas}, {transfer.coordinates});",
)
"""One lane starts the copy of a tile into shared memory; `once`: nothing else in the launch loads
it, and it is the first to leave the L2 cache."""


@sm90_load()
def Sm90_tma_load(
    dst: dtype[rows, cols] @ _staged(swizzle),
    src: dtype[rows, cols] @ _mapped(swizzle, box),
    *,
    rows,
    cols,
    box,
    swizzle=128,
    dtype=f32,
    once=False,
):
    """One lane starts the copy of a tile into shared memory (cp.async.bulk.tensor, mbarrier)."""
    assert once in (False, True)
    assert 2 <= len(box) <= 5
    for i in seq(0, rows):
        for j in seq(0, cols):
            dst[i, j] = src[i, j]


@sm90_load()
def Sm90_tma_load_tf32(
    dst: f32[rows, cols] @ _staged(swizzle),
    src: f32[rows, cols] @ _mapped(swizzle, box, Sm90_tensorMap_tf32),
    *,
    rows,
    cols,
    box,
    swizzle=128,
    once=False,
):
    """As Sm90_tma_load, rounded to tf32, which wgmma otherwise cuts the numbers to."""
    assert once in (False, True)
    assert 2 <= len(box) <= 5
    for i in seq(0, rows):
        for j in seq(0, cols):
            dst[i, j] = tf32(src[i, j])


def _ctas(n, stride):
    """One warp in each of n CTAs, `stride` apart."""
    return n * (cuda_warp_in_cluster if stride == 1 else cuda_warp_in_cluster_strided(stride))


sm90_multicast = partial(
    sm90_instr,
    unit=_ctas,
    barrier=CudaMbarrier,
    barrier_units=lambda stride: (_ctas(1, stride),),
    dst=lambda stride, swizzle: over(_box(TMA_LOAD, swizzle), _ctas(1, stride)),
    src=clipped(TMA_LOAD),
    template="Sm90_tma_load<{n}, {once}>({transfer.shared}, {transfer.tensor}, {barrier}, "
    "{transfer.ctas}, {transfer.coordinates});",
)
"""One lane in each of n CTAs copies a slice of the tile to all n; `once` as above."""


@sm90_multicast()
def Sm90_tma_multicast(
    dst: dtype[n, rows, cols] @ _staged(swizzle),
    src: dtype[rows, cols] @ _mapped(swizzle, box),
    *,
    n,
    stride=1,
    rows,
    cols,
    box,
    swizzle=128,
    dtype=f32,
    once=False,
):
    """One lane in each of n CTAs copies a slice of the tile to all n (.multicast::cluster)."""
    assert once in (False, True)
    assert 2 <= len(box) <= 5
    assert n == 1 or (box[-1] == cols and rows * cols * dtype.bytes // n % BOX == 0)
    for i in seq(0, rows):
        for j in seq(0, cols):
            for cta in seq(0, n):
                dst[cta, i, j] = src[i, j]


@sm90_multicast()
def Sm90_tma_multicast_tf32(
    dst: f32[n, rows, cols] @ _staged(swizzle),
    src: f32[rows, cols] @ _mapped(swizzle, box, Sm90_tensorMap_tf32),
    *,
    n,
    stride=1,
    rows,
    cols,
    box,
    swizzle=128,
    once=False,
):
    """As Sm90_tma_multicast, rounded to tf32."""
    assert once in (False, True)
    assert 2 <= len(box) <= 5
    assert n == 1 or (box[-1] == cols and rows * cols * 4 // n % BOX == 0)
    for i in seq(0, rows):
        for j in seq(0, cols):
            for cta in seq(0, n):
                dst[cta, i, j] = tf32(src[i, j])


@sm90_instr(
    unit=cuda_warp,
    dst=clipped(TMA_STORE),
    src=lambda swizzle: _box(TMA_SOURCE, swizzle),
    template="Sm90_tma_store({transfer.shared}, {transfer.tensor}, {transfer.coordinates});",
)
def Sm90_tma_store(
    dst: dtype[rows, cols] @ _mapped(swizzle, box),
    src: dtype[rows, cols] @ _staged(swizzle),
    *,
    rows,
    cols,
    box,
    swizzle=0,
    dtype=f32,
):
    """One lane starts the copy of a tile from shared to global memory (cp.async.bulk.tensor)."""
    assert 2 <= len(box) <= 5
    for i in seq(0, rows):
        for j in seq(0, cols):
            dst[i, j] = src[i, j]


@sm90_instr(
    unit=cuda_warp,
    dst=clipped(TMA_REDUCE),
    src=lambda swizzle: _box(TMA_SOURCE, swizzle),
    template="Sm90_tma_reduce({transfer.shared}, {transfer.tensor}, {transfer.coordinates});",
)
def Sm90_tma_reduce(
    dst: dtype[rows, cols] @ _mapped(swizzle, box),
    src: dtype[rows, cols] @ _staged(swizzle),
    *,
    rows,
    cols,
    box,
    swizzle=0,
    dtype=f32,
):
    """One lane starts adding a tile into global memory, atomically (cp.reduce.async.bulk)."""
    assert 2 <= len(box) <= 5
    assert dtype in SUMMED
    for i in seq(0, rows):
        for j in seq(0, cols):
            dst[i, j] += src[i, j]
