"""y[m, n] = exp(x[m, n]) / sum over k of exp(x[m, k]), relative to the row's greatest element."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.datatypes import f32
from exogpu.isa.cuda import cuda_store
from exogpu.kernels.exponentials import LOG2E, exponentials
from exogpu.kernels.rows import SHIPPED, Shape, macros


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
