"""y[m, n] = exp(x[m, n]) / sum over k of exp(x[m, k]), relative to the row's greatest element."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import f32, i32, i64
from exogpu.isa.cuda import cuda_pick, cuda_store
from exogpu.kernels.row_layout import LOWEST, SHIPPED, Macros, Shape, added, larger, macros

# Sums of a row's exponentials, relative to its greatest element: of softmax and cross entropy.

LOG2E: Final = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class Exponentials:
    """In these steps each thread gets the greatest element of its row, `top`, and the sum of all
    exp(x - top), `total`."""

    begin: Macro
    """`begin(top, before, total)`"""
    gather: Macro
    """`gather(part, x, top, before, total, task, M, N)`: of a thread's own elements.  A row that is
    looped over has its sum rescaled whenever a greater element comes; another has none yet."""
    combine: Macro
    """`combine(part, top, before, total, other, shared, task, M, N)`: of all threads of a row."""


def exponentials(shape: Shape, use: Macros) -> Exponentials:
    """The macros of kernels of that shape."""
    fetch, each, reduce = use.fetch, use.each, use.reduce
    V, SPAN, WARPS = shape.vector, shape.span, shape.all

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
    def begin(top, before, total):
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                top[w, t] = LOWEST
                before[w, t] = LOWEST
                total[w, t] = 0.0

    @macro
    def gather(part, x, top, before, total, task, M, N):
        if shape.looped:
            for k in seq(0, (N + SPAN - 1) / SPAN):
                fetch(part, x, task, k, M, N)
                each(largest, part, top, None, None, None, None, task, k, M, N)
                rescaled(total, before, top)
                each(summed, part, top, total, None, None, None, task, k, M, N)
        else:
            fetch(part, x, task, 0, M, N)
            each(largest, part, top, None, None, None, None, task, 0, M, N)

    @macro
    def combine(part, top, before, total, other, shared, task, M, N):
        reduce(larger, top, other, shared, 0)
        if shape.looped:
            rescaled(total, before, top)
        else:
            each(summed, part, top, total, None, None, None, task, 0, M, N)
        reduce(added, total, other, shared, 1)

    return Exponentials(begin, gather, combine)


def make_softmax(shape: Shape) -> Procedure:
    """The kernel of a shape; a row that is looped over is read twice."""
    use, dtype = macros(shape), shape.type
    fetch, each, sums = use.fetch, use.each, exponentials(shape, use)
    V, SPAN, WARPS, MOST = shape.vector, shape.span, shape.all, shape.most

    @macro
    def scaled(v, top, inverse, y, _, __, row, n, w, t):
        for j in seq(0, V):
            v[j] = exp2((v[j] - top[w, t]) * LOG2E) * inverse[w, t]
        cuda_store(y[row, n : n + V], v[:], n=V, dtype=dtype)

    @macro
    def of_task(part, shared, x, y, _, __, ___, ____, task, M, N):
        top: f32[WARPS, 32]
        before: f32[WARPS, 32]
        total: f32[WARPS, 32]
        other: f32[WARPS, 32]
        sums.begin(top, before, total)
        sums.gather(part, x, top, before, total, task, M, N)
        sums.combine(part, top, before, total, other, shared, task, M, N)
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
        use.launch(of_task, x, y, None, None, None, None, M, N)

    return softmax


KERNELS: dict[str, Procedure] = {f"softmax_{shape}": make_softmax(shape) for shape in SHIPPED}
"""Some, by name."""


# loss[m] = log(sum over n of exp(x[m, n])) - x[m, target[m]], and that logarithm.


def make_cross_entropy(shape: Shape, index: str = "i64") -> Procedure:
    """The kernel of a shape, for targets of type "i32" or "i64".

    A row is read once.  One whose target is negative has the loss 0; one whose target is no column
    has NaN.
    """
    use, dtype = macros(shape), shape.type
    sums = exponentials(shape, use)
    V, ROWS, WARPS, MOST = shape.vector, shape.rows, shape.all, shape.most
    NONE, place = math.nan, {"i32": i32, "i64": i64}[index]

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
    def of_task(part, shared, x, target, loss, lse, _, __, task, M, N):
        top: f32[WARPS, 32]
        before: f32[WARPS, 32]
        total: f32[WARPS, 32]
        other: f32[WARPS, 32]
        picked: dtype[WARPS, 32]
        column: place[WARPS, 32]
        sums.begin(top, before, total)
        for w in cuda_threads(0, ROWS, unit=cuda_warp):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                if ROWS == 1:
                    aimed(target, task, column[w, t])
                else:
                    if ROWS * task + w < M:
                        aimed(target, ROWS * task + w, column[w, t])
        sums.gather(part, x, top, before, total, task, M, N)
        for w in cuda_threads(0, ROWS, unit=cuda_warp):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                if ROWS == 1:
                    picked_from(x, task, picked[w, t], column[w, t], N)
                else:
                    if ROWS * task + w < M:
                        picked_from(x, ROWS * task + w, picked[w, t], column[w, t], N)
        sums.combine(part, top, before, total, other, shared, task, M, N)
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
        use.launch(of_task, x, target, loss, lse, None, None, M, N)

    return cross_entropy


KERNELS |= {kernel.name: kernel for kernel in (make_cross_entropy(shape) for shape in SHIPPED)}
"""Some, by name."""
