"""y[b, n, m] = x[b, m, n], by square blocks in registers, and by lines through shared memory."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.isa.cuda import cuda_load, cuda_store
from exogpu.kernels.row_layout import TYPES


def make_transpose_blocks(kind: str, warps: tuple[int, int] = (4, 2), name: str = "") -> Procedure:
    """The kernel for "f32" or "bf16", of which any 16 bits may be made; rows and columns are of
    whole vectors of 16 bytes.

    A thread has a block: as many rows as a vector has elements, read as vectors and written as
    vectors into shared memory, where they are turned.  Which register an element is in costs
    nothing, but for two of 16 bits, which change places.  A CTA has `warps`, rows and columns of
    them, each of 4 x 8 threads, and reads and writes lines of 128 bytes or more.  A vector of row n
    lies one place further than one of row n - V, so that those that eight threads write or read
    at once are in different banks.
    """
    dtype = TYPES[kind]
    V = 16 // dtype.bytes
    WARPS = warps[0] * warps[1]
    ROWS, COLUMNS = V * 4 * warps[0], V * 8 * warps[1]
    DOWN = 4 * warps[0]
    """Vectors of a line of y."""
    EACH = COLUMNS * DOWN // (32 * WARPS)
    """The elements that a thread writes to y."""

    @proc(name=name or f"transpose_blocks_{kind}")
    def transpose(
        L: size,
        M: size,
        N: size,
        x: dtype[L, M, N] @ CudaGmemLinear,
        y: dtype[L, N, M] @ CudaGmemLinear,
    ):
        assert M % V == 0
        assert N % V == 0
        with CudaDeviceFunction(blockDim=32 * WARPS):
            for b in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + ROWS - 1) / ROWS):
                    for tn in cuda_tasks(0, (N + COLUMNS - 1) / COLUMNS):
                        tile: dtype[COLUMNS, DOWN, V] @ CudaSmemLinear
                        for w in cuda_threads(0, WARPS, unit=cuda_warp):
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                p = 4 * (w / warps[1]) + t / 8
                                q = 8 * (w % warps[1]) + t % 8
                                m = ROWS * tm + V * p
                                n = COLUMNS * tn + V * q
                                rows: dtype[V, V]
                                line: dtype[V]
                                if m < M and n < N:
                                    for i in seq(0, V):
                                        cuda_load(
                                            rows[i, :], x[b, m + i, n : n + V], n=V, dtype=dtype
                                        )
                                    for j in seq(0, V):
                                        for i in seq(0, V):
                                            line[i] = rows[i, j]
                                        cuda_store(
                                            tile[V * q + j, (p + q) % DOWN, :],
                                            line[:],
                                            n=V,
                                            dtype=dtype,
                                        )
                        Fence(cuda_in_order, cuda_in_order)
                        for t in cuda_threads(0, 32 * WARPS, unit=cuda_thread):
                            of: dtype[EACH, V]
                            for i in seq(0, EACH):
                                q = 32 * WARPS / DOWN * i + t / DOWN
                                m = ROWS * tm + V * (t % DOWN)
                                n = COLUMNS * tn + q
                                if m < M and n < N:
                                    cuda_load(
                                        of[i, :],
                                        tile[q, (t % DOWN + q / V) % DOWN, :],
                                        n=V,
                                        dtype=dtype,
                                    )
                                    cuda_store(y[b, n, m : m + V], of[i, :], n=V, dtype=dtype)
                        Fence(cuda_in_order, cuda_in_order)

    return transpose


KERNELS: dict[str, Procedure] = {
    f"transpose_blocks_{kind}": make_transpose_blocks(kind) for kind in TYPES
}
"""Both, by name."""


# y[b, n, m] = x[b, m, n], by tiles through shared memory, of 16 or 32 bits.

TILE = 64
"""Rows and columns of a tile."""
WARPS = 8


def make_transpose(kind: str) -> Procedure:
    """The kernel for "f32" or "bf16", of which any 16 bits may be made.

    A warp has a row of a tile at a time, in shared memory too: the lanes that read a column there
    find each element in a bank of its own, since rows are an odd number of banks apart.
    """
    dtype = TYPES[kind]
    PITCH = TILE + 4 // dtype.bytes

    @proc(name=f"transpose_{kind}")
    def transpose(
        L: size,
        M: size,
        N: size,
        x: dtype[L, M, N] @ CudaGmemLinear,
        y: dtype[L, N, M] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=32 * WARPS):
            for b in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + TILE - 1) / TILE):
                    for tn in cuda_tasks(0, (N + TILE - 1) / TILE):
                        tile: dtype[TILE, PITCH] @ CudaSmemLinear
                        for w in cuda_threads(0, WARPS, unit=cuda_warp):
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                part: dtype[TILE // WARPS, TILE // 32]
                                for i in seq(0, TILE / WARPS):  # all are on their way
                                    for j in seq(0, TILE / 32):
                                        m = TILE * tm + WARPS * i + w
                                        n = TILE * tn + 32 * j + t
                                        if m < M and n < N:
                                            part[i, j] = x[b, m, n]
                                for i in seq(0, TILE / WARPS):
                                    for j in seq(0, TILE / 32):
                                        m = TILE * tm + WARPS * i + w
                                        n = TILE * tn + 32 * j + t
                                        if m < M and n < N:
                                            tile[WARPS * i + w, 32 * j + t] = part[i, j]
                        Fence(cuda_in_order, cuda_in_order)
                        for w in cuda_threads(0, WARPS, unit=cuda_warp):
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                for i in seq(0, TILE / WARPS):
                                    for j in seq(0, TILE / 32):
                                        m = TILE * tm + 32 * j + t
                                        n = TILE * tn + WARPS * i + w
                                        if m < M and n < N:
                                            y[b, n, m] = tile[32 * j + t, WARPS * i + w]
                        Fence(cuda_in_order, cuda_in_order)

    return transpose


KERNELS |= {f"transpose_{kind}": make_transpose(kind) for kind in TYPES}
"""Both, by name."""
