"""Kernels whose tasks wait for each other, small enough for the emulator."""

from __future__ import annotations

from exogpu import Procedure, proc
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.types import SyncTL
from exogpu.isa.sm90 import Sm90_tma_load


@proc
def total(T: size, x: f32[T, 32] @ CudaGmemLinear, y: f32[32] @ CudaGmemLinear):
    """The last task awaits all, each of them an arrival."""
    part: f32[T, 32] @ CudaGmemLinear
    done: barrier @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for t in cuda_tasks(0, T):
            for i in cuda_threads(0, 32, unit=cuda_thread):
                part[t, i] = x[t, i] + x[t, i]
            Arrive(cuda_in_order) >> done
            if t == T - 1:
                Await(done, cuda_in_order, 0)
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    acc: f32
                    acc = 0.0
                    for s in seq(0, T):
                        acc += part[s, 31 - i]
                    y[i] = acc


@proc
def chain(T: size, x: f32[T, 32] @ CudaGmemLinear, y: f32[T, 32] @ CudaGmemLinear):
    """Each task awaits the one before."""
    ready: barrier[T] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for t in cuda_tasks(0, T):
            for i in cuda_threads(0, 32, unit=cuda_thread):
                y[t, i] = x[t, i]
            if t > 0:
                Await(ready[t - 1], cuda_in_order, 0)
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    y[t, i] += y[t - 1, 31 - i]
            Arrive(cuda_in_order) >> ready[t]


@proc
def by_roles(T: size, x: f32[T, 32] @ CudaGmemLinear, y: f32[T, 32] @ CudaGmemLinear):
    """One warp writes and signals; the lanes of another await a task each, and the sixteen of a
    third half a warp's flag."""
    a: f32[T, 32] @ CudaGmemLinear
    ready: barrier[T, 2] @ CudaFlag
    with CudaDeviceFunction(blockDim=96):
        for t in cuda_tasks(0, T):
            with CudaWarps(0, 1):
                for h in cuda_threads(0, 2, unit=16 * cuda_thread):
                    for i in cuda_threads(0, 16, unit=cuda_thread):
                        a[t, 16 * h + i] = x[t, 16 * h + i]
                    Arrive(cuda_in_order) >> ready[t, h]
            with CudaWarps(1, 2):
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    y[t, i] = 0.0
                    if t - 1 - i >= 0:
                        Await(ready[t - 1 - i, 1], cuda_in_order, 0)
                        y[t, i] = a[t - 1 - i, 16 + i % 16]
            Fence(cuda_in_order, cuda_in_order)
            with CudaWarps(2, 3):
                for h in cuda_threads(1, 2, unit=16 * cuda_thread):
                    Await(ready[t, 0], cuda_in_order, 0)
                    for i in cuda_threads(0, 16, unit=cuda_thread):
                        y[t, i] += a[t, 15 - i]


@proc
def twice(T: size, x: f32[T, 32] @ CudaGmemLinear, y: f32[T, 32] @ CudaGmemLinear):
    """Two statements arrive, two launches wait: the flag is raised in the first alone."""
    a: f32[T, 64] @ CudaGmemLinear
    ready: barrier[T] @ CudaFlag
    with CudaDeviceFunction(blockDim=64):
        for t in cuda_tasks(0, T):
            for w in cuda_threads(0, 2, unit=cuda_warp):
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    a[t, 32 * w + i] = x[t, i]
                Arrive(cuda_in_order) >> ready[t]
            if t % 2 == 1:
                Arrive(cuda_in_order) >> ready[t - 1]
                Await(ready[t - 1], cuda_in_order, 0)
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    y[t, i] = a[t - 1, i] + a[t - 1, 63 - i]
    with CudaDeviceFunction(blockDim=32):
        for t in cuda_tasks(0, T):
            if t % 2 == 0:
                Await(ready[t], cuda_in_order, 0)
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    y[t, i] = a[t, 32 + i]


def make_loaded(timeline: SyncTL) -> Procedure:
    """As chain; TMA loads what the task before wrote, if the Await tells the async proxy of it."""

    @proc
    def loaded(T: size, x: f32[T, 32] @ CudaGmemLinear, y: f32[T, 32] @ CudaGmemLinear):
        ready: barrier[T] @ CudaFlag
        y_map = y[:, :] @ Sm90_tensorMap(0, 1, 32)
        with CudaDeviceFunction(blockDim=32):
            for t in cuda_tasks(0, T):
                tile: f32[1, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    y[t, i] = x[t, i]
                if t > 0:
                    Await(ready[t - 1], timeline, 0)
                    for w in cuda_threads(0, 1, unit=cuda_warp):
                        (
                            Sm90_tma_load(
                                tile[:, :],
                                y_map[t - 1 : t, :],
                                rows=1,
                                cols=32,
                                box=(1, 32),
                                swizzle=0,
                            )
                            >> full
                        )
                    Arrive(cuda_temporal) >> full
                    Await(full, cuda_in_order, ~0)
                    for i in cuda_threads(0, 32, unit=cuda_thread):
                        y[t, i] += tile[0, 31 - i]
                Arrive(cuda_in_order) >> ready[t]
                Fence(cuda_in_order, cuda_generic_and_async)

    return loaded


loaded = make_loaded(SYNC_TIMELINES["cuda_generic_and_async"])

KERNELS = (total, chain, by_roles, twice, loaded)


@proc
def after_a_load(
    T: size,
    at: i32[T] @ CudaGmemLinear,
    x: f32[T, 32] @ CudaGmemLinear,
    y: f32[T, 2, 32] @ CudaGmemLinear,
):
    """What an Await waits for depends on a loop inside of a value from memory: k + 1."""
    a: f32[T, 32] @ CudaGmemLinear
    ready: barrier[T] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for t in cuda_tasks(0, T):
            for i in cuda_threads(0, 32, unit=cuda_thread):
                a[t, i] = x[t, i]
            for j in seq(0, t + 1):
                Arrive(cuda_in_order) >> ready[t]
            place = load_index(at[t], 0, 2)
            for k in seq(0, t):
                Await(ready[k], cuda_in_order, 0)
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    y[t, place, i] = a[k, 31 - i]
