"""Fences in loops over single threads: a habit of CUDA, and what one thread has to order."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm80 import Sm80_cp_async_copy
from exogpu.isa.sm90 import *


# expect guarded: proved C419
# repair guarded: all threads meet at a Fence outside of the loop
@proc
def guarded(n: size, x: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, (n + 127) / 128):
            for t in cuda_threads(0, 128, unit=cuda_thread):
                i = 128 * b + t
                if i < n:
                    Fence(cuda_in_order, cuda_in_order)


# expect one_loop: refuted RAW,WAR,FREE s
# repair one_loop: all threads meet at a Fence outside of the loop
@proc
def one_loop(n: size, x: f32[n, 128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, n):
            s: f32[128] @ CudaSmemLinear
            for t in cuda_threads(0, 128, unit=cuda_thread):
                s[t] = x[b, t]
                Fence(cuda_in_order, cuda_in_order)
                x[b, t] = s[127 - t]
                Fence(cuda_in_order, cuda_in_order)


# expect two_loops: proved
@proc
def two_loops(n: size, x: f32[n, 128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, n):
            s: f32[128] @ CudaSmemLinear
            for t in cuda_threads(0, 128, unit=cuda_thread):
                s[t] = x[b, t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 128, unit=cuda_thread):
                x[b, t] = s[127 - t]
            Fence(cuda_in_order, cuda_in_order)


# expect beside_copies: refuted RAW s
# repair beside_copies: all threads meet at a Fence outside of the loop
@proc
def beside_copies(n: size, x: f32[n, 128] @ CudaGmemLinear, y: f32[n, 128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, n):
            s: f32[128] @ CudaSmemLinear
            own: f32[128, 4] @ CudaSmemLinear
            for t in cuda_threads(0, 128, unit=cuda_thread):
                Sm80_cp_async_copy(own[t, :], x[b, 0:4], n=4)
                Fence(Sm80_cp_async, cuda_in_order)
                s[t] = own[t, 0]
                Fence(cuda_in_order, cuda_in_order)
                y[b, t] = s[127 - t]
            Fence(cuda_in_order, cuda_in_order)


# expect before_its_own_copy: proved
@proc
def before_its_own_copy(
    n: size, x: f32[n, 128, 4] @ CudaGmemLinear, y: f32[n, 128] @ CudaGmemLinear
):
    """Between a thread's read and its next copy into the same place nothing is emitted, and the
    proof needs the Fence."""
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, n):
            own: f32[128, 4] @ CudaSmemLinear
            for t in cuda_threads(0, 128, unit=cuda_thread):
                for k in seq(0, 2):
                    Sm80_cp_async_copy(own[t, :], x[b, t, :], n=4)
                    Fence(Sm80_cp_async, cuda_in_order)
                    y[b, t] = own[t, 0]
                    Fence(cuda_in_order, cuda_in_order)
            Fence(cuda_in_order, cuda_in_order)


# expect before_the_next_copy: proved
@proc
def before_the_next_copy(
    n: size, x: f32[n, 2, 128, 4] @ CudaGmemLinear, y: f32[n, 2, 128] @ CudaGmemLinear
):
    """The copy that it orders is one of the next iteration, around the loop over threads."""
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, n):
            own: f32[128, 4] @ CudaSmemLinear
            for k in seq(0, 2):
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    Sm80_cp_async_copy(own[t, :], x[b, k, t, :], n=4)
                    Fence(Sm80_cp_async, cuda_in_order)
                    y[b, k, t] = own[t, 0]
                    Fence(cuda_in_order, cuda_in_order)
                    y[b, k, t] += 1.0
            Fence(cuda_in_order, cuda_in_order)
