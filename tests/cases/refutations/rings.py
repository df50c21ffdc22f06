"""Rings of which one thing is wrong, and the repair keeps the pipeline going.

# proved group
# refuted group_left: BARRIER
#     | add `for t in cuda_threads(0, 128, unit=cuda_thread): Await(cg[t], cuda_in_order, 0)`
#     after line {reads} | proved
# proved pipe
# refuted never_released: BARRIER DEADLOCK WAR WAW PHASE
#     | add `Arrive(cuda_in_order) >> empty` after line {used}, | proved
# refuted released_in_flight: WAR
#     | release in each step the slot of the step before: put `if k > 0:` before the Arrive of
#     line {release} | proved
# refuted begins_anew: WAR
#     | index tile by slot(full) at line {loaded} and by slot(empty) at line {summed}, in the
#     place of k % 3 | proved
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm80 import Sm80_cp_async_copy
from exogpu.isa.sm90 import *


def doubled(name: str, drain: bool) -> Procedure:
    """Two buffers, of which the last group is waited for after the loop, or never."""

    @proc(name=name)
    def double(K: size, x: f32[K, 512] @ CudaGmemLinear, y: f32[K, 512] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                tile: f32[2, 512] @ CudaSmemLinear
                cg: barrier[128] @ CudaCommitGroup
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    Sm80_cp_async_copy(tile[0, 4 * t : 4 * t + 4], x[0, 4 * t : 4 * t + 4])
                    Arrive(Sm80_cp_async) >> cg[t]
                for k in seq(0, K):
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        if k + 1 < K:
                            Sm80_cp_async_copy(
                                tile[(k + 1) % 2, 4 * t : 4 * t + 4], x[k + 1, 4 * t : 4 * t + 4]
                            )
                        Arrive(Sm80_cp_async) >> cg[t]
                        Await(cg[t], cuda_in_order, 1)
                    Fence(cuda_in_order, cuda_in_order)
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        for i in seq(0, 4):
                            y[k, 128 * i + t] = tile[k % 2, 511 - 128 * i - t]
                    Fence(cuda_in_order, cuda_in_order)  # [reads]
                if drain:
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        Await(cg[t], cuda_in_order, 0)

    return double


group = doubled("group", True)
group_left = doubled("group_left", False)

ROLES = [CudaWarpConfig("load", 4), CudaWarpConfig("multiply", 4)]


def pipeline(name: str, left: int = 0, release: bool = True) -> Procedure:
    """Products of tiles that TMA loads: so many groups are left in flight when a slot is released,
    or it never is."""

    @proc(name=name)
    def products(
        M: size,
        K: size,
        A: bf16[M, K] @ CudaGmemLinear,
        B: bf16[64, 64] @ CudaGmemLinear,
        C: f32[M, 64] @ CudaGmemLinear,
    ):
        assert K % 8 == 0
        A_map = A[:, :] @ Sm90_tensorMap(128, 64, 64)
        B_map = B[:, :] @ Sm90_tensorMap(128, 64, 64)
        with CudaDeviceFunction(warp_config=ROLES):
            for m in cuda_tasks(0, (M + 63) / 64):
                A_smem: bf16[4, 64, 64] @ Sm90_SmemSwizzled(128)
                B_smem: bf16[64, 64] @ Sm90_SmemSwizzled(128)
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                once: barrier @ CudaMbarrier
                cg: barrier @ CudaCommitGroup
                with CudaWarps(0, 1, name="load"):
                    load(B_smem[:, :], B_map[:, :], once)
                with CudaWarps(name="multiply"):
                    Await(once, cuda_generic_and_async, ~0)
                    Sm90_zero_scale_d(D[:, :], N=64)
                for k in seq(0, (K + 63) / 64):
                    with CudaWarps(0, 1, name="load"):
                        Await(empty, cuda_temporal, ~4)
                        c = 64 * k
                        load(A_smem[k % 4, :, :], A_map[64 * m : 64 * m + 64, c : c + 64], full)
                    with CudaWarps(name="multiply"):
                        Await(full, cuda_generic_and_async, ~0)
                        Fence(wgmma_fence_1, wgmma_fence_2)
                        multiply(D, A_smem[k % 4, :, :], B_smem)
                        Arrive(wgmma_async) >> cg
                        Await(cg, cuda_in_order, left)  # [used]
                        if release:
                            Arrive(cuda_in_order) >> empty  # [release]
                with CudaWarps(name="multiply"):
                    Await(cg, cuda_in_order, 0)
                    Sm90_store_D(M - 64 * m, 64, C[64 * m : 64 * m + 64, :], D[:, :], N=64)
                Fence(cuda_in_order, cuda_in_order)

    return products


@macro
def load(tile, source, full):
    Sm90_tma_load(tile, source, rows=64, cols=64, box=(64, 64), dtype=bf16) >> full
    Arrive(cuda_temporal) >> full


@macro
def multiply(D, A_tile, B_tile):
    for kk in seq(0, 4):
        Sm90_wgmma_f16(
            D[:, :],
            A_tile[:, 16 * kk : 16 * kk + 16],
            B_tile[:, 16 * kk : 16 * kk + 16],
            N=64,
            dtype=bf16,
        )


pipe = pipeline("pipe")
never_released = pipeline("never_released", release=False)
released_in_flight = pipeline("released_in_flight", left=1)


@proc
def begins_anew(
    M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear
):
    with CudaDeviceFunction(blockDim=64):
        tile: f32[3, 32] @ CudaSmemLinear
        full: barrier @ CudaMbarrier
        empty: barrier(full) @ CudaMbarrier
        for m in cuda_tasks(0, M):
            sums: f32[32] @ CudaRmem
            with CudaWarps(1, 2):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    sums[t] = 0.0
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    Await(empty, cuda_in_order, ~3)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[k % 3, t] = x[m, k, t]  # [loaded]
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        sums[t] += tile[k % 3, 31 - t]  # [summed]
                    Arrive(cuda_in_order) >> empty
            with CudaWarps(1, 2):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] = sums[t]
