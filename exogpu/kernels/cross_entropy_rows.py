"""loss[m] = log(sum over n of exp(x[m, n])) - x[m, target[m]], and that logarithm."""

from __future__ import annotations

import math

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.datatypes import f32, i32, i64
from exogpu.isa.cuda import cuda_pick
from exogpu.kernels.rows import LOWEST, SHIPPED, Shape, added, larger, macros

LOG2E = math.log2(math.e)


def make_cross_entropy(shape: Shape, index: str = "i64") -> Procedure:
    """The kernel of a shape, for targets of type "i32" or "i64".

    A row is read once: one that is looped over has its sum rescaled whenever a greater element
    comes.  A row whose target is negative has the loss 0; one whose target is no column has NaN.
    """
    use, dtype = macros(shape), shape.type
    fetch, each, reduce = use.fetch, use.each, use.reduce
    V, LOADS, SPAN, ROWS, WARPS = shape.vector, shape.loads, shape.span, shape.rows, shape.all
    MOST, NONE, place = shape.most, math.nan, {"i32": i32, "i64": i64}[index]

    @macro
    def largest(v, top, _, __, ___, ____, row, n, w, t):
        for j in seq(0, V):
            top[w, t] = max(top[w, t], v[j])

    @macro
    def summed(v, top, total, _, __, ___, row, n, w, t):
        for j in seq(0, V):
            total[w, t] += exp2((v[j] - top[w, t]) * LOG2E)

    @macro
    def rescaled(total, before, top):
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                total[w, t] = total[w, t] * exp2((before[w, t] - top[w, t]) * LOG2E)
                before[w, t] = top[w, t]

    @macro
    def aimed(target, row, column):
        column = target[row]

    @macro
    def picked_from(x, row, picked, column, N):
        at: place
        at = column
        picked = NONE
        cuda_pick(N, picked, at, x[row, :], dtype=dtype, place=place)

    @macro
    def written(loss, lse, row, picked, column, top, total):
        sum: f32
        sum = top + log(total)
        lse[row] = sum
        loss[row] = select(column, 0, 0.0, sum - picked)

    @macro
    def of_task(part, shared, x, target, loss, lse, task, M, N):
        top: f32[WARPS, 32]
        before: f32[WARPS, 32]
        total: f32[WARPS, 32]
        other: f32[WARPS, 32]
        picked: dtype[WARPS, 32]
        column: place[WARPS, 32]
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                top[w, t] = LOWEST
                before[w, t] = LOWEST
                total[w, t] = 0.0
        for w in cuda_threads(0, ROWS, unit=cuda_warp):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                if ROWS == 1:
                    aimed(target, task, column[w, t])
                else:
                    if ROWS * task + w < M:
                        aimed(target, ROWS * task + w, column[w, t])
        if shape.looped:
            for k in seq(0, (N + SPAN - 1) / SPAN):
                fetch(part, x, task, k, M, N)
                each(largest, part, top, None, None, None, None, task, k, M, N)
                rescaled(total, before, top)
                each(summed, part, top, total, None, None, None, task, k, M, N)
        else:
            fetch(part, x, task, 0, M, N)
            each(largest, part, top, None, None, None, None, task, 0, M, N)
        for w in cuda_threads(0, ROWS, unit=cuda_warp):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                if ROWS == 1:
                    picked_from(x, task, picked[w, t], column[w, t], N)
                else:
                    if ROWS * task + w < M:
                        picked_from(x, ROWS * task + w, picked[w, t], column[w, t], N)
        reduce(larger, top, other, shared, 0)
        if shape.looped:
            rescaled(total, before, top)
        else:
            each(summed, part, top, total, None, None, None, task, 0, M, N)
        reduce(added, total, other, shared, 1)
        for w in cuda_threads(0, ROWS, unit=cuda_warp):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                if ROWS == 1:
                    written(loss, lse, task, picked[w, t], column[w, t], top[w, t], total[w, t])
                else:
                    row = ROWS * task + w
                    if row < M:
                        written(loss, lse, row, picked[w, t], column[w, t], top[w, t], total[w, t])

    @proc(name=f"cross_entropy_{index}_{shape}")
    def cross_entropy(
        M: size,
        N: size,
        x: dtype[M, N] @ CudaGmemLinear,
        target: place[M] @ CudaGmemLinear,
        loss: f32[M] @ CudaGmemLinear,
        lse: f32[M] @ CudaGmemLinear,
    ):
        assert N % V == 0
        assert N <= MOST
        if shape.staged:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                shared: f32[2, WARPS] @ CudaSmemLinear
                part: dtype[LOADS, WARPS, 32, V] @ CudaSmemLinear
                for task in cuda_tasks(0, M):
                    of_task(part, shared, x, target, loss, lse, task, M, N)
        elif ROWS == 1:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                shared: f32[2, WARPS] @ CudaSmemLinear
                for task in cuda_tasks(0, M):
                    part: dtype[WARPS, 32, LOADS, V]
                    of_task(part, shared, x, target, loss, lse, task, M, N)
        else:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                for task in cuda_tasks(0, (M + ROWS - 1) / ROWS):
                    part: dtype[WARPS, 32, LOADS, V]
                    of_task(part, None, x, target, loss, lse, task, M, N)

    return cross_entropy


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel for kernel in (make_cross_entropy(shape) for shape in SHIPPED)
}
"""Some, by name."""
