"""C[m, n] = sum over k of A[m, k] * B[n, k], bf16 or f16, for sm_80: cp.async, ldmatrix, mma.sync.

Eight warps a CTA, each with a 64 x 32 part of a 128 x 128 tile; sums are f32.  Of four stages in
shared memory one is read, two are on the way, and one was read last: a barrier a step.  Rows have
room for 40 elements, so that eight of them lie in different banks.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.hw.language import bf16, f16
from exogpu.ir.types import DataType
from exogpu.isa.ldmatrix import Sm80_ldmatrix_A, Sm80_ldmatrix_B
from exogpu.isa.sm80 import Sm80_cp_async_copy_zfill, Sm80_mma_f16, Sm80_zero_D


def make_gemm_sm80(dtype: DataType) -> Procedure:
    """The kernel for bf16 or f16."""

    @proc(name=f"gemm_{dtype.value}_sm80")
    def gemm_half_sm80(
        M: size,
        N: size,
        K: size,
        A: dtype[M, K] @ CudaGmemLinear,
        B: dtype[N, K] @ CudaGmemLinear,
        C: dtype[M, N] @ CudaGmemLinear,
    ):
        assert K % 8 == 0  # rows are copied in pieces of 16 bytes
        with CudaDeviceFunction(blockDim=256):
            for tm in cuda_tasks(0, (M + 127) / 128):
                for tn in cuda_tasks(0, (N + 127) / 128):
                    A_smem: dtype[4, 128, 40] @ CudaSmemLinear
                    B_smem: dtype[4, 128, 40] @ CudaSmemLinear
                    D: f32[8, 4, 4, 16, 8] @ Sm80_RmemMatrixD(16, 8)
                    cg: barrier[256] @ CudaCommitGroup
                    for w in cuda_threads(0, 8, unit=cuda_warp):
                        for i in seq(0, 4):
                            for j in seq(0, 4):
                                Sm80_zero_D(D[w, i, j, :, :])
                    for k in seq(0, (K + 31) / 32 + 2):
                        for t in cuda_threads(0, 256, unit=cuda_thread):
                            if k < (K + 31) / 32:
                                column = 8 * (t % 4)
                                for r in seq(0, 2):
                                    row = 64 * r + t / 4
                                    if 128 * tm + row >= M:  # its products are not stored
                                        uninit(A_smem[k % 4, row, column : column + 8])
                                    if 128 * tm + row < M:
                                        Sm80_cp_async_copy_zfill(
                                            K - 32 * k - column,
                                            A_smem[k % 4, row, column : column + 8],
                                            A[
                                                128 * tm + row,
                                                32 * k + column : 32 * k + column + 8,
                                            ],
                                            n=8,
                                            dtype=dtype,
                                        )
                                    if 128 * tn + row >= N:  # its products are not stored
                                        uninit(B_smem[k % 4, row, column : column + 8])
                                    if 128 * tn + row < N:
                                        Sm80_cp_async_copy_zfill(
                                            K - 32 * k - column,
                                            B_smem[k % 4, row, column : column + 8],
                                            B[
                                                128 * tn + row,
                                                32 * k + column : 32 * k + column + 8,
                                            ],
                                            n=8,
                                            dtype=dtype,
                                        )
                            Arrive(Sm80_cp_async) >> cg[t]
                            Await(cg[t], cuda_in_order, 2)
                        # What was read two steps ago is overwritten in the next.
                        Fence(cuda_in_order, cuda_in_order)
                        if k >= 2:
                            for w in cuda_threads(0, 8, unit=cuda_warp):
                                for kk in seq(0, 2):
                                    A_reg: dtype[8, 4, 16, 16] @ Sm80_RmemMatrixA(16, 16)
                                    B_reg: dtype[8, 2, 2, 8, 16] @ Sm80_RmemMatrixB(8, 16)
                                    for i in seq(0, 4):
                                        row = 64 * (w / 4) + 16 * i
                                        Sm80_ldmatrix_A(
                                            A_reg[w, i, :, :],
                                            A_smem[
                                                (k + 2) % 4,
                                                row : row + 16,
                                                16 * kk : 16 * kk + 16,
                                            ],
                                            dtype=dtype,
                                        )
                                    for j in seq(0, 2):
                                        row = 32 * (w % 4) + 16 * j
                                        Sm80_ldmatrix_B(
                                            B_reg[w, j, :, :, :],
                                            B_smem[
                                                (k + 2) % 4,
                                                row : row + 16,
                                                16 * kk : 16 * kk + 16,
                                            ],
                                            dtype=dtype,
                                        )
                                    for i in seq(0, 4):
                                        for j in seq(0, 4):
                                            Sm80_mma_f16(
                                                D[w, i, j, :, :],
                                                A_reg[w, i, :, :],
                                                B_reg[w, j / 2, j % 2, :, :],
                                                dtype=dtype,
                                            )
                    for t in cuda_threads(0, 256, unit=cuda_thread):
                        Await(cg[t], cuda_in_order, 0)  # the last two are empty
                    Fence(cuda_in_order, cuda_in_order)
                    for w in cuda_threads(0, 8, unit=cuda_warp):
                        for i in seq(0, 4):
                            for j in seq(0, 4):
                                row = 128 * tm + 64 * (w / 4) + 16 * i
                                column = 128 * tn + 32 * (w % 4) + 8 * j
                                for m, n in fragment(D[w, i, j, :, :]):
                                    if row + m < M and column + n < N:
                                        C[row + m, column + n] = D[w, i, j, m, n]

    return gemm_half_sm80


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel for kernel in (make_gemm_sm80(bf16), make_gemm_sm80(f16))
}
"""By name."""
