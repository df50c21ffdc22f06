"""Kernels of which several roles use one mbarrier: each phase one of them."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig

ROLES = [CudaWarpConfig("a", 1), CudaWarpConfig("b", 1), CudaWarpConfig("c", 1)]


def consumers_in_turn(RING: int) -> Procedure:
    """a fills a ring; b takes K of its slots, then c takes J, in one task after another."""

    @proc(name=f"consumers_in_turn_{RING}")
    def kernel(
        T: size,
        K: size,
        J: size,
        x: f32[T, K + J, 32] @ CudaGmemLinear,
        y: f32[T, K + J, 32] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(warp_config=ROLES):
            for i in cuda_tasks(0, T):
                s: f32[RING, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                turn: barrier @ CudaMbarrier
                for k in seq(0, K):
                    with CudaWarps(name="a"):
                        Await(empty, cuda_in_order, ~RING)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            s[k % RING, t] = x[i, k, t]
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(name="b"):
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[i, k, t] = s[k % RING, t] + 1.0
                        Arrive(cuda_in_order) >> empty
                with CudaWarps(name="b"):
                    Arrive(cuda_in_order) >> turn
                with CudaWarps(name="c"):
                    Await(turn, cuda_in_order, ~0)
                for k in seq(K, K + J):
                    with CudaWarps(name="a"):
                        Await(empty, cuda_in_order, ~RING)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            s[k % RING, t] = x[i, k, t]
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(name="c"):
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[i, k, t] = s[k % RING, t] * 2.0
                        Arrive(cuda_in_order) >> empty
                Fence(cuda_in_order, cuda_in_order)

    return kernel


def producers_in_turn(RING: int) -> Procedure:
    """b and c fill a ring in turn, in nested loops; a empties it."""

    @proc(name=f"producers_in_turn_{RING}")
    def kernel(
        K: size,
        x: f32[K, 2 * RING, 32] @ CudaGmemLinear,
        y: f32[K, 2 * RING, 32] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(warp_config=ROLES):
            for i in cuda_tasks(0, 1):
                s: f32[RING, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                for k in seq(0, K):
                    for n in seq(0, 2 * RING):
                        if n < RING:
                            with CudaWarps(name="b"):
                                Await(empty, cuda_in_order, ~RING)
                                for t in cuda_threads(0, 32, unit=cuda_thread):
                                    s[n % RING, t] = x[k, n, t]
                                Arrive(cuda_in_order) >> full
                        else:
                            with CudaWarps(name="c"):
                                Await(empty, cuda_in_order, ~RING)
                                for t in cuda_threads(0, 32, unit=cuda_thread):
                                    s[n % RING, t] = x[k, n, t] * 3.0
                                Arrive(cuda_in_order) >> full
                        with CudaWarps(name="a"):
                            Await(full, cuda_in_order, ~0)
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                y[k, n, t] = s[n % RING, t]
                            Arrive(cuda_in_order) >> empty
                Fence(cuda_in_order, cuda_in_order)

    return kernel


def slots_of_two(RING: int, turns: bool = True) -> Procedure:
    """b, then c, fill slots that both count, with turns or without; a empties them."""

    @proc(name=f"slots_of_two_{RING}")
    def kernel(K: size, x: f32[K, 8, 32] @ CudaGmemLinear, y: f32[K, 8, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(warp_config=ROLES):
            for i in cuda_tasks(0, 1):
                s: f32[RING, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                to_c: barrier @ CudaMbarrier
                to_b: barrier(to_c) @ CudaMbarrier
                for k in seq(0, K):
                    if turns:
                        with CudaWarps(name="b"):
                            Await(to_b, cuda_in_order, ~1)
                    for n in seq(0, 5):
                        with CudaWarps(name="b"):
                            Await(empty, cuda_in_order, ~RING)
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                s[slot(full), t] = x[k, n, t]
                            Arrive(cuda_in_order) >> full
                        with CudaWarps(name="a"):
                            Await(full, cuda_in_order, ~0)
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                y[k, n, t] = s[slot(empty), t]
                            Arrive(cuda_in_order) >> empty
                    if turns:
                        with CudaWarps(name="b"):
                            Arrive(cuda_in_order) >> to_c
                        with CudaWarps(name="c"):
                            Await(to_c, cuda_in_order, ~0)
                    for n in seq(5, 8):
                        with CudaWarps(name="c"):
                            Await(empty, cuda_in_order, ~RING)
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                s[slot(full), t] = x[k, n, t] * 3.0
                            Arrive(cuda_in_order) >> full
                        with CudaWarps(name="a"):
                            Await(full, cuda_in_order, ~0)
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                y[k, n, t] = s[slot(empty), t]
                            Arrive(cuda_in_order) >> empty
                    if turns:
                        with CudaWarps(name="c"):
                            Arrive(cuda_in_order) >> to_b
                Fence(cuda_in_order, cuda_in_order)

    return kernel
