"""C[m, n] = sum over k of A[m, k] * B[n, k], tf32, for sm_80: cp.async and mma.sync.

Four warps a CTA, each with a 32 x 32 part of a 64 x 64 tile; shared memory is double-buffered.
"""

from __future__ import annotations

from exogpu.api import proc
from exogpu.isa.sm80 import (
    Sm80_cp_async_copy_zfill,
    Sm80_load_A,
    Sm80_load_B,
    Sm80_mma_tf32,
    Sm80_store_D,
    Sm80_zero_D,
)


@proc
def gemm_sm80(
    M: size,
    N: size,
    K: size,
    A: f32[M, K] @ CudaGmemLinear,
    B: f32[N, K] @ CudaGmemLinear,
    C: f32[M, N] @ CudaGmemLinear,
):
    assert K % 4 == 0  # rows are copied in pieces of 16 bytes
    with CudaDeviceFunction(blockDim=128):
        for tm in cuda_tasks(0, (M + 63) / 64):
            for tn in cuda_tasks(0, (N + 63) / 64):
                A_smem: f32[2, 64, 16] @ CudaSmemLinear
                B_smem: f32[2, 64, 16] @ CudaSmemLinear
                D: f32[4, 2, 4, 16, 8] @ Sm80_RmemMatrixD(16, 8)
                cg: barrier[128] @ CudaCommitGroup
                for w in cuda_threads(0, 4, unit=cuda_warp):
                    for i in seq(0, 2):
                        for j in seq(0, 4):
                            Sm80_zero_D(D[w, i, j, :, :])
                for k in seq(0, (K + 15) / 16 + 1):
                    if k < (K + 15) / 16:
                        for t in cuda_threads(0, 128, unit=cuda_thread):
                            for r in seq(0, 2):
                                if 64 * tm + 32 * r + t / 4 >= M:  # products are not stored
                                    uninit(
                                        A_smem[k % 2, 32 * r + t / 4, 4 * (t % 4) : 4 * (t % 4) + 4]
                                    )
                                if 64 * tm + 32 * r + t / 4 < M:
                                    Sm80_cp_async_copy_zfill(
                                        K - 16 * k - 4 * (t % 4),
                                        A_smem[
                                            k % 2, 32 * r + t / 4, 4 * (t % 4) : 4 * (t % 4) + 4
                                        ],
                                        A[
                                            64 * tm + 32 * r + t / 4,
                                            16 * k + 4 * (t % 4) : 16 * k + 4 * (t % 4) + 4,
                                        ],
                                    )
                                if 64 * tn + 32 * r + t / 4 >= N:  # products are not stored
                                    uninit(
                                        B_smem[k % 2, 32 * r + t / 4, 4 * (t % 4) : 4 * (t % 4) + 4]
                                    )
                                if 64 * tn + 32 * r + t / 4 < N:
                                    Sm80_cp_async_copy_zfill(
                                        K - 16 * k - 4 * (t % 4),
                                        B_smem[
                                            k % 2, 32 * r + t / 4, 4 * (t % 4) : 4 * (t % 4) + 4
                                        ],
                                        B[
                                            64 * tn + 32 * r + t / 4,
                                            16 * k + 4 * (t % 4) : 16 * k + 4 * (t % 4) + 4,
                                        ],
                                    )
                            Arrive(Sm80_cp_async) >> cg[t]
                    if k >= 1:
                        for t in cuda_threads(0, 128, unit=cuda_thread):
                            if k < (K + 15) / 16:
                                Await(cg[t], cuda_in_order, 1)
                            else:
                                Await(cg[t], cuda_in_order, 0)
                        Fence(cuda_in_order, cuda_in_order)
                        for w in cuda_threads(0, 4, unit=cuda_warp):
                            for kk in seq(0, 2):
                                A_reg: f32[4, 2, 16, 8] @ Sm80_RmemMatrixA(16, 8)
                                B_reg: f32[4, 4, 8, 8] @ Sm80_RmemMatrixB(8, 8)
                                for i in seq(0, 2):
                                    Sm80_load_A(
                                        A_reg[w, i, :, :],
                                        A_smem[
                                            (k + 1) % 2,
                                            32 * (w / 2) + 16 * i : 32 * (w / 2) + 16 * i + 16,
                                            8 * kk : 8 * kk + 8,
                                        ],
                                    )
                                for j in seq(0, 4):
                                    Sm80_load_B(
                                        B_reg[w, j, :, :],
                                        B_smem[
                                            (k + 1) % 2,
                                            32 * (w % 2) + 8 * j : 32 * (w % 2) + 8 * j + 8,
                                            8 * kk : 8 * kk + 8,
                                        ],
                                    )
                                for i in seq(0, 2):
                                    for j in seq(0, 4):
                                        Sm80_mma_tf32(
                                            D[w, i, j, :, :],
                                            A_reg[w, i, :, :],
                                            B_reg[w, j, :, :],
                                        )
                        Fence(cuda_in_order, cuda_in_order)
                for w in cuda_threads(0, 4, unit=cuda_warp):
                    for i in seq(0, 2):
                        for j in seq(0, 4):
                            Sm80_store_D(
                                M - 64 * tm - 32 * (w / 2) - 16 * i,
                                N - 64 * tn - 32 * (w % 2) - 8 * j,
                                C[
                                    64 * tm + 32 * (w / 2) + 16 * i : 64 * tm
                                    + 32 * (w / 2)
                                    + 16 * i
                                    + 16,
                                    64 * tn + 32 * (w % 2) + 8 * j : 64 * tn
                                    + 32 * (w % 2)
                                    + 8 * j
                                    + 8,
                                ],
                                D[w, i, j, :, :],
                            )
