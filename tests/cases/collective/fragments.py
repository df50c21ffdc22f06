"""Elements of register tiles: each line ends in the code that it draws, if any."""

from __future__ import annotations

from exogpu import *
from exogpu.hw.language import bf16
from exogpu.isa.rows import Sm90_row_max
from exogpu.isa.sm80 import Sm80_zero_D


@proc
def own_elements(x: f32[64, 16] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=256):
        for task in cuda_tasks(0, 1):
            D: f32[2, 64, 16] @ Sm90_RmemMatrixD(64, 16)
            A: bf16[2, 64, 16] @ Sm90_RmemMatrixA(64)
            rows: f32[2, 64, 4] @ Sm90_RmemRows(64)
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                for m, n in fragment(D[wg, :, :]):
                    if m + 16 * wg < 20:
                        D[wg, m, n] = x[m, n]
                    else:
                        D[wg, m, n] = 0.0
                Sm90_row_max(rows[wg, :, :], D[wg, :, :], N=16)
                for m, n in fragment(A[wg, :, :]):
                    A[wg, m, n] = D[wg, m, n] - rows[wg, m]
                for m in fragment(rows[wg, :, :]):
                    rows[wg, m] += 1.0
                for m, copy in fragment(rows[wg, :, :]):
                    if copy == 1:
                        x[m, 0] = rows[wg, m, copy]


@proc
def the_next_column(x: f32[16, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            D: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)
            for w in cuda_threads(0, 1, unit=cuda_warp):
                Sm80_zero_D(D[:, :])
                for m, n in fragment(D):
                    D[m, n] = D[m, (n + 1) % 8]  # expect: D518


@proc
def the_neighbour_in_a_register(x: f32[16, 8] @ CudaGmemLinear):
    """The two columns of a pair, and the rows 8 apart, are one thread's."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            D: f32[2, 16, 8] @ Sm80_RmemMatrixD(16, 8)
            for w in cuda_threads(0, 1, unit=cuda_warp):
                for m, n in fragment(D[0, :, :]):
                    D[0, m, n] = 1.0
                for m, n in fragment(D[1, :, :]):
                    D[1, m, n] = D[0, (m + 8) % 16, 2 * (n / 2) + (n + 1) % 2]


@proc
def the_lanes_in_rows(x: f32[16, 8] @ CudaGmemLinear):
    """A loop over threads that is not the fragment's."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            D: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)
            for w in cuda_threads(0, 1, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, 4):
                        D[t / 2, 4 * (t % 2) + i] = 0.0  # expect: D518


@proc
def by_hand(x: f32[16, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            D: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)
            for w in cuda_threads(0, 1, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, 4):
                        D[8 * (i / 2) + t / 4, 2 * (t % 4) + i % 2] = 0.0


@proc
def another_copy(x: f32[64, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            D: f32[64, 8] @ Sm90_RmemMatrixD(64, 8)
            rows: f32[64, 4] @ Sm90_RmemRows(64)
            for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                for m, n in fragment(D):
                    D[m, n] = x[m, n]
                Sm90_row_max(rows[:, :], D[:, :], N=8)
                for m, n in fragment(D):
                    D[m, n] = rows[m, 0]  # expect: D518


@proc
def another_row(x: f32[64, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            D: f32[64, 8] @ Sm90_RmemMatrixD(64, 8)
            rows: f32[64, 4] @ Sm90_RmemRows(64)
            for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                for m, n in fragment(D):
                    D[m, n] = x[m, n]
                Sm90_row_max(rows[:, :], D[:, :], N=8)
                for m, n in fragment(D):
                    D[m, n] = rows[(m + 1) % 64]  # expect: D518


@proc
def an_operand_of_tf32(x: f32[64, 8] @ CudaGmemLinear):
    """Of tf32 the A operand lies elsewhere than the accumulator."""
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            D: f32[64, 8] @ Sm90_RmemMatrixD(64, 8)
            A: f32[64, 8] @ Sm90_RmemMatrixA(64)
            for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                for m, n in fragment(D):
                    D[m, n] = x[m, n]
                for m, n in fragment(D):
                    A[m, n] = D[m, n]  # expect: D518


@proc
def the_other_warpgroup(x: f32[64, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=256):
        for task in cuda_tasks(0, 1):
            D: f32[2, 64, 8] @ Sm90_RmemMatrixD(64, 8)
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                for m, n in fragment(D[wg, :, :]):
                    D[wg, m, n] = x[m, n]
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                for m, n in fragment(D[wg, :, :]):
                    x[m, n] = D[1 - wg, m, n]  # expect: D501


@proc
def at_the_scope_of_a_warp(x: f32[64, 8] @ CudaGmemLinear):
    """Each warp's 32 threads would be taken for the 128 of the tile."""
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            D: f32[64, 8] @ Sm90_RmemMatrixD(64, 8)
            for w in cuda_threads(0, 4, unit=cuda_warp):
                for m, n in fragment(D):  # expect: C402
                    D[m, n] = 0.0
