"""RMSNorm and LayerNorm of each row: x / sqrt(mean of x^2 + eps) * weight, and
(x - mean) / sqrt(mean of (x - mean)^2 + eps) * weight + bias."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import Macro, macro
from exogpu.hw.datatypes import f32
from exogpu.isa.cuda import cuda_load
from exogpu.kernels.rows import SHIPPED, Shape, added, macros


def make_rms_norm(shape: Shape) -> Procedure:
    """The kernel of a shape; a row that is looped over is read twice.  `count` is N."""
    normalise, dtype = _normalise(shape, centred=False), shape.type
    V, MOST = shape.vector, shape.most

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


def make_layer_norm(shape: Shape) -> Procedure:
    """The kernel of a shape; a row that is looped over is read three times.  `count` is N."""
    normalise, dtype = _normalise(shape, centred=True), shape.type
    V, MOST = shape.vector, shape.most

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
    of_row, load, store, reduce = use.of_row, use.load, use.store, use.reduce
    V, LOADS, SPAN, ACROSS, ROWS = shape.vector, shape.loads, shape.span, shape.across, shape.rows
    WARPS = ROWS * shape.warps

    @macro
    def sums(v, total, _, row, at, N, w, t):
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(0, V):
                    total[w, t] += v[w, t, i, j]

    @macro
    def squares(v, total, _, row, at, N, w, t):
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(0, V):
                    total[w, t] = fma(v[w, t, i, j], v[w, t, i, j], total[w, t])

    @macro
    def centre(v, mean, _, row, at, N, w, t):
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(0, V):
                    v[w, t, i, j] = v[w, t, i, j] - mean[w, t]

    @macro
    def scale(v, factor, _, row, at, N, w, t):
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(0, V):
                    v[w, t, i, j] = v[w, t, i, j] * factor[w, t]

    @macro
    def parameters(raw, of, row, at, N, w, t):
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                cuda_load(
                    raw[w, t, i, :], of[ACROSS * i + at : ACROSS * i + at + V], n=V, dtype=dtype
                )

    @macro
    def weigh(raw, v, weight, row, at, N, w, t):
        parameters(raw, weight, row, at, N, w, t)
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(0, V):
                    v[w, t, i, j] = v[w, t, i, j] * raw[w, t, i, j]

    @macro
    def shift(raw, v, bias, row, at, N, w, t):
        parameters(raw, bias, row, at, N, w, t)
        for i in seq(0, LOADS):
            if ACROSS * i + at < N:
                for j in seq(0, V):
                    v[w, t, i, j] = v[w, t, i, j] + raw[w, t, i, j]

    @macro
    def averaged(
        body, of_deviations, raw, v, x, mean, total, other, shared, slot, count, task, M, N
    ):
        """The mean of what `body` sums: of elements, or of their deviations from `mean`."""
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                total[w, t] = 0.0
        if shape.looped:
            for k in seq(0, (N + SPAN - 1) / SPAN):
                of_row(load, raw, v, x, task, k, M, N)
                if of_deviations:
                    of_row(centre, v, mean, mean, task, k, M, N)
                of_row(body, v, total, total, task, k, M, N)
        else:
            if of_deviations:
                of_row(centre, v, mean, mean, task, 0, M, N)
            of_row(body, v, total, total, task, 0, M, N)
        reduce(added, total, other, shared, slot)
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                total[w, t] = total[w, t] / count

    @macro
    def finish(raw, v, weight, bias, y, factor, task, k, M, N):
        of_row(scale, v, factor, factor, task, k, M, N)
        of_row(weigh, raw, v, weight, task, k, M, N)
        if centred:
            of_row(shift, raw, v, bias, task, k, M, N)
        of_row(store, raw, v, y, task, k, M, N)

    @macro
    def of_task(shared, x, weight, bias, y, count, eps, task, M, N):
        raw: dtype[WARPS, 32, LOADS, V]
        v: f32[WARPS, 32, LOADS, V]
        mean: f32[WARPS, 32]
        factor: f32[WARPS, 32]
        other: f32[WARPS, 32]
        if not shape.looped:
            of_row(load, raw, v, x, task, 0, M, N)
        if centred:
            averaged(sums, False, raw, v, x, mean, mean, other, shared, 0, count, task, M, N)
        averaged(squares, centred, raw, v, x, mean, factor, other, shared, 1, count, task, M, N)
        if ROWS == 1 and not centred:
            Fence(cuda_in_order, cuda_temporal)  # the next row is summed in the same place
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                factor[w, t] = 1.0 / sqrt(factor[w, t] + eps)
        if shape.looped:
            for k in seq(0, (N + SPAN - 1) / SPAN):
                of_row(load, raw, v, x, task, k, M, N)
                if centred:
                    of_row(centre, v, mean, mean, task, k, M, N)
                finish(raw, v, weight, bias, y, factor, task, k, M, N)
        else:
            finish(raw, v, weight, bias, y, factor, task, 0, M, N)

    @macro
    def normalise(x, weight, bias, y, count, eps, M, N):
        if ROWS == 1:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                shared: f32[2, WARPS] @ CudaSmemLinear
                for task in cuda_tasks(0, M):
                    of_task(shared, x, weight, bias, y, count, eps, task, M, N)
        else:
            with CudaDeviceFunction(blockDim=32 * WARPS):
                for task in cuda_tasks(0, (M + ROWS - 1) / ROWS):
                    of_task(None, x, weight, bias, y, count, eps, task, M, N)

    return normalise


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for make in (make_rms_norm, make_layer_norm)
    for kernel in map(make, SHIPPED)
}
"""Some of both, by name."""
