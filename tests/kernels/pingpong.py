"""C[l, m, n] = sum over k of A[l, m, k] * B[l, n, k], for Hopper, two tiles in turn.

Each of two consumer warpgroups has a tile of its own.  One producer warp fills one ring for both,
from task to task: they await its phases in turn, so that while one multiplies, the other stores.
docs/performance.md says why it does not ship.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.language import f32
from exogpu.ir.types import DataType
from exogpu.isa.sm90 import Sm90_zero_scale_d
from tests.kernels.two_consumers import WARPS, pieces


def make_pingpong(TM: int, TN: int, RING: int, dtype: DataType = f32) -> Procedure:
    """The kernel for tiles of TM x TN, with a ring of so many steps of 128 bytes a row."""
    use = pieces(TM, TN, dtype)
    load, multiply, store = use.load, use.multiply, use.store
    TK = 128 // dtype.bytes
    KK = 32 // dtype.bytes
    CHUNK = 16 // dtype.bytes
    kind = "" if dtype is f32 else f"_{dtype.value}"

    @macro
    def part(
        second,
        consumer,
        steps,
        batch,
        row,
        column,
        A_map,
        B_map,
        C,
        M,
        N,
        A_smem,
        B_smem,
        full,
        empty,
        mine,
        other,
    ):
        """One of the two tiles of a task."""
        D: f32[TM, TN] @ Sm90_RmemMatrixD(TM, TN)
        cg: barrier @ CudaCommitGroup
        with CudaWarps(name=consumer):
            Sm90_zero_scale_d(D[:, :], M=TM, N=TN)
            Fence(wgmma_fence_1, wgmma_fence_2)
            if second:
                Await(mine, cuda_in_order, ~0)
            else:
                Await(mine, cuda_in_order, ~1)
        for k in seq(0, steps):
            with CudaWarps(name="producer"):
                Await(empty, cuda_temporal, ~RING)
                load(A_smem[k % RING, :, :], A_map, batch, row, k, full, TM)
                load(B_smem[k % RING, :, :], B_map, batch, column, k, full, TN)
                Arrive(cuda_temporal) >> full
            with CudaWarps(name=consumer):
                Await(full, cuda_generic_and_async, ~0)
                for kk in seq(0, 4):
                    multiply(
                        D[:, :],
                        A_smem[k % RING, :, KK * kk : KK * kk + KK],
                        B_smem[k % RING, :, KK * kk : KK * kk + KK],
                    )
                Arrive(wgmma_async) >> cg
                Await(cg, cuda_in_order, 0)
                Arrive(cuda_in_order) >> empty
        with CudaWarps(name=consumer):
            Arrive(cuda_temporal) >> other
            store(M - row, N - column, C[batch, row : row + TM, column : column + TN], D[:, :])

    @proc(name=f"gemm_pingpong{kind}_sm90_{TM}x{TN}")
    def gemm_pingpong(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        A: dtype[L, M, cluster_K] @ CudaGmemLinear,
        B: dtype[L, N, cluster_K] @ CudaGmemLinear,
        C: dtype[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % CHUNK == 0  # TMA strides are multiples of 16 bytes
        A_map = A[:, :, :] @ Sm90_tensorMap(128, 1, TM, TK)
        B_map = B[:, :, :] @ Sm90_tensorMap(128, 1, TN, TK)
        with CudaDeviceFunction(warp_config=WARPS):
            A_smem: dtype[RING, TM, TK] @ Sm90_SmemSwizzled(128)
            B_smem: dtype[RING, TN, TK] @ Sm90_SmemSwizzled(128)
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            turn_1: barrier @ CudaMbarrier
            turn_0: barrier(turn_1) @ CudaMbarrier
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + 2 * TM - 1) / (2 * TM)):
                    for tn in cuda_tasks(0, (N + TN - 1) / TN):
                        steps = RING * ((cluster_K + TK * RING - 1) / (TK * RING))
                        part(
                            0,
                            "consumer_0",
                            steps,
                            batch,
                            2 * TM * tm,
                            TN * tn,
                            A_map,
                            B_map,
                            C,
                            M,
                            N,
                            A_smem,
                            B_smem,
                            full,
                            empty,
                            turn_0,
                            turn_1,
                        )
                        part(
                            1,
                            "consumer_1",
                            steps,
                            batch,
                            2 * TM * tm + TM,
                            TN * tn,
                            A_map,
                            B_map,
                            C,
                            M,
                            N,
                            A_smem,
                            B_smem,
                            full,
                            empty,
                            turn_1,
                            turn_0,
                        )

    return gemm_pingpong
