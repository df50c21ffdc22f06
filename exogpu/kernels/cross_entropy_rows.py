"""loss[m] = log(sum over n of exp(x[m, n])) - x[m, target[m]], and that logarithm."""

from __future__ import annotations

import math

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.datatypes import f32, i32, i64
from exogpu.isa.cuda import cuda_pick
from exogpu.kernels.exponentials import exponentials
from exogpu.kernels.rows import SHIPPED, Shape, macros


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


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel for kernel in (make_cross_entropy(shape) for shape in SHIPPED)
}
"""Some, by name."""
