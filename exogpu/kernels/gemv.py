"""y[m] = sum over k of A[m, k] * x[k], f32: a warp a row, summed by shuffles."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor


def make_gemv(WARPS: int = 8, LOADS: int = 2) -> Procedure:
    """The kernel with WARPS warps a CTA; each thread has LOADS vectors of a row in flight."""
    STEP = 128 * LOADS  # elements of a row that a warp takes at a time

    @proc(name="gemv")
    def gemv(
        M: size,
        K: size,
        A: f32[M, K] @ CudaGmemLinear,
        x: f32[K] @ CudaGmemLinear,
        y: f32[M] @ CudaGmemLinear,
    ):
        assert K % 4 == 0  # rows are read in vectors of 16 bytes
        with CudaDeviceFunction(blockDim=32 * WARPS):
            for task in cuda_tasks(0, (M + WARPS - 1) / WARPS):
                part: f32[WARPS, 32]
                other: f32[WARPS, 32]
                for w in cuda_threads(0, WARPS, unit=cuda_warp):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        part[w, t] = 0
                        if WARPS * task + w < M:
                            for k in seq(0, (K + STEP - 1) / STEP):
                                a: f32[LOADS, 4]
                                b: f32[LOADS, 4]
                                for i in seq(0, LOADS):
                                    if STEP * k + 128 * i + 4 * t < K:
                                        cuda_load(
                                            a[i, :],
                                            A[
                                                WARPS * task + w,
                                                STEP * k + 128 * i + 4 * t : STEP * k
                                                + 128 * i
                                                + 4 * t
                                                + 4,
                                            ],
                                        )
                                        cuda_load(
                                            b[i, :],
                                            x[
                                                STEP * k + 128 * i + 4 * t : STEP * k
                                                + 128 * i
                                                + 4 * t
                                                + 4
                                            ],
                                        )
                                for i in seq(0, LOADS):
                                    if STEP * k + 128 * i + 4 * t < K:
                                        for j in seq(0, 4):
                                            part[w, t] += a[i, j] * b[i, j]
                    for mask in (16, 8, 4, 2, 1):
                        cuda_shfl_xor(other[w, :], part[w, :], mask=mask)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            part[w, t] += other[w, t]
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        if WARPS * task + w < M and t == 0:
                            y[WARPS * task + w] = part[w, t]

    return gemv


gemv = make_gemv()
