"""RMSNorm and LayerNorm of each row: x / sqrt(mean of x^2 + eps) * weight, and
(x - mean) / sqrt(mean of (x - mean)^2 + eps) * weight + bias."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import f32
from exogpu.isa.cuda import cuda_load, cuda_store
from exogpu.kernels.row_layout import SHIPPED, LongShape, Shape, added, macros


def make_rms_norm(shape: Shape) -> Procedure:
    """The kernel of a shape; a row that is looped over is read twice."""
    return rms_norm_of(shape, shape.most, _normalise(shape, centred=False))


def make_layer_norm(shape: Shape) -> Procedure:
    """The kernel of a shape; a row that is looped over is read three times."""
    return layer_norm_of(shape, shape.most, _normalise(shape, centred=True))


def rms_norm_of(shape: Shape | LongShape, MOST: int, normalise: Macro) -> Procedure:
    """The kernel of that launch, for rows of at most so many elements.  `count` is N."""
    dtype, V = shape.type, shape.vector

    @proc(name=f"rms_norm_{shape}")
    def rms_norm(
        M: size,
        N: size,
        x: dtype[M, N] @ CudaGmemLinear,
        weight: dtype[N] @ CudaGmemLinear,
        y: dtype[M, N] @ CudaGmemLinear,
        count: f32 @ CudaGridConstant,
        eps: f32 @ CudaGridConstant,
    ):
        assert N % V == 0
        assert N <= MOST
        normalise(x, weight, weight, y, count, eps, M, N)

    return rms_norm


def layer_norm_of(shape: Shape | LongShape, MOST: int, normalise: Macro) -> Procedure:
    """The kernel of that launch, for rows of at most so many elements.  `count` is N."""
    dtype, V = shape.type, shape.vector

    @proc(name=f"layer_norm_{shape}")
    def layer_norm(
        M: size,
        N: size,
        x: dtype[M, N] @ CudaGmemLinear,
        weight: dtype[N] @ CudaGmemLinear,
        bias: dtype[N] @ CudaGmemLinear,
        y: dtype[M, N] @ CudaGmemLinear,
        count: f32 @ CudaGridConstant,
        eps: f32 @ CudaGridConstant,
    ):
        assert N % V == 0
        assert N <= MOST
        normalise(x, weight, bias, y, count, eps, M, N)

    return layer_norm


def _normalise(shape: Shape, *, centred: bool) -> Macro:
    """The launch."""
    use, dtype = macros(shape), shape.type
    fetch, each, reduce = use.fetch, use.each, use.reduce
    V, SPAN, ROWS, WARPS = shape.vector, shape.span, shape.rows, shape.all

    @macro
    def sums(v, _, total, __, ___, ____, row, n, w, t):
        for j in seq(0, V):
            total[w, t] += v[j]

    @macro
    def squares(v, mean, total, _, __, ___, row, n, w, t):
        for j in seq(0, V):
            if centred:
                far: f32
                far = v[j] - mean[w, t]
                total[w, t] = fma(far, far, total[w, t])
            else:
                total[w, t] = fma(v[j], v[j], total[w, t])

    @macro
    def scaled(v, mean, factor, weight, bias, y, row, n, w, t):
        p: dtype[V]
        q: dtype[V]
        cuda_load(p[:], weight[n : n + V], n=V, dtype=dtype)
        if centred:
            cuda_load(q[:], bias[n : n + V], n=V, dtype=dtype)
        for j in seq(0, V):
            if centred:
                v[j] = (v[j] - mean[w, t]) * factor[w, t] * p[j] + q[j]
            else:
                v[j] = v[j] * factor[w, t] * p[j]
        cuda_store(y[row, n : n + V], v[:], n=V, dtype=dtype)

    @macro
    def averaged(body, part, x, mean, total, other, shared, slot, count, task, M, N):
        """The mean of what `body` sums: of elements, or of squares."""
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                total[w, t] = 0.0
        if shape.looped:
            for k in seq(0, (N + SPAN - 1) / SPAN):
                fetch(part, x, task, k, M, N)
                each(body, part, mean, total, None, None, None, task, k, M, N)
        else:
            each(body, part, mean, total, None, None, None, task, 0, M, N)
        reduce(added, total, other, shared, slot)
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                total[w, t] = total[w, t] / count

    @macro
    def of_task(part, shared, x, weight, bias, y, count, eps, task, M, N):
        mean: f32[WARPS, 32]
        factor: f32[WARPS, 32]
        other: f32[WARPS, 32]
        if not shape.looped:
            fetch(part, x, task, 0, M, N)
        if centred:
            averaged(sums, part, x, mean, mean, other, shared, 0, count, task, M, N)
        averaged(squares, part, x, mean, factor, other, shared, 1, count, task, M, N)
        if ROWS == 1 and not centred:
            Fence(cuda_in_order, cuda_temporal)  # the next row is summed in the same place
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                factor[w, t] = 1.0 / sqrt(factor[w, t] + eps)
        if shape.looped:
            for k in seq(0, (N + SPAN - 1) / SPAN):
                fetch(part, x, task, k, M, N)
                each(scaled, part, mean, factor, weight, bias, y, task, k, M, N)
        else:
            each(scaled, part, mean, factor, weight, bias, y, task, 0, M, N)

    @macro
    def normalise(x, weight, bias, y, count, eps, M, N):
        use.launch(of_task, x, weight, bias, y, count, eps, M, N)

    return normalise


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for make in (make_rms_norm, make_layer_norm)
    for kernel in map(make, SHIPPED)
}
"""Some of both, by name."""
