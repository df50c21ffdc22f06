"""y[m, n] = exp(x[m, n]) / sum over k of exp(x[m, k]), relative to the row's greatest element."""

from __future__ import annotations

import math

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.datatypes import f32
from exogpu.isa.cuda import cuda_store
from exogpu.kernels.rows import LOWEST, SHIPPED, Shape, added, larger, macros

LOG2E = math.log2(math.e)


def make_softmax(shape: Shape) -> Procedure:
    """The kernel of a shape; a row that is looped over is read twice."""
    use, dtype = macros(shape), shape.type
    fetch, each, reduce = use.fetch, use.each, use.reduce
    V, LOADS, SPAN, ROWS, WARPS = shape.vector, shape.loads, shape.span, shape.rows, shape.all
    MOST = shape.most

    @macro
    def largest(v, top, _, __, ___, ____, row, n, w, t):
        for j in seq(0, V):
            top[w, t] = max(top[w, t], v[j])

    @macro
    def summed(v, top, total, _, __, ___, row, n, w, t):
        for j in seq(0, V):
            total[w, t] += exp2((v[j] - top[w, t]) * LOG2E)

    @macro
    def scaled(v, top, inverse, y, _, __, row, n, w, t):
        for j in seq(0, V):
            v[j] = exp2((v[j] - top[w, t]) * LOG2E) * inverse[w, t]
        cuda_store(y[row, n : n + V], v[:], n=V, dtype=dtype)

    @macro
    def rescaled(total, before, top):
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                total[w, t] = total[w, t] * exp2((before[w, t] - top[w, t]) * LOG2E)
                before[w, t] = top[w, t]

    @macro
    def of_task(part, shared, x, y, task, M, N):
        top: f32[WARPS, 32]
        before: f32[WARPS, 32]
        total: f32[WARPS, 32]
        other: f32[WARPS, 32]
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                top[w, t] = LOWEST
                before[w, t] = LOWEST
                total[w, t] = 0.0
        if shape.looped:
            for k in seq(0, (N + SPAN - 1) / SPAN):
                fetch(part, x, task, k, M, N)
                each(largest, part, top, None, None, None, None, task, k, M, N)
                rescaled(total, before, top)
                each(summed, part, top, total, None, None, None, task, k, M, N)
            reduce(larger, top, other, shared, 0)
            rescaled(total, before, top)
        else:
            fetch(part, x, task, 0, M, N)
            each(largest, part, top, None, None, None, None, task, 0, M, N)
            reduce(larger, top, other, shared, 0)
            each(summed, part, top, total, None, None, None, task, 0, M, N)
        reduce(added, total, other, shared, 1)
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                total[w, t] = 1.0 / total[w, t]
        if shape.looped:
            for k in seq(0, (N + SPAN - 1) / SPAN):
                fetch(part, x, task, k, M, N)
                each(scaled, part, top, total, y, None, None, task, k, M, N)
        else:
            each(scaled, part, top, total, y, None, None, task, 0, M, N)

    @proc(name=f"softmax_{shape}")
    def softmax(M: size, N: size, x: dtype[M, N] @ CudaGmemLinear, y: dtype[M, N] @ CudaGmemLinear):
        assert N % V == 0
        assert N <= MOST
        if shape.staged:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                shared: f32[2, WARPS] @ CudaSmemLinear
                part: dtype[LOADS, WARPS, 32, V] @ CudaSmemLinear
                for task in cuda_tasks(0, M):
                    of_task(part, shared, x, y, task, M, N)
        elif ROWS == 1:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                shared: f32[2, WARPS] @ CudaSmemLinear
                for task in cuda_tasks(0, M):
                    part: dtype[WARPS, 32, LOADS, V]
                    of_task(part, shared, x, y, task, M, N)
        else:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                for task in cuda_tasks(0, (M + ROWS - 1) / ROWS):
                    part: dtype[WARPS, 32, LOADS, V]
                    of_task(part, None, x, y, task, M, N)

    return softmax


KERNELS: dict[str, Procedure] = {f"softmax_{shape}": make_softmax(shape) for shape in SHIPPED}
"""Some, by name."""
