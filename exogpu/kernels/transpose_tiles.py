"""y[b, n, m] = x[b, m, n], by tiles through shared memory, of 16 or 32 bits."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.kernels.rows import TYPES

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


KERNELS: dict[str, Procedure] = {f"transpose_{kind}": make_transpose(kind) for kind in TYPES}
"""Both, by name."""
