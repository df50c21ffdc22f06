"""Flags that values from memory name, or of which they tell whether they are raised.

`# expect NAME: ...` stands below each kernel.
"""

from __future__ import annotations

from exogpu import *


@proc
def one_table(
    M: size,
    dep: i32[M] @ CudaGmemLinear,
    x: f32[M, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
):
    f: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(dep[m], 0, M)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = x[m, t]
            if b < m:
                Await(f[b], cuda_in_order, 0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] += y[b, 31 - t]
            Arrive(cuda_in_order) >> f[m]


# expect one_table: proved


@proc
def of_itself(
    M: size,
    dep: i32[M] @ CudaGmemLinear,
    x: f32[M, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
):
    f: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(dep[m], 0, M)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = x[m, t]
            if b <= m:
                Await(f[b], cuda_in_order, 0)
            Arrive(cuda_in_order) >> f[m]


# expect of_itself: refuted DEADLOCK f


@proc
def arrives_by_table(
    M: size,
    dep: i32[M] @ CudaGmemLinear,
    x: f32[M, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
    z: f32[32] @ CudaGmemLinear,
):
    assert injective(dep)
    f: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(dep[m], 0, M)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[b, t] = x[m, t]
            Arrive(cuda_in_order) >> f[b]
            if m == M - 1:
                Await(f[0], cuda_in_order, 0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    z[t] = y[0, 31 - t]


# expect arrives_by_table: proved G803


@proc
def two_tables(
    M: size,
    dep: i32[M] @ CudaGmemLinear,
    other: i32[M] @ CudaGmemLinear,
    x: f32[M, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
):
    f: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(dep[m], 0, M)
            c = load_index(other[m], 0, M)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = x[m, t]
            if b < m and c < m:
                Await(f[b], cuda_in_order, 0)
                Await(f[c], cuda_in_order, 0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] += y[b, 31 - t] + y[c, t]
            Arrive(cuda_in_order) >> f[m]


# expect two_tables: proved


@proc
def table_of_tables(
    M: size,
    dep: i32[M] @ CudaGmemLinear,
    x: f32[M, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
):
    f: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(dep[m], 0, M)
            c = load_index(dep[b], 0, M)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = x[m, t]
            if c < m:
                Await(f[c], cuda_in_order, 0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] += y[c, t]
            Arrive(cuda_in_order) >> f[m]


# expect table_of_tables: proved


@proc
def sometimes(
    M: size,
    dep: i32[M] @ CudaGmemLinear,
    x: f32[M, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
):
    f: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(dep[m], 0, M)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = x[m, t]
            if b > 0:
                Arrive(cuda_in_order) >> f[m]
            if m > 0:
                Await(f[m - 1], cuda_in_order, 0)


# expect sometimes: proved G803


@proc
def sometimes_bad(
    M: size,
    dep: i32[M] @ CudaGmemLinear,
    x: f32[M, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
):
    f: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(dep[m], 0, M)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = x[m, t]
            if b > 0:
                Arrive(cuda_in_order) >> f[m]
            if m > 0:
                Await(f[m - 1], cuda_in_order, 0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] += y[m - 1, 31 - t]


# expect sometimes_bad: refuted RAW y


@proc
def table_not_awaited(
    M: size,
    dep: i32[M] @ CudaGmemLinear,
    x: f32[M, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
):
    f: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            b = load_index(dep[m], 0, M)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = x[m, t]
            if b < m:
                if b > 0:
                    Await(f[b - 1], cuda_in_order, 0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] += y[b, 31 - t]
            Arrive(cuda_in_order) >> f[m]


# expect table_not_awaited: refuted RAW y
