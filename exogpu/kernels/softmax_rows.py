"""y[m, n] = exp(x[m, n]) / sum over k of exp(x[m, k]), relative to the row's greatest element."""

from __future__ import annotations

import math

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.datatypes import f32
from exogpu.kernels.rows import LOWEST, SHIPPED, Shape, added, larger, macros

LOG2E = math.log2(math.e)


def make_softmax(shape: Shape) -> Procedure:
    """The kernel of a shape; a row that is looped over is read twice."""
    use, dtype = macros(shape), shape.type
    of_row, load, store, reduce = use.of_row, use.load, use.store, use.reduce
    V, LOADS, SPAN, ACROSS, ROWS = shape.vector, shape.loads, shape.span, shape.across, shape.rows
    WARPS, MOST = ROWS * shape.warps, shape.most

    @macro
    def largest(v, top, _, row, at, N, w, t):
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(0, V):
                    top[w, t] = max(top[w, t], v[w, t, i, j])

    @macro
    def exponentials(v, top, total, row, at, N, w, t):
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(0, V):
                    v[w, t, i, j] = exp2((v[w, t, i, j] - top[w, t]) * LOG2E)
                    total[w, t] += v[w, t, i, j]

    @macro
    def rescaled(total, before, top, row, at, N, w, t):
        total[w, t] = total[w, t] * exp2((before[w, t] - top[w, t]) * LOG2E)

    @macro
    def scaled(v, total, _, row, at, N, w, t):
        inverse: f32
        inverse = 1.0 / total[w, t]
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(0, V):
                    v[w, t, i, j] = v[w, t, i, j] * inverse

    @macro
    def of_task(shared, x, y, task, M, N):
        raw: dtype[WARPS, 32, LOADS, V]
        v: f32[WARPS, 32, LOADS, V]
        top: f32[WARPS, 32]
        before: f32[WARPS, 32]
        total: f32[WARPS, 32]
        other: f32[WARPS, 32]
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                top[w, t] = LOWEST
                total[w, t] = 0.0
        if shape.looped:
            for k in seq(0, (N + SPAN - 1) / SPAN):
                of_row(load, raw, v, x, task, k, M, N)
                for w in cuda_threads(0, WARPS, unit=cuda_warp):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        before[w, t] = top[w, t]
                of_row(largest, v, top, top, task, k, M, N)
                of_row(rescaled, total, before, top, task, k, M, N)
                of_row(exponentials, v, top, total, task, k, M, N)
            for w in cuda_threads(0, WARPS, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    before[w, t] = top[w, t]
            reduce(larger, top, other, shared, 0)
            of_row(rescaled, total, before, top, task, 0, M, N)
            reduce(added, total, other, shared, 1)
            for k in seq(0, (N + SPAN - 1) / SPAN):
                of_row(load, raw, v, x, task, k, M, N)
                of_row(exponentials, v, top, other, task, k, M, N)
                of_row(scaled, v, total, total, task, k, M, N)
                of_row(store, raw, v, y, task, k, M, N)
        else:
            of_row(load, raw, v, x, task, 0, M, N)
            of_row(largest, v, top, top, task, 0, M, N)
            reduce(larger, top, other, shared, 0)
            of_row(exponentials, v, top, total, task, 0, M, N)
            reduce(added, total, other, shared, 1)
            of_row(scaled, v, total, total, task, 0, M, N)
            of_row(store, raw, v, y, task, 0, M, N)

    @proc(name=f"softmax_{shape}")
    def softmax(M: size, N: size, x: dtype[M, N] @ CudaGmemLinear, y: dtype[M, N] @ CudaGmemLinear):
        assert N % V == 0
        assert N <= MOST
        if ROWS == 1:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                shared: f32[2, WARPS] @ CudaSmemLinear
                for task in cuda_tasks(0, M):
                    of_task(shared, x, y, task, M, N)
        else:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                for task in cuda_tasks(0, (M + ROWS - 1) / ROWS):
                    of_task(None, x, y, task, M, N)

    return softmax


KERNELS: dict[str, Procedure] = {f"softmax_{shape}": make_softmax(shape) for shape in SHIPPED}
"""Some, by name."""
