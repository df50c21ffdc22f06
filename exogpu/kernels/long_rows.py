"""Softmax, RMSNorm and LayerNorm of rows that a cluster of CTAs has in its registers.

A row is read once.  Each warp makes partial results of its elements, and writes them into the
shared memory of every CTA of the cluster; after a barrier of the cluster each combines all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import f32
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor, cuda_store
from exogpu.kernels.norm_rows import layer_norm_of, rms_norm_of
from exogpu.kernels.row_layout import LOWEST, LongShape, added, larger
from exogpu.kernels.softmax_rows import LOG2E


@dataclass(frozen=True, slots=True)
class _Macros:
    """The parts of kernels of one shape; W is a warp of the cluster, t a lane, and `at` the first
    column of a thread."""

    of_row: Macro
    """`of_row(body, a, b, c, N)`: each thread executes `body(a, b, c, at, N, W, t)`."""
    load: Macro
    """`load(raw, v, x, at, N, W, t)`: a body for `of_row`: x as it is, and as f32; 0 beyond."""
    store: Macro
    """`store(raw, v, y, at, N, W, t)`: v, rounded, to where `load` has it from."""
    meet: Macro
    """`meet(local, combine, v, mine, parts, read, count, eps, N)`: warps make partial results,
    `mine[p, W, t]`, of their elements by `local(v, mine, N, W)`, and others of everybody's by
    `combine(theirs, mine, count, eps, W)`, where a lane has `theirs[p, t, i]`."""


def _macros(shape: LongShape, partials: int) -> _Macros:
    """The macros of kernels of that shape whose warps have so many partial results each."""
    V, LOADS, ACROSS, dtype = shape.vector, shape.loads, shape.across, shape.type
    CTAS, WARPS, EACH = shape.ctas, shape.warps, shape.each

    @macro
    def of_row(body, a, b, c, N):
        for cta in cuda_threads(0, CTAS, unit=cuda_cta_in_cluster):
            for w in cuda_threads(0, WARPS, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    W = WARPS * cta + w
                    body(a, b, c, V * (32 * W + t), N, W, t)

    @macro
    def vectors(raw, x, at, N, W, t):
        for i in seq(0, LOADS):
            # Without a value beyond the row, registers would keep those of the row before.
            for j in seq(0, V):
                raw[W, t, i, j] = 0.0
            if ACROSS * i + at < N:
                cuda_load(
                    raw[W, t, i, :], x[ACROSS * i + at : ACROSS * i + at + V], n=V, dtype=dtype
                )

    @macro
    def load(raw, v, x, at, N, W, t):
        vectors(raw, x, at, N, W, t)  # all are on their way before the first is used
        for i in seq(0, LOADS):
            for j in seq(0, V):
                v[W, t, i, j] = raw[W, t, i, j]

    @macro
    def store(raw, v, y, at, N, W, t):
        for i in seq(0, LOADS):
            for j in seq(0, V):
                raw[W, t, i, j] = v[W, t, i, j]
            if ACROSS * i + at < N:
                cuda_store(
                    y[ACROSS * i + at : ACROSS * i + at + V], raw[W, t, i, :], n=V, dtype=dtype
                )

    @macro
    def meet(local, combine, v, mine, parts, read, count, eps, N):
        theirs: f32[partials, shape.all_warps, 32, EACH]
        for cta in cuda_threads(0, CTAS, unit=cuda_cta_in_cluster):
            for w in cuda_threads(0, WARPS, unit=cuda_warp):
                local(v, mine, N, WARPS * cta + w)
                for t in cuda_threads(0, CTAS, unit=cuda_thread):  # a lane for each CTA
                    for p in seq(0, partials):
                        parts[t, p, WARPS * cta + w] = mine[p, WARPS * cta + w, t]
        Fence(cuda_in_order, cuda_in_order)
        for cta in cuda_threads(0, CTAS, unit=cuda_cta_in_cluster):
            for w in cuda_threads(0, WARPS, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for p in seq(0, partials):
                        for i in seq(0, EACH):
                            theirs[p, WARPS * cta + w, t, i] = parts[
                                cta, p, (32 * i + t) % shape.all_warps
                            ]
        Arrive(cuda_in_order) >> read  # the next row meets in the same place
        for cta in cuda_threads(0, CTAS, unit=cuda_cta_in_cluster):
            for w in cuda_threads(0, WARPS, unit=cuda_warp):
                combine(theirs[:, WARPS * cta + w, :, :], mine, count, eps, WARPS * cta + w)

    return _Macros(of_row, load, store, meet)


@macro
def lanes(combine, a, most):
    """Each `most` lanes of a warp combine their a, and all of them have it then."""
    mine: f32[32]
    other: f32[32]
    for t in cuda_threads(0, 32, unit=cuda_thread):
        mine[t] = a[t]
    for mask in (16, 8, 4, 2, 1):
        if mask < most:
            cuda_shfl_xor(other[:], mine[:], mask=mask)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                combine(mine[t], other[t])
    for t in cuda_threads(0, 32, unit=cuda_thread):
        a[t] = mine[t]


# --- softmax ------------------------------------------------------------------------------------


def make_long_softmax(shape: LongShape) -> Procedure:
    """y[m, n] = exp(x[m, n]) / sum over k of exp(x[m, k]).

    A warp's partial results are its greatest element, and the sum relative to that.
    """
    use, dtype, V = _macros(shape, 2), shape.type, shape.vector
    of_row, load, store, meet = use.of_row, use.load, use.store, use.meet
    LOADS, ACROSS, SPAN = shape.loads, shape.across, shape.span
    CTAS, ALL, EACH = shape.ctas, shape.all_warps, shape.each

    @macro
    def local(v, mine, N, W):
        for t in cuda_threads(0, 32, unit=cuda_thread):
            mine[0, W, t] = LOWEST
            mine[1, W, t] = 0.0
            for i in seq(0, LOADS):
                if ACROSS * i + V * (32 * W + t) < N:
                    for j in seq(0, V):
                        mine[0, W, t] = max(mine[0, W, t], v[W, t, i, j])
        lanes(larger, mine[0, W, :], 32)
        for t in cuda_threads(0, 32, unit=cuda_thread):
            for i in seq(0, LOADS):
                for j in seq(0, V):
                    v[W, t, i, j] = exp2((v[W, t, i, j] - mine[0, W, t]) * LOG2E)
                if ACROSS * i + V * (32 * W + t) < N:
                    for j in seq(0, V):
                        mine[1, W, t] += v[W, t, i, j]
        lanes(added, mine[1, W, :], 32)

    @macro
    def combine(theirs, mine, count, eps, W):
        """mine[0] is the factor."""
        top: f32[32]
        for t in cuda_threads(0, 32, unit=cuda_thread):
            top[t] = LOWEST
            for i in seq(0, EACH):
                top[t] = max(top[t], theirs[0, t, i])
        lanes(larger, top, ALL)
        for t in cuda_threads(0, 32, unit=cuda_thread):
            mine[1, W, t] = 0.0
            for i in seq(0, EACH):
                mine[1, W, t] += theirs[1, t, i] * exp2((theirs[0, t, i] - top[t]) * LOG2E)
        lanes(added, mine[1, W, :], ALL)
        for t in cuda_threads(0, 32, unit=cuda_thread):
            mine[0, W, t] = exp2((mine[0, W, t] - top[t]) * LOG2E) / mine[1, W, t]

    @macro
    def scale(v, mine, _, at, N, W, t):
        for i in seq(0, LOADS):
            for j in seq(0, V):
                v[W, t, i, j] = v[W, t, i, j] * mine[0, W, t]

    @proc(name=f"softmax_{shape}")
    def softmax(M: size, N: size, x: dtype[M, N] @ CudaGmemLinear, y: dtype[M, N] @ CudaGmemLinear):
        assert N % V == 0
        assert N <= SPAN
        with CudaDeviceFunction(clusterDim=CTAS, blockDim=32 * shape.warps, minBlocks=shape.blocks):
            parts: f32[CTAS, 2, ALL] @ CudaSmemCluster
            for task in cuda_tasks(0, M):
                raw: dtype[ALL, 32, LOADS, V]
                v: f32[ALL, 32, LOADS, V]
                mine: f32[2, ALL, 32]
                read: barrier @ CudaClusterSync
                of_row(load, raw, v, x[task, :], N)
                meet(local, combine, v, mine, parts, read, None, None, N)
                of_row(scale, v, mine, mine, N)
                of_row(store, raw, v, y[task, :], N)
                Await(read, cuda_in_order, 0)

    return softmax


# --- norms --------------------------------------------------------------------------------------


def make_long_rms_norm(shape: LongShape) -> Procedure:
    """As `make_rms_norm`.  A warp's partial result is a sum."""
    return rms_norm_of(shape, shape.span, _normalise(shape, centred=False))


def make_long_layer_norm(shape: LongShape) -> Procedure:
    """As `make_layer_norm`.

    A warp's partial results are the number of its elements, their sum, and the squares of their
    deviations from the warp's own mean.
    """
    return layer_norm_of(shape, shape.span, _normalise(shape, centred=True))


def _normalise(shape: LongShape, *, centred: bool) -> Macro:
    """The launch."""
    PARTIALS = 3 if centred else 1
    use, dtype, V = _macros(shape, PARTIALS), shape.type, shape.vector
    of_row, load, meet = use.of_row, use.load, use.meet
    LOADS, ACROSS = shape.loads, shape.across
    CTAS, ALL, EACH = shape.ctas, shape.all_warps, shape.each

    @macro
    def squares(v, mine, N, W):
        for t in cuda_threads(0, 32, unit=cuda_thread):
            mine[0, W, t] = 0.0
            for i in seq(0, LOADS):
                for j in seq(0, V):
                    mine[0, W, t] = fma(v[W, t, i, j], v[W, t, i, j], mine[0, W, t])
        lanes(added, mine[0, W, :], 32)

    @macro
    def deviations(v, mine, N, W):
        for t in cuda_threads(0, 32, unit=cuda_thread):
            mine[0, W, t] = 0.0
            mine[1, W, t] = 0.0
            mine[2, W, t] = 0.0
            for i in seq(0, LOADS):
                if ACROSS * i + V * (32 * W + t) < N:
                    mine[0, W, t] += float(V)
                for j in seq(0, V):
                    mine[1, W, t] += v[W, t, i, j]
        lanes(added, mine[0, W, :], 32)
        lanes(added, mine[1, W, :], 32)
        for t in cuda_threads(0, 32, unit=cuda_thread):
            mean: f32
            mean = mine[1, W, t] / max(mine[0, W, t], 1.0)
            for i in seq(0, LOADS):
                if ACROSS * i + V * (32 * W + t) < N:
                    for j in seq(0, V):
                        mine[2, W, t] = fma(
                            v[W, t, i, j] - mean, v[W, t, i, j] - mean, mine[2, W, t]
                        )
        lanes(added, mine[2, W, :], 32)

    @macro
    def whole(theirs, mine, count, eps, W):
        """mine[0] is the factor, mine[1] the mean."""
        if centred:
            for t in cuda_threads(0, 32, unit=cuda_thread):
                mine[1, W, t] = 0.0
                for i in seq(0, EACH):
                    mine[1, W, t] += theirs[1, t, i]
            lanes(added, mine[1, W, :], ALL)
        for t in cuda_threads(0, 32, unit=cuda_thread):
            mine[0, W, t] = 0.0
            if centred:
                mine[1, W, t] = mine[1, W, t] / count
                for i in seq(0, EACH):
                    d: f32
                    d = theirs[1, t, i] / max(theirs[0, t, i], 1.0) - mine[1, W, t]
                    mine[0, W, t] += fma(theirs[0, t, i] * d, d, theirs[2, t, i])
            else:
                for i in seq(0, EACH):
                    mine[0, W, t] += theirs[0, t, i]
        lanes(added, mine[0, W, :], ALL)
        for t in cuda_threads(0, 32, unit=cuda_thread):
            mine[0, W, t] = 1.0 / sqrt(mine[0, W, t] / count + eps)

    @macro
    def finish(v, mine, weight, bias, y, at, N, W, t):
        for i in seq(0, LOADS):
            for j in seq(0, V):
                if centred:
                    v[W, t, i, j] = v[W, t, i, j] - mine[1, W, t]
                v[W, t, i, j] = v[W, t, i, j] * mine[0, W, t]
        for i in seq(0, LOADS):
            w: dtype[V]
            b: dtype[V]
            raw: dtype[V]
            if centred:
                for j in seq(0, V):
                    w[j] = 0.0
                    b[j] = 0.0
            else:
                if ACROSS * i + at >= N:  # its products are not stored
                    uninit(w)
            if ACROSS * i + at < N:
                cuda_load(w[:], weight[ACROSS * i + at : ACROSS * i + at + V], n=V, dtype=dtype)
                if centred:
                    cuda_load(b[:], bias[ACROSS * i + at : ACROSS * i + at + V], n=V, dtype=dtype)
            for j in seq(0, V):
                if centred:
                    raw[j] = v[W, t, i, j] * w[j] + b[j]
                else:
                    raw[j] = v[W, t, i, j] * w[j]
            if ACROSS * i + at < N:
                cuda_store(y[ACROSS * i + at : ACROSS * i + at + V], raw[:], n=V, dtype=dtype)

    @macro
    def normalise(x, weight, bias, y, count, eps, M, N):
        with CudaDeviceFunction(clusterDim=CTAS, blockDim=32 * shape.warps, minBlocks=shape.blocks):
            parts: f32[CTAS, PARTIALS, ALL] @ CudaSmemCluster
            for task in cuda_tasks(0, M):
                raw: dtype[ALL, 32, LOADS, V]
                v: f32[ALL, 32, LOADS, V]
                mine: f32[PARTIALS, ALL, 32]
                read: barrier @ CudaClusterSync
                of_row(load, raw, v, x[task, :], N)
                meet(deviations if centred else squares, whole, v, mine, parts, read, count, eps, N)
                for cta in cuda_threads(0, CTAS, unit=cuda_cta_in_cluster):
                    for w in cuda_threads(0, shape.warps, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            W = shape.warps * cta + w
                            finish(v, mine, weight, bias, y[task, :], V * (32 * W + t), N, W, t)
                Await(read, cuda_in_order, 0)

    return normalise


LONG_MAKERS: Final = {
    "softmax": make_long_softmax,
    "rms_norm": make_long_rms_norm,
    "layer_norm": make_long_layer_norm,
}
"""By the names of the calls."""
