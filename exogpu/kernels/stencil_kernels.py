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


# y[i, j] = sum of weight[a, b] * x[i + a - 1, j + b - 1] over 3 x 3 neighbours, 0 outside, f32.


def make_stencil(ROWS: int = 32, COLUMNS: int = 128, STEP: int = 16) -> Procedure:
    """The kernel whose CTAs have tiles of ROWS x COLUMNS, and a thread STEP rows of one column.

    A tile and what surrounds it are read once, into shared memory; a thread reads each row of its
    three columns there once.
    """
    THREADS = ROWS // STEP * COLUMNS
    EACH = (ROWS + 2) * STEP // ROWS
    """Rows that a thread loads; the last two columns of the tile come last."""

    @proc(name="stencil")
    def stencil(
        M: size,
        N: size,
        x: f32[M, N] @ CudaGmemLinear,
        weight: f32[3, 3] @ CudaGridConstant,
        y: f32[M, N] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=THREADS):
            for tm in cuda_tasks(0, (M + ROWS - 1) / ROWS):
                for tn in cuda_tasks(0, (N + COLUMNS - 1) / COLUMNS):
                    tile: f32[ROWS + 2, COLUMNS + 2] @ CudaSmemLinear
                    for t in cuda_threads(0, THREADS, unit=cuda_thread):
                        part: f32[EACH]
                        edge: f32
                        edge = 0.0
                        for i in seq(0, EACH):  # all are on their way before the first is used
                            part[i] = 0.0
                            m = ROWS * tm + EACH * (t / COLUMNS) + i - 1
                            n = COLUMNS * tn + t % COLUMNS - 1
                            if m >= 0 and m < M and n >= 0 and n < N:
                                part[i] = x[m, n]
                        if t < 2 * (ROWS + 2):
                            m = ROWS * tm + t / 2 - 1
                            n = COLUMNS * tn + COLUMNS + t % 2 - 1
                            if m >= 0 and m < M and n < N:
                                edge = x[m, n]
                            tile[t / 2, COLUMNS + t % 2] = edge
                        for i in seq(0, EACH):
                            tile[EACH * (t / COLUMNS) + i, t % COLUMNS] = part[i]
                    Fence(cuda_in_order, cuda_in_order)
                    for t in cuda_threads(0, THREADS, unit=cuda_thread):
                        rows: f32[STEP + 2, 3]
                        for i in seq(0, STEP + 2):
                            for b in seq(0, 3):
                                rows[i, b] = tile[STEP * (t / COLUMNS) + i, t % COLUMNS + b]
                        for i in seq(0, STEP):
                            total: f32
                            total = 0.0
                            for a in seq(0, 3):
                                for b in seq(0, 3):
                                    total = fma(weight[a, b], rows[i + a, b], total)
                            m = ROWS * tm + STEP * (t / COLUMNS) + i
                            if m < M and COLUMNS * tn + t % COLUMNS < N:
                                y[m, COLUMNS * tn + t % COLUMNS] = total
                    Fence(cuda_in_order, cuda_in_order)

    return stencil


stencil = make_stencil()

KERNELS |= {stencil.name: stencil}
"""The kernel, by name."""
