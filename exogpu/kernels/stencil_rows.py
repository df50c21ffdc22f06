"""y[i, j] = sum of weight[a, b] * x[i + a - 1, j + b - 1] over 3 x 3 neighbours, 0 outside, f32, of
rows of whole vectors: what threads share is in the caches."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.isa.cuda import cuda_load, cuda_store


def make_stencil_rows(STEP: int = 16, WARPS: int = 8, name: str = "stencil_rows") -> Procedure:
    """The kernel in which a thread has STEP rows of four columns, and a warp is as wide as 128.

    A thread reads its columns by vectors, and the two beside them where its neighbours have just
    brought them into the cache; all its reads are under way before the first is used.
    """

    @proc(name=name)
    def stencil(
        M: size,
        N: size,
        x: f32[M, N] @ CudaGmemLinear,
        weight: f32[3, 3] @ CudaGridConstant,
        y: f32[M, N] @ CudaGmemLinear,
    ):
        assert N % 4 == 0
        with CudaDeviceFunction(blockDim=32 * WARPS):
            for tm in cuda_tasks(0, (M + WARPS * STEP - 1) / (WARPS * STEP)):
                for tn in cuda_tasks(0, (N + 127) / 128):
                    for w in cuda_threads(0, WARPS, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            rows: f32[STEP + 2, 6]
                            n = 128 * tn + 4 * t
                            for i in seq(0, STEP + 2):
                                for j in seq(0, 6):
                                    rows[i, j] = 0.0
                                m = WARPS * STEP * tm + STEP * w + i - 1
                                if m >= 0 and m < M and n < N:
                                    cuda_load(rows[i, 1:5], x[m, n : n + 4])
                                    if n > 0:
                                        rows[i, 0] = x[m, n - 1]
                                    if n + 4 < N:
                                        rows[i, 5] = x[m, n + 4]
                            for i in seq(0, STEP):
                                m = WARPS * STEP * tm + STEP * w + i
                                total: f32[4]
                                for j in seq(0, 4):
                                    total[j] = 0.0
                                    for a in seq(0, 3):
                                        for b in seq(0, 3):
                                            total[j] = fma(
                                                weight[a, b], rows[i + a, j + b], total[j]
                                            )
                                if m < M and n < N:
                                    cuda_store(y[m, n : n + 4], total[:])

    return stencil


stencil_rows = make_stencil_rows()

KERNELS: dict[str, Procedure] = {stencil_rows.name: stencil_rows}
"""The kernel, by name."""
