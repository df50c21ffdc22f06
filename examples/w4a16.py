"""Weights of 4 bits: Y[m, n] is the sum over k of (W[n, k] - 8) * S[k / 128, n] * X[m, k].

Two weights lie in a byte, that of an even k in the lower half.  They are decoded into registers,
where wgmma takes them as its first operand.

exogpu compile examples/w4a16.py -o build --cubin
"""

from __future__ import annotations

from exogpu import *
from exogpu.platforms.sm90 import *

TM, TN, TK, RING = 128, 128, 64, 4
WARPS = [
    CudaWarpConfig("producer", 1, 40, 0),
    CudaWarpConfig("unused", 3, 40, 0),
    CudaWarpConfig("consumer", 8, 0, 232),
]


@proc
def w4a16(
    M: size,
    N: size,
    K: size,
    W: ui8[N, K // 2] @ CudaGmemLinear,
    S: f32[K // 128, N] @ CudaGmemLinear,
    X: bf16[M, K] @ CudaGmemLinear,
    Y: bf16[M, N] @ CudaGmemLinear,
):
    assert K % 128 == 0
    W_map = W[:, :] @ Sm90_tensorMap(32, TN, 32)
    X_map = X[:, :] @ Sm90_tensorMap(128, TM, TK)
    with CudaDeviceFunction(warp_config=WARPS):
        for tn in cuda_tasks(0, (N + TN - 1) / TN):
            for tm in cuda_tasks(0, (M + TM - 1) / TM):
                W_smem: ui8[RING, TN, TK // 2] @ Sm90_SmemSwizzled(32)
                X_smem: bf16[RING, TM, TK] @ Sm90_SmemSwizzled(128)
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                cg: barrier[2] @ CudaCommitGroup
                D: f32[2, 64, TM] @ Sm90_RmemMatrixD(64, TM)
                a: bf16[2, TK // 16, 64, 16] @ Sm90_RmemMatrixA(64)
                with CudaWarps(name="consumer"):
                    for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                        Sm90_zero_scale_d(D[wg, :, :], M=64, N=TM)
                for k in seq(0, K / TK):
                    with CudaWarps(name="producer"):
                        Await(empty, cuda_generic_and_async, ~RING)
                        (
                            Sm90_tma_load(
                                W_smem[k % RING, :, :],
                                W_map[TN * tn : TN * tn + TN, 32 * k : 32 * k + 32],
                                rows=TN,
                                cols=32,
                                box=(TN, 32),
                                swizzle=32,
                                dtype=ui8,
                            )
                            >> full
                        )
                        (
                            Sm90_tma_load(
                                X_smem[k % RING, :, :],
                                X_map[TM * tm : TM * tm + TM, TK * k : TK * k + TK],
                                rows=TM,
                                cols=TK,
                                box=(TM, TK),
                                dtype=bf16,
                            )
                            >> full
                        )
                        Arrive(cuda_temporal) >> full
                    with CudaWarps(name="consumer"):
                        Await(full, cuda_generic_and_async, ~0)
                        for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                            for kk in seq(0, TK // 16):
                                for m, c in fragment(a[wg, kk, :, :]):
                                    b: ui8
                                    weight: f32
                                    scale: f32
                                    b = W_smem[k % RING, 64 * wg + m, 8 * kk + c / 2]
                                    scale = 0.0
                                    if TN * tn + 64 * wg + m < N:
                                        scale = S[k / 2, TN * tn + 64 * wg + m]
                                    weight = f32(b & 15)
                                    if c % 2 == 1:
                                        weight = f32(b >> 4)
                                    a[wg, kk, m, c] = (weight - 8.0) * scale
                            Fence(wgmma_fence_1, wgmma_fence_2)
                            for kk in seq(0, TK // 16):
                                Sm90_wgmma_rs_f16(
                                    D[wg, :, :],
                                    a[wg, kk, :, :],
                                    X_smem[k % RING, :, 16 * kk : 16 * kk + 16],
                                    N=TM,
                                    dtype=bf16,
                                )
                            Arrive(wgmma_async) >> cg[wg]
                            Await(cg[wg], cuda_in_order, 0)
                        Arrive(cuda_in_order) >> empty
                with CudaWarps(name="consumer"):
                    for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                        for n, m in fragment(D[wg, :, :]):
                            if TN * tn + 64 * wg + n < N and TM * tm + m < M:
                                Y[TM * tm + m, TN * tn + 64 * wg + n] = D[wg, n, m]
                Fence(cuda_in_order, cuda_in_order)
