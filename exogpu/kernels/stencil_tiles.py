"""y[i, j] = sum of weight[a, b] * x[i + a - 1, j + b - 1] over 3 x 3 neighbours, 0 outside, f32."""

from __future__ import annotations

from exogpu.api import Procedure, proc


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

KERNELS: dict[str, Procedure] = {stencil.name: stencil}
"""The kernel, by name."""
