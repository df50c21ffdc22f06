"""Loops over fragments: each line ends in the code that it draws, if any."""

from __future__ import annotations

from exogpu import *
from exogpu.hw.language import i32


@proc
def tiles(x: f32[64, 16] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            D: f32[1, 64, 16] @ Sm90_RmemMatrixD(64, 16)
            odd: f32[1, 60, 16] @ Sm90_RmemMatrixD(60, 16)
            whole: i32[16, 8] @ Sm80_RmemMatrixA(16, 8)
            rows: f32[64, 4] @ Sm90_RmemRows(64)
            r: f32[128, 4]
            for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                for m, n in fragment(D[wg, :, :]):
                    D[wg, m, n] = x[m, n]
                    rows[m] = D[wg, m, n]
                for m in fragment(rows):
                    rows[m] = 0.0
                for m, n in fragment(D):  # expect: T248
                    pass
                for m, n in fragment(D[wg, 0:32, :]):  # expect: T248
                    pass
                for m, n in fragment(r):  # expect: T248
                    pass
                for m, n in fragment(odd[wg, :, :]):  # expect: T248
                    pass
                for m, n in fragment():  # expect: P120
                    pass
                for m in fragment(D[wg, :, :]):  # expect: P116
                    pass
                for m, m in fragment(D[wg, :, :]):  # expect: P116
                    pass
                for m, n, k in fragment(D[wg, :, :]):  # expect: P116
                    pass
                rows[0] = 0.0  # expect: T205


@proc
def on_the_cpu(D: f32[64, 16]):
    for m, n in fragment(D):  # expect: S310
        D[m, n] = 0.0
