"""Reads of what nothing has written: a wrong slot, a short tail, a first iteration, and mends."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_tma_load

STAGES = 3
ROLES = [CudaWarpConfig("load", 1, 0, 0), CudaWarpConfig("sum", 2, 0, 0)]


def ring(name: str, ahead: int):
    """A role loads tiles by TMA; the other one sums the tile so many slots ahead of its own."""

    @proc(name=name)
    def kernel(M: size, K: size, x: f32[M, K] @ CudaGmemLinear, y: f32[M] @ CudaGmemLinear):
        assert K % 4 == 0
        x_map = x[:, :] @ Sm90_tensorMap(0, 64, 32)
        with CudaDeviceFunction(warp_config=ROLES):
            for b in cuda_tasks(0, (M + 63) / 64):
                tile: f32[STAGES, 64, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                acc: f32[64] @ CudaRmem
                with CudaWarps(name="sum"):
                    for t in cuda_threads(0, 64, unit=cuda_thread):
                        acc[t] = 0.0
                for k in seq(0, (K + 31) / 32):
                    with CudaWarps(name="load"):
                        Await(empty, cuda_generic_and_async, ~STAGES)
                        (
                            Sm90_tma_load(
                                tile[k % STAGES, :, :],
                                x_map[64 * b : 64 * b + 64, 32 * k : 32 * k + 32],
                                rows=64,
                                cols=32,
                                box=(64, 32),
                                swizzle=0,
                            )
                            >> full
                        )
                        Arrive(cuda_temporal) >> full
                    with CudaWarps(name="sum"):
                        Await(full, cuda_in_order)
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            for j in seq(0, 32):
                                acc[t] += tile[(k + ahead) % STAGES, t, j]
                        Arrive(cuda_in_order) >> empty
                with CudaWarps(name="sum"):
                    for t in cuda_threads(0, 64, unit=cuda_thread):
                        if 64 * b + t < M:
                            y[64 * b + t] = acc[t]
                Fence(cuda_in_order, cuda_in_order)

    return kernel


# Columns beyond K are zeros, which TMA writes.
# expect own_slot: proved
own_slot = ring("own_slot", 0)
# expect next_slot: refuted UNINIT,WAR tile
next_slot = ring("next_slot", 1)


def tail(name: str, filled: bool, guarded: bool):
    """Tiles of 32 of which the last one is filled in part, then with zeros or not, and read whole
    or not."""

    @proc(name=name)
    def kernel(n: size, x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for b in cuda_tasks(0, (n + 31) / 32):
                s: f32[32] @ CudaSmemLinear
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    if 32 * b + t < n:
                        s[t] = x[32 * b + t]
                    else:
                        if filled:
                            s[t] = 0.0
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    total: f32 @ CudaRmem
                    total = 0.0
                    for i in seq(0, 32):
                        if guarded:
                            if 32 * b + i < n:
                                total += s[i]
                        else:
                            total += s[i]
                    if 32 * b + t < n:
                        y[32 * b + t] = total
                Fence(cuda_in_order, cuda_in_order)

    return kernel


# expect short: refuted UNINIT s
short = tail("short", filled=False, guarded=False)
# expect with_zeros: proved
with_zeros = tail("with_zeros", filled=True, guarded=False)
# expect read_in_part: proved
read_in_part = tail("read_in_part", filled=False, guarded=True)


def sums(name: str, first: str):
    """Running sums in a register; `first` is what is done before the loop."""

    @proc(name=name)
    def kernel(n: size, x: f32[n, 32] @ CudaGmemLinear, y: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    total: f32 @ CudaRmem
                    if first == "zero":
                        total = 0.0
                    if first == "uninit":
                        uninit(total)
                    if first == "where n > 1" and n > 1:
                        total = 0.0
                    for i in seq(0, n):
                        total += x[i, t]
                    y[t] = total

    return kernel


# expect no_zero: refuted UNINIT total
no_zero = sums("no_zero", "")
# expect sometimes: refuted UNINIT total
sometimes = sums("sometimes", "where n > 1")
# expect zeroed: proved
zeroed = sums("zeroed", "zero")
# expect meant: proved
meant = sums("meant", "uninit")


@proc
def product(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear, guard: index):
    """What a branch of the task writes is read in the other one, too."""
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            s: f32[32] @ CudaSmemLinear
            if guard < m:
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    s[t] = x[m, t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = s[31 - t]
            Fence(cuda_in_order, cuda_in_order)


# expect product: refuted UNINIT s
