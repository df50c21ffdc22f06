"""Slots of a barrier that outlives a task: a line that uses one as a number ends in the code that
it draws (decision `private-slot`).

Below each procedure that is right stands its verdict: `# expect NAME: ...`.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.cuda import cuda_number
from exogpu.isa.sm80 import Sm80_cp_async_copy, Sm80_cp_async_copy_zfill
from exogpu.isa.sm90 import Sm90_tma_load


@proc
def read_of_global(
    M: size, K: size, x: f32[3, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear
):
    with CudaDeviceFunction(blockDim=64):
        full: barrier @ CudaMbarrier
        empty: barrier(full) @ CudaMbarrier
        for m in cuda_tasks(0, M):
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    Await(empty, cuda_in_order, ~3)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[m, k, t] = x[slot(full), t]  # expect: D528
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    Arrive(cuda_in_order) >> empty


@proc
def write_of_global(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[4, 32] @ CudaGmemLinear):
    assert M <= 4
    with CudaDeviceFunction(blockDim=64):
        full: barrier @ CudaMbarrier
        empty: barrier(full) @ CudaMbarrier
        for m in cuda_tasks(0, M):
            with CudaWarps(0, 1):
                Await(empty, cuda_in_order, ~4)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[slot(full), t] = x[m, t]  # expect: D528
                Arrive(cuda_in_order) >> full
            with CudaWarps(1, 2):
                Await(full, cuda_in_order, ~0)
                Arrive(cuda_in_order) >> empty


@proc
def memory_of_a_task(M: size, K: size, y: f32[M, K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        full: barrier @ CudaMbarrier
        empty: barrier(full) @ CudaMbarrier
        for m in cuda_tasks(0, M):
            tab: f32[3, 32] @ CudaSmemLinear
            with CudaWarps(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, 3):
                        tab[i, t] = 1.0
                Fence(cuda_in_order, cuda_in_order)
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    Await(empty, cuda_in_order, ~3)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[m, k, t] = tab[slot(full), t]  # expect: D528
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    Arrive(cuda_in_order) >> empty
            Fence(cuda_in_order, cuda_in_order)


@proc
def numbers(
    M: size,
    x: f32[M, 32] @ CudaGmemLinear,
    y: f32[M, 3, 32] @ CudaGmemLinear,
    p: i32[3] @ CudaGmemLinear,
    z: i32[M] @ CudaGmemLinear,
):
    """As a condition, a bound, an argument, a position, an index of registers and of results."""
    with CudaDeviceFunction(blockDim=32):
        tile: f32[3, 32] @ CudaSmemLinear
        other: f32[6, 32] @ CudaSmemLinear
        full: barrier @ CudaMbarrier
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                r: f32[3]
                for s in slot(full, 3):
                    if s == 1:  # expect: D528
                        y[m, 0, t] = 1.0
                    for i in seq(0, s):  # expect: D528
                        y[m, i, t] = 1.0
                    y[m, s, t] = x[m, t]  # expect: D528
                    r[s] = 1.0  # expect: D528
                    b = load_index(p[s], 0, 3)  # expect: D528
                    y[m, b, t] = 1.0
                    other[s + 1, t] = 0.0  # expect: D528
                    other[2 * s, t] = 0.0  # expect: D528
                    tile[(s + 1) % 3, t] = 0.0  # expect: D528
                    tile[s, (t + s) % 32] = 0.0  # expect: D528
                    w = y[m, s, :]  # windows of it are seen where they are used
                    w[t] = 0.0  # expect: D528
                    y[m, 0, t] = x[m, t] + y[m, s, t]  # expect: D528
            for t in cuda_threads(0, 1, unit=cuda_thread):
                n: i32
                for s in slot(full, 3):
                    cuda_number(s, n)  # expect: D528
                z[m] = n
            Arrive(cuda_in_order) >> full
            Await(full, cuda_in_order, ~0)


@macro
def load(tile, source, landed):
    Sm90_tma_load(tile, source, rows=1, cols=4, box=(1, 1, 4), swizzle=0) >> landed


@macro
def put(y, m, s, t):
    y[m, s, t] = 0.0


@proc
def in_macros(M: size, y: f32[M, 3, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        full: barrier @ CudaMbarrier
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for s in slot(full, 3):
                    put(y, m, s, t)
            Arrive(cuda_in_order) >> full
            Await(full, cuda_in_order, ~0)


# expect in_macros: error D528


@proc
def inner(M: size, y: f32[M, 3, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        full: barrier @ CudaMbarrier
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, slot(full), t] = 0.0  # expect: D528
            Arrive(cuda_in_order) >> full
            Await(full, cuda_in_order, ~0)


@proc
def in_a_call(M: size, y: f32[M, 3, 32] @ CudaGmemLinear):
    inner(M, y)


# expect in_a_call: error D528


@proc
def operands(M: size, x: f32[M, 3, 4] @ CudaGmemLinear):
    """Of instructions: what they read from, how much of it, and the barrier that they signal."""
    x_map = x[:, :, :] @ Sm90_tensorMap(0, 1, 1, 4)
    with CudaDeviceFunction(blockDim=32):
        tile: f32[3, 4] @ CudaSmemLinear
        back: f32[3, 1, 4] @ CudaSmemLinear
        full: barrier @ CudaMbarrier
        landed: barrier[3] @ CudaMbarrier
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                cg: barrier @ CudaCommitGroup
                for s in slot(full, 3):
                    Sm80_cp_async_copy(tile[s, :], x[m, s, :])  # expect: D528
                    Sm80_cp_async_copy_zfill(s, tile[s, :], x[m, 0, :])  # expect: D528
                Arrive(Sm80_cp_async) >> cg
                Await(cg, cuda_in_order, 0)
            for s in slot(full, 3):
                load(back[s, :, :], x_map[m, s : s + 1, :], landed[0])  # expect: D528
                load(back[s, :, :], x_map[m, 0:1, :], landed[s])  # expect: D528
            for i in seq(0, 3):
                Arrive(cuda_temporal) >> landed[i]
                Await(landed[i], cuda_generic_and_async, ~0)
            Arrive(cuda_in_order) >> full
            Await(full, cuda_in_order, ~0)
