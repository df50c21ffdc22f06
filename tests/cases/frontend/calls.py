"""Calls of instructions and procedures."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.cuda import cuda_load
from exogpu.isa.sm90 import Sm90_tma_load, Sm90_tma_load_tf32, Sm90_tma_store, Sm90_wgmma_tf32


@proc
def callee(n: size, x: f32[n]):
    x[0] = 1


@proc
def caller(M: size, x: f32[M], y: f32[M, M], k: i32[M], g: f32[M] @ CudaGmemLinear):
    callee(M, x[:])
    callee(M - 1, y[0, 1:M])
    callee(M)  # expect: T222
    callee(M, x[:], m=3)  # expect: T222
    callee(M, x=x[:])
    callee(M, y[:, :])  # expect: T224
    callee(M, k[:])  # expect: T225
    callee(M, g[:])  # expect: T227
    callee(M, 3.0)  # expect: T223
    callee(M, x[:]) >> x[0]  # expect: T220


@proc
def kernel(g: f32[64, 32] @ CudaGmemLinear):
    g_map = g[:, :] @ Sm90_tensorMap(128, 64, 32)
    r_map = g[:, :] @ Sm90_tensorMap_tf32(128, 64, 32)
    with CudaDeviceFunction(blockDim=128):
        for t in cuda_tasks(0, 1):
            s: f32[64, 32] @ Sm90_SmemSwizzled(128)
            D: f32[64, 256] @ Sm90_RmemMatrixD(64, 256)
            z: barrier @ CudaMbarrier
            cg: barrier @ CudaCommitGroup
            Sm90_tma_load(s[:, :], g_map[:, :], rows=64, cols=32, box=(64, 32)) >> z
            Sm90_tma_load(s[:, :], g_map[:, :], rows=64, cols=32, box=(64, 32))  # expect: T228
            Sm90_tma_load(s, g_map, rows=64, cols=32, box=(64, 32)) >> cg  # expect: T230
            Sm90_tma_load(s[:, :], g[:, :], rows=64, cols=32, box=(64, 32)) >> z  # expect: T226
            Sm90_tma_load(s[:, :], g_map[:, :], rows=64, cols=32) >> z  # expect: T221
            Sm90_wgmma_tf32(D[:, :], s[:, 0:8], s[:, 0:8], N=257)  # expect: T221
            cuda_load(s[0, 0:4], s[0, 4:8])  # expect: T227
            Sm90_tma_load_tf32(s[:, :], r_map[:, :], rows=64, cols=32, box=(64, 32)) >> z
            (
                Sm90_tma_load_tf32(
                    s[:, :],
                    g_map[:, :],  # expect: T226
                    rows=64,
                    cols=32,
                    box=(64, 32),
                )
                >> z
            )
            Sm90_tma_load(s[:, :], r_map[:, :], rows=64, cols=32, box=(64, 32)) >> z  # expect: T226
            Sm90_tma_store(
                r_map[:, :],  # expect: T226
                s[:, :],
                rows=64,
                cols=32,
                box=(64, 32),
                swizzle=128,
            )
            callee(4, g[0, 0:4])  # expect: S304
            callee.name()  # expect: P111
