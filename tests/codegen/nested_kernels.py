"""Kernels with a symbolic loop in a symbolic loop, whose barriers count on across the outer one."""

from __future__ import annotations

from exogpu import Procedure, proc
from exogpu.isa.sm80 import Sm80_cp_async_copy
from exogpu.isa.sm90 import Sm90_tma_multicast


def pipelined(in_flight: int, last: int) -> Procedure:
    """A copy is in flight while the one before is read; `i` begins anew."""

    @proc
    def pipelined(R: size, K: size, x: f32[4 * K] @ CudaGmemLinear, y: f32[K + 1] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                a: f32[2, 4] @ CudaSmemLinear
                cg: barrier @ CudaCommitGroup
                for i in seq(0, R):
                    for k in seq(0, K):
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            Sm80_cp_async_copy(a[k % 2, :], x[4 * k : 4 * k + 4], n=4)
                            Arrive(Sm80_cp_async) >> cg
                        if k >= 1:
                            for t in cuda_threads(0, 1, unit=cuda_thread):
                                Await(cg, cuda_in_order, in_flight)
                                y[k] = a[(k + 1) % 2, 0]
                        Fence(cuda_in_order, cuda_in_order)
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        Await(cg, cuda_in_order, last)
                        y[K] = a[(K + 1) % 2, 0]
                    Fence(cuda_in_order, cuda_in_order)

    return pipelined


def relay(ctas: int, skip: int) -> Procedure:
    """`R` times over `K` tiles, each sent to every CTA of a cluster, in one slot."""

    @proc
    def relay(
        R: size,
        K: size,
        x: f32[64 * K, 32] @ CudaGmemLinear,
        y: f32[ctas, 64 * K, 32] @ CudaGmemLinear,
    ):
        x_map = x[:, :] @ Sm90_tensorMap(128, 64 // ctas, 32)
        with CudaDeviceFunction(clusterDim=ctas, blockDim=256):
            for task in cuda_tasks(0, 1):
                tile: f32[ctas, 64, 32] @ Sm90_SmemSwizzled(128)
                full: barrier[ctas, 1] @ CudaMbarrier
                empty: barrier(full)[ctas, 1] @ CudaMbarrier
                for i in seq(0, R):
                    for k in seq(0, K):
                        with CudaWarps(0, 1):
                            for c in cuda_threads(0, ctas, unit=cuda_warp_in_cluster):
                                Await(empty[c, 0], cuda_generic_and_async, ~skip)
                            (
                                Sm90_tma_multicast(
                                    tile[:, :, :],
                                    x_map[64 * k : 64 * k + 64, :],
                                    n=ctas,
                                    rows=64,
                                    cols=32,
                                    box=(64 // ctas, 32),
                                )
                                >> full[:, 0]
                            )
                            for c in cuda_threads(0, ctas, unit=cuda_warp_in_cluster):
                                Arrive(cuda_temporal) >> full[c, 0]
                        with CudaWarps(4, 8):
                            for c in cuda_threads(0, ctas, unit=cuda_cta_in_cluster):
                                Await(full[c, 0], cuda_generic_and_async, ~0)
                                for t in cuda_threads(0, 128, unit=cuda_thread):
                                    for n in seq(0, 16):
                                        y[c, 64 * k + t / 2, 16 * (t % 2) + n] = tile[
                                            c, t / 2, 16 * (t % 2) + n
                                        ]
                                Arrive(cuda_in_order) >> empty[c, :] >> empty[:, 0]
                Fence(cuda_in_order, cuda_in_order)

    return relay
