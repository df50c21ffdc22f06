"""y[m] = sum over k of A[m, k] * x[k], f32: a warp a row, summed by shuffles; or a CTA a row."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor


def make_gemv(WARPS: int = 8, LOADS: int = 4) -> Procedure:
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


def make_gemv_rows(WARPS: int = 16, LOADS: int = 4) -> Procedure:
    """The kernel for few and long rows: a CTA of WARPS warps a row."""
    STEP = 128 * WARPS * LOADS  # elements of a row that a CTA takes at a time

    @proc(name="gemv_rows")
    def gemv_rows(
        M: size,
        K: size,
        A: f32[M, K] @ CudaGmemLinear,
        x: f32[K] @ CudaGmemLinear,
        y: f32[M] @ CudaGmemLinear,
    ):
        assert K % 4 == 0  # rows are read in vectors of 16 bytes
        with CudaDeviceFunction(blockDim=32 * WARPS):
            for m in cuda_tasks(0, M):
                part: f32[WARPS, 32]
                other: f32[WARPS, 32]
                sums: f32[WARPS] @ CudaSmemLinear
                for w in cuda_threads(0, WARPS, unit=cuda_warp):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        first = 128 * w + 4 * t
                        part[w, t] = 0
                        for k in seq(0, (K + STEP - 1) / STEP):
                            a: f32[LOADS, 4]
                            b: f32[LOADS, 4]
                            for i in seq(0, LOADS):
                                at = STEP * k + 128 * WARPS * i + first
                                if at < K:
                                    cuda_load(a[i, :], A[m, at : at + 4])
                                    cuda_load(b[i, :], x[at : at + 4])
                            for i in seq(0, LOADS):
                                if STEP * k + 128 * WARPS * i + first < K:
                                    for j in seq(0, 4):
                                        part[w, t] += a[i, j] * b[i, j]
                    for mask in (16, 8, 4, 2, 1):
                        cuda_shfl_xor(other[w, :], part[w, :], mask=mask)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            part[w, t] += other[w, t]
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        sums[w] = part[w, t]
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    total: f32
                    total = 0
                    for w in seq(0, WARPS):
                        total += sums[w]
                    y[m] = total
                Fence(cuda_in_order, cuda_in_order)

    return gemv_rows


gemv = make_gemv()
gemv_rows = make_gemv_rows()

KERNELS: dict[str, Procedure] = {kernel.name: kernel for kernel in (gemv, gemv_rows)}
"""Both, by name."""
