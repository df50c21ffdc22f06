"""Kernels whose roles share phases, to await one or to arrive for one; and named barriers."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig

ROLES = [
    CudaWarpConfig("a", 1),
    CudaWarpConfig("b", 1),
    CudaWarpConfig("c", 2),
    CudaWarpConfig("d", 1),
]


def two_consumers(RING: int) -> Procedure:
    """a fills a ring; b of one warp and c of two read each slot, and both give it back."""

    @proc(name=f"two_consumers_{RING}")
    def kernel(
        T: size,
        K: size,
        x: f32[T, K, 32] @ CudaGmemLinear,
        y: f32[T, K, 32] @ CudaGmemLinear,
        z: f32[T, K, 64] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(warp_config=ROLES):
            for i in cuda_tasks(0, T):
                s: f32[RING, 32] @ CudaSmemLinear
                full: barrier[2] @ CudaMbarrier
                empty: barrier(full)[2] @ CudaMbarrier
                for k in seq(0, K):
                    with CudaWarps(name="a"):
                        Await(empty[:], cuda_in_order, ~RING)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            s[k % RING, t] = x[i, k, t]
                        Arrive(cuda_in_order) >> full[:]
                    with CudaWarps(name="b"):
                        Await(full[0], cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[i, k, t] = s[k % RING, 31 - t] + 1.0
                        Arrive(cuda_in_order) >> empty[0]
                    with CudaWarps(name="c"):
                        Await(full[1], cuda_in_order, ~0)
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            z[i, k, t] = s[k % RING, t / 2] * 2.0
                        Arrive(cuda_in_order) >> empty[1]
                Fence(cuda_in_order, cuda_in_order)

    return kernel


def two_by_two(RING: int) -> Procedure:
    """a and d fill the halves of each slot, b and c read all of it: all four on one mbarrier."""

    @proc(name=f"two_by_two_{RING}")
    def kernel(
        K: size,
        x: f32[K, 64] @ CudaGmemLinear,
        y: f32[K, 32] @ CudaGmemLinear,
        z: f32[K, 64] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(warp_config=ROLES):
            for i in cuda_tasks(0, 1):
                s: f32[RING, 64] @ CudaSmemLinear
                full: barrier[2, 2] @ CudaMbarrier
                empty: barrier(full)[2, 2] @ CudaMbarrier
                for k in seq(0, K):
                    with CudaWarps(name="a"):
                        Await(empty[:, 0], cuda_in_order, ~RING)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            s[k % RING, t] = x[k, t]
                        Arrive(cuda_in_order) >> full[0, :]
                    with CudaWarps(name="d"):
                        Await(empty[:, 1], cuda_in_order, ~RING)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            s[k % RING, 32 + t] = x[k, 32 + t]
                        Arrive(cuda_in_order) >> full[1, :]
                    with CudaWarps(name="b"):
                        Await(full[:, 0], cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[k, t] = s[k % RING, 63 - t] + s[k % RING, t]
                        Arrive(cuda_in_order) >> empty[0, :]
                    with CudaWarps(name="c"):
                        Await(full[:, 1], cuda_in_order, ~0)
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            z[k, t] = s[k % RING, 63 - t] * 2.0
                        Arrive(cuda_in_order) >> empty[1, :]
                Fence(cuda_in_order, cuda_in_order)

    return kernel


@proc
def handed_over(
    T: size, K: size, x: f32[T, K, 32] @ CudaGmemLinear, y: f32[T, K, 32] @ CudaGmemLinear
):
    """a hands c what it has loaded, and takes the place back, by named barriers of 96 threads."""
    with CudaDeviceFunction(warp_config=ROLES):
        for i in cuda_tasks(0, T):
            s: f32[32] @ CudaSmemLinear
            full: barrier @ CudaNamedBarrier
            empty: barrier @ CudaNamedBarrier
            for k in seq(0, K):
                with CudaWarps(name="a"):
                    if k > 0:
                        Await(empty, cuda_in_order)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        s[t] = x[i, k, t]
                    Arrive(cuda_in_order) >> full
                with CudaWarps(name="c"):
                    Await(full, cuda_in_order)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[i, k, t] = s[31 - t] + 1.0
                    if k < K - 1:
                        Arrive(cuda_in_order) >> empty
            Fence(cuda_in_order, cuda_in_order)


@proc
def in_turns(T: size, K: size, x: f32[T, K, 64] @ CudaGmemLinear, y: f32[T, 64] @ CudaGmemLinear):
    """Two warps add to one sum in turns: what one has, the other goes on with."""
    with CudaDeviceFunction(blockDim=64):
        turn: barrier[2] @ CudaNamedBarrier
        for i in cuda_tasks(0, T):
            s: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                s[t] = 0.0
            Fence(cuda_in_order, cuda_in_order)
            with CudaWarps(1, 2):
                Arrive(cuda_in_order) >> turn[0]
            for k in seq(0, K):
                for w in cuda_threads(0, 2, unit=cuda_warp):
                    Await(turn[w], cuda_in_order)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        s[t] = s[t] * 2.0 + x[i, k, t + 32 * w]
                        s[t + 32] += x[i, k, t + 32 * w]
                    Arrive(cuda_in_order) >> turn[1 - w]
            with CudaWarps(0, 1):
                Await(turn[0], cuda_in_order)
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[i, t] = s[t]
            Fence(cuda_in_order, cuda_in_order)


def across_ctas(RING: int) -> Procedure:
    """Both CTAs of a cluster fill a ring each, and go on when the consumers of both have read;
    these begin when both are filled."""

    @proc(name=f"across_ctas_{RING}")
    def kernel(
        K: size,
        x: f32[K, 2, 32] @ CudaGmemLinear,
        y: f32[K, 2, 32] @ CudaGmemLinear,
        z: f32[K, 2, 64] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(clusterDim=2, warp_config=ROLES):
            for i in cuda_tasks(0, 1):
                s: f32[2, RING, 32] @ CudaSmemLinear
                full: barrier[2, 2] @ CudaMbarrier
                empty: barrier(full)[2, 2] @ CudaMbarrier
                for k in seq(0, K):
                    with CudaWarps(name="a"):
                        for cta in cuda_threads(0, 2, unit=cuda_warp_in_cluster):
                            Await(empty[cta, :], cuda_in_order, ~RING)
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                s[cta, k % RING, t] = x[k, cta, t]
                            Arrive(cuda_in_order) >> full[cta, :] >> full[:, :]
                    with CudaWarps(name="b"):
                        for cta in cuda_threads(0, 2, unit=cuda_warp_in_cluster):
                            Await(full[cta, 0], cuda_in_order, ~0)
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                y[k, cta, t] = s[cta, k % RING, 31 - t] + 1.0
                            Arrive(cuda_in_order) >> empty[cta, 0] >> empty[:, 0]
                    with CudaWarps(name="c"):
                        for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                            Await(full[cta, 1], cuda_in_order, ~0)
                            for t in cuda_threads(0, 64, unit=cuda_thread):
                                z[k, cta, t] = s[cta, k % RING, t / 2] * 2.0
                            Arrive(cuda_in_order) >> empty[cta, 1] >> empty[:, 1]
                Fence(cuda_in_order, cuda_in_order)

    return kernel
