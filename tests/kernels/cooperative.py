"""C[l, m, n] = sum over k of A[l, m, k] * B[l, n, k], for Hopper, by two consumers' own code.

One producer warp fills a ring; each of two consumer roles has half of a tile's rows.  They share
the ring: a phase of `full` is awaited by both, and one of `empty` is over when both have arrived.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.language import bf16, f32
from exogpu.ir.types import DataType
from exogpu.isa.sm90 import Sm90_zero_scale_d
from tests.kernels.two_consumers import WARPS, pieces


def make_cooperative(TM: int, TN: int, RING: int, dtype: DataType = bf16) -> Procedure:
    """The kernel for tiles of 2 TM x TN, with a ring of so many steps of 128 bytes a row."""
    use = pieces(TM, TN, dtype)
    load, multiply, store = use.load, use.multiply, use.store
    TK = 128 // dtype.bytes
    KK = 32 // dtype.bytes
    CHUNK = 16 // dtype.bytes
    kind = "" if dtype is f32 else f"_{dtype.value}"

    @macro
    def zero(D, consumer):
        with CudaWarps(name=consumer):
            Sm90_zero_scale_d(D[:, :], M=TM, N=TN)
            Fence(wgmma_fence_1, wgmma_fence_2)

    @macro
    def consume(D, cg, consumer, role, slot, A_smem, B_smem, full, empty):
        with CudaWarps(name=consumer):
            Await(full[role], cuda_generic_and_async, ~0)
            for kk in seq(0, 4):
                multiply(
                    D[:, :],
                    A_smem[slot, TM * role : TM * role + TM, KK * kk : KK * kk + KK],
                    B_smem[slot, :, KK * kk : KK * kk + KK],
                )
            Arrive(wgmma_async) >> cg
            Await(cg, cuda_in_order, 0)
            Arrive(cuda_in_order) >> empty[role]

    @macro
    def finish(D, consumer, C, batch, row, column, M, N):
        with CudaWarps(name=consumer):
            store(M - row, N - column, C[batch, row : row + TM, column : column + TN], D[:, :])

    @proc(name=f"gemm_cooperative{kind}_sm90_{2 * TM}x{TN}")
    def gemm_cooperative(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        A: dtype[L, M, cluster_K] @ CudaGmemLinear,
        B: dtype[L, N, cluster_K] @ CudaGmemLinear,
        C: dtype[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % CHUNK == 0  # TMA strides are multiples of 16 bytes
        A_map = A[:, :, :] @ Sm90_tensorMap(128, 1, 2 * TM, TK)
        B_map = B[:, :, :] @ Sm90_tensorMap(128, 1, TN, TK)
        with CudaDeviceFunction(warp_config=WARPS):
            A_smem: dtype[RING, 2 * TM, TK] @ Sm90_SmemSwizzled(128)
            B_smem: dtype[RING, TN, TK] @ Sm90_SmemSwizzled(128)
            full: barrier[2] @ CudaMbarrier
            empty: barrier(full)[2] @ CudaMbarrier
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + 2 * TM - 1) / (2 * TM)):
                    for tn in cuda_tasks(0, (N + TN - 1) / TN):
                        D0: f32[TM, TN] @ Sm90_RmemMatrixD(TM, TN)
                        D1: f32[TM, TN] @ Sm90_RmemMatrixD(TM, TN)
                        cg0: barrier @ CudaCommitGroup
                        cg1: barrier @ CudaCommitGroup
                        zero(D0, "consumer_0")
                        zero(D1, "consumer_1")
                        steps = RING * ((cluster_K + TK * RING - 1) / (TK * RING))
                        for k in seq(0, steps):
                            with CudaWarps(name="producer"):
                                Await(empty[:], cuda_temporal, ~RING)
                                load(
                                    A_smem[k % RING, :, :],
                                    A_map,
                                    batch,
                                    2 * TM * tm,
                                    k,
                                    full[:],
                                    2 * TM,
                                )
                                load(B_smem[k % RING, :, :], B_map, batch, TN * tn, k, full[:], TN)
                                Arrive(cuda_temporal) >> full[:]
                            consume(D0, cg0, "consumer_0", 0, k % RING, A_smem, B_smem, full, empty)
                            consume(D1, cg1, "consumer_1", 1, k % RING, A_smem, B_smem, full, empty)
                        finish(D0, "consumer_0", C, batch, 2 * TM * tm, TN * tn, M, N)
                        finish(D1, "consumer_1", C, batch, 2 * TM * tm + TM, TN * tn, M, N)

    return gemm_cooperative
