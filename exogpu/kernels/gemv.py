"""y[m] = sum over k of A[m, k] * x[k], f32: eight threads a row, summed by shuffles."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.platforms.cuda import cuda_load, cuda_shfl_xor


def make_gemv(WARPS: int = 8) -> Procedure:
    """The kernel with WARPS warps a CTA; each warp has four rows."""
    ROWS = 4 * WARPS

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
            for task in cuda_tasks(0, (M + ROWS - 1) / ROWS):
                part: f32[WARPS, 32]
                other: f32[WARPS, 32]
                for w in cuda_threads(0, WARPS, unit=cuda_warp):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        part[w, t] = 0
                        if ROWS * task + 4 * w + t / 8 < M:
                            for k in seq(0, (K + 31) / 32):
                                if 32 * k + 4 * (t % 8) < K:
                                    a: f32[4]
                                    b: f32[4]
                                    cuda_load(
                                        a[:],
                                        A[
                                            ROWS * task + 4 * w + t / 8,
                                            32 * k + 4 * (t % 8) : 32 * k + 4 * (t % 8) + 4,
                                        ],
                                    )
                                    cuda_load(
                                        b[:], x[32 * k + 4 * (t % 8) : 32 * k + 4 * (t % 8) + 4]
                                    )
                                    for i in seq(0, 4):
                                        part[w, t] += a[i] * b[i]
                    for mask in (4, 2, 1):
                        cuda_shfl_xor(other[w, :], part[w, :], mask=mask)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            part[w, t] += other[w, t]
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        if ROWS * task + 4 * w + t / 8 < M and t % 8 == 0:
                            y[ROWS * task + 4 * w + t / 8] = part[w, t]

    return gemv


gemv = make_gemv()
