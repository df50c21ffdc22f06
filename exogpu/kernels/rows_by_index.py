"""y[i] = x[index[i]], and y[index[i]] = x[i], of rows: what each row of y is, is in memory."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import bf16, f16, f32, i32
from exogpu.isa.cuda import cuda_load, cuda_store

TYPES = {"f32": f32, "bf16": bf16, "f16": f16}
WARPS = 8
"""The warps of a CTA; each has a row."""
LOADS = 4
"""Vectors of 16 bytes that a thread has under way."""


def make_copy(kind: str, vectors: bool) -> Macro:
    """`copy(x, source, y, to, column, N, w)`: a warp copies its part of a row, from `column` on."""
    dtype = TYPES[kind]
    V = 16 // dtype.bytes if vectors else 1

    @macro
    def copy(x, source, y, to, column, N, w, raw):
        for t in cuda_threads(0, 32, unit=cuda_thread):
            for i in seq(0, LOADS):  # all are on their way before the first is used
                at = column + V * (32 * i + t)
                if at < N:
                    cuda_load(raw[w, t, i, :], x[source, at : at + V], n=V, dtype=dtype)
            for i in seq(0, LOADS):
                at = column + V * (32 * i + t)
                if at < N:
                    cuda_store(y[to, at : at + V], raw[w, t, i, :], n=V, dtype=dtype)

    return copy


def make_gather(kind: str, vectors: bool = True) -> Procedure:
    """The kernel for rows of a type, of whole vectors of 16 bytes or of any length: row i of y is
    row `index[i]` of x."""
    dtype, copy = TYPES[kind], make_copy(kind, vectors)
    V = 16 // dtype.bytes if vectors else 1
    SPAN = 32 * V * LOADS

    @proc(name=f"gather_rows_{kind}{'' if vectors else '_any'}")
    def gather_rows(
        M: size,
        L: size,
        N: size,
        x: dtype[L, N] @ CudaGmemLinear,
        index: i32[M] @ CudaGmemLinear,
        y: dtype[M, N] @ CudaGmemLinear,
    ):
        assert N % V == 0
        with CudaDeviceFunction(blockDim=32 * WARPS):
            for b in cuda_tasks(0, (M + WARPS - 1) / WARPS):
                for c in cuda_tasks(0, (N + SPAN - 1) / SPAN):
                    raw: dtype[WARPS, 32, LOADS, V]
                    for w in cuda_threads(0, WARPS, unit=cuda_warp):
                        if WARPS * b + w < M:
                            row = load_index(index[WARPS * b + w], 0, L)
                            copy(x, row, y, WARPS * b + w, SPAN * c, N, w, raw)

    return gather_rows


def make_scatter(kind: str, vectors: bool = True) -> Procedure:
    """The same the other way: row `index[i]` of y becomes row i of x; no two are the same row."""
    dtype, copy = TYPES[kind], make_copy(kind, vectors)
    V = 16 // dtype.bytes if vectors else 1
    SPAN = 32 * V * LOADS

    @proc(name=f"scatter_rows_{kind}{'' if vectors else '_any'}")
    def scatter_rows(
        M: size,
        L: size,
        N: size,
        x: dtype[M, N] @ CudaGmemLinear,
        index: i32[M] @ CudaGmemLinear,
        y: dtype[L, N] @ CudaGmemLinear,
    ):
        assert N % V == 0
        assert injective(index)
        with CudaDeviceFunction(blockDim=32 * WARPS):
            for b in cuda_tasks(0, (M + WARPS - 1) / WARPS):
                for c in cuda_tasks(0, (N + SPAN - 1) / SPAN):
                    raw: dtype[WARPS, 32, LOADS, V]
                    for w in cuda_threads(0, WARPS, unit=cuda_warp):
                        if WARPS * b + w < M:
                            row = load_index(index[WARPS * b + w], 0, L)
                            copy(x, WARPS * b + w, y, row, SPAN * c, N, w, raw)

    return scatter_rows


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for make in (make_gather, make_scatter)
    for kernel in (make("f32"), make("bf16"), make("f32", vectors=False))
}
"""By name."""
