"""A name for one element reads as a copy: it is refused, and a declaration with a value copies."""

from __future__ import annotations

from exogpu import *


# expect swap: error P134
# repair swap: write v: f32 = x[i] to copy its value, or v = x[i : i + 1] for a window of it
@proc
def swap(n: size, x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, (n + 127) / 128):
            for t in cuda_threads(0, 128, unit=cuda_thread):
                i = 128 * b + t
                if i < n:
                    v = x[i]
                    x[i] = y[i]
                    y[i] = v


# expect swapped: proved
@proc
def swapped(n: size, x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, (n + 127) / 128):
            for t in cuda_threads(0, 128, unit=cuda_thread):
                i = 128 * b + t
                if i < n:
                    v: f32 = x[i]
                    x[i] = y[i]
                    y[i] = v


# expect through_a_window: proved
@proc
def through_a_window(n: size, x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, (n + 127) / 128):
            for t in cuda_threads(0, 128, unit=cuda_thread):
                i = 128 * b + t
                if i < n:
                    v = x[i : i + 1]
                    old: f32 = v[0]
                    v[0] = y[i]
                    y[i] = old


# expect of_a_scalar: error P134
# repair of_a_scalar: write v: bf16 = u to copy its value, or use u itself
@proc
def of_a_scalar(n: size, x: bf16[n] @ DRAM):
    for i in seq(0, n):
        u: bf16
        u = x[i]
        v = u
        x[i] = v


# expect of_a_matrix: error P134
# repair of_a_matrix: or v = x[i, i : i + 1] for a window of it
@proc
def of_a_matrix(n: size, x: f32[n, n] @ DRAM):
    for i in seq(0, n):
        v = x[i, i]
        x[i, i] = v


# expect on_the_host: proved
@proc
def on_the_host(n: size, x: f32[n, n] @ DRAM):
    for i in seq(0, n):
        v: f32 = x[i, i] + 1.0
        w: f32 @ DRAM = v * v
        x[i, i] = w


# expect an_array_with_a_value: error P115
@proc
def an_array_with_a_value(n: size, x: f32[n] @ DRAM):
    v: f32[4] = x[0]
    x[0] = v[0]


# expect a_barrier_with_a_value: error P115
@proc
def a_barrier_with_a_value(x: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for b in cuda_tasks(0, 1):
            z: barrier @ CudaMbarrier = x[0]


# expect of_a_control_value: error P115
@proc
def of_a_control_value(n: size, x: f32[n] @ DRAM):
    for i in seq(0, n):
        v: i32 = i
        x[i] = 0.0


# expect before_it_is_declared: error P102
@proc
def before_it_is_declared(n: size, x: f32[n] @ DRAM):
    v: f32 = v
    x[0] = v


# expect of_another_kind: error T210
@proc
def of_another_kind(n: size, x: f32[n] @ DRAM):
    v: i32 = x[0]
    x[0] = 1.0


# expect by_many_threads: error C413
@proc
def by_many_threads(n: size, x: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for b in cuda_tasks(0, n):
            s: f32 @ CudaSmemLinear = x[b]
            Fence(cuda_in_order, cuda_in_order)
