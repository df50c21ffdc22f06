"""C = A times the transpose of B, bf16 with sums in f32: a TMA ring, and wgmma on its slots."""

from __future__ import annotations

from exogpu import CudaWarpConfig, bf16, macro, proc
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_load, Sm90_wgmma_f16, Sm90_zero_scale_d

WARPS = [
    CudaWarpConfig("producer", 1, 0, 0),
    CudaWarpConfig("unused", 3, 0, 0),
    CudaWarpConfig("consumer", 4, 0, 0),
]


@macro
def load(slot, tile, rows, full):
    Sm90_tma_load(slot, tile, rows=rows, cols=64, box=(rows, 64), dtype=bf16) >> full


@macro
def multiply(D, A, B):
    for kk in seq(0, 4):
        ks = 16 * kk
        Sm90_wgmma_f16(D[:, :], A[:, ks : ks + 16], B[:, ks : ks + 16], N=128, dtype=bf16)


@proc
def product(
    M: size,
    N: size,
    K: size,
    A: bf16[M, K] @ CudaGmemLinear,
    B: bf16[N, K] @ CudaGmemLinear,
    C: f32[M, N] @ CudaGmemLinear,
):
    assert K % 8 == 0
    A_map = A[:, :] @ Sm90_tensorMap(128, 64, 64)
    B_map = B[:, :] @ Sm90_tensorMap(128, 128, 64)
    with CudaDeviceFunction(warp_config=WARPS):
        for tm in cuda_tasks(0, (M + 63) / 64):
            for tn in cuda_tasks(0, (N + 127) / 128):
                A_tile: bf16[4, 64, 64] @ Sm90_SmemSwizzled(128)
                B_tile: bf16[4, 128, 64] @ Sm90_SmemSwizzled(128)
                D: f32[64, 128] @ Sm90_RmemMatrixD(64, 128)
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                done: barrier @ CudaCommitGroup
                with CudaWarps(name="consumer"):
                    Sm90_zero_scale_d(D[:, :], M=64, N=128)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                for k in seq(0, (K + 63) / 64):
                    with CudaWarps(name="producer"):
                        Await(empty, cuda_temporal, ~4)
                        cols = 64 * k
                        load(
                            A_tile[k % 4, :, :],
                            A_map[64 * tm : 64 * tm + 64, cols : cols + 64],
                            64,
                            full,
                        )
                        load(
                            B_tile[k % 4, :, :],
                            B_map[128 * tn : 128 * tn + 128, cols : cols + 64],
                            128,
                            full,
                        )
                        Arrive(cuda_temporal) >> full
                    with CudaWarps(name="consumer"):
                        Await(full, cuda_generic_and_async, ~0)
                        multiply(D, A_tile[k % 4, :, :], B_tile[k % 4, :, :])
                        Arrive(wgmma_async) >> done
                        Await(done, cuda_in_order, 0)
                        Arrive(cuda_in_order) >> empty
                with CudaWarps(name="consumer"):
                    Sm90_store_D(
                        M - 64 * tm,
                        N - 128 * tn,
                        C[64 * tm : 64 * tm + 64, 128 * tn : 128 * tn + 128],
                        D[:, :],
                        N=128,
                    )
                Fence(cuda_in_order, cuda_in_order)
