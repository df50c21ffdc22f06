"""Memory of the host ends with its block, and the stream copies later than it is called."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.cuda import cuda_memcpy_to_device, cuda_memcpy_to_host, cuda_memset0_1d


# expect in_a_loop: refuted FREE t
# repair in_a_loop: Fence(cuda_stream_sync, cpu_in_order)` after line 18
@proc
def in_a_loop(N: size, M: size, x: f32[N, M] @ CudaGmemLinear):
    for n in seq(0, N):
        t: f32[M] @ DRAM
        for i in seq(0, M):
            t[i] = 2.0
        Fence(cpu_in_order, cuda_stream_sync)
        cuda_memcpy_to_device(M, x[n, :], t[:])


# expect outside_of_the_loop: refuted WAR t
# repair outside_of_the_loop: Fence(cuda_stream_sync, cpu_in_order)` after line 30
@proc
def outside_of_the_loop(N: size, M: size, x: f32[N, M] @ CudaGmemLinear):
    t: f32[M] @ DRAM
    for n in seq(0, N):
        for i in seq(0, M):
            t[i] = 2.0
        Fence(cpu_in_order, cuda_stream_sync)
        cuda_memcpy_to_device(M, x[n, :], t[:])


# expect at_the_end: refuted FREE t
@proc
def at_the_end(M: size, x: f32[M] @ CudaGmemLinear):
    t: f32[M] @ DRAM
    for i in seq(0, M):
        t[i] = 1.0
    Fence(cpu_in_order, cuda_stream_sync)
    cuda_memcpy_to_device(M, x[:], t[:])


# expect to_the_host: refuted FREE t
@proc
def to_the_host(M: size, x: f32[M] @ CudaGmemLinear):
    t: f32[M] @ DRAM
    cuda_memcpy_to_host(M, t[:], x[:])


# expect waits_for_the_launch_alone: refuted FREE t
@proc
def waits_for_the_launch_alone(M: size, x: f32[M] @ CudaGmemLinear):
    """The Fence stands before the copy."""
    t: f32[M] @ DRAM
    cuda_memset0_1d(M, x[:])
    Fence(cuda_stream_sync, cpu_in_order)
    cuda_memcpy_to_host(M, t[:], x[:])


# expect ends_under_a_condition: refuted FREE t
@proc
def ends_under_a_condition(N: size, x: f32[N, 4] @ CudaGmemLinear):
    """The Fence comes after the end."""
    for n in seq(0, N):
        if n % 3 == 2:
            t: f32[4] @ DRAM
            cuda_memcpy_to_host(4, t[:], x[n, :])
        Fence(cuda_stream_sync, cpu_in_order)


# expect waits_now_and_then: refuted FREE t
@proc
def waits_now_and_then(N: size, x: f32[N, 4] @ CudaGmemLinear):
    for n in seq(0, N):
        t: f32[4] @ DRAM
        cuda_memcpy_to_host(4, t[:], x[n, :])
        if n < N - 1:
            Fence(cuda_stream_sync, cpu_in_order)


# expect waits: proved
@proc
def waits(N: size, M: size, x: f32[N, M] @ CudaGmemLinear):
    for n in seq(0, N):
        t: f32[M] @ DRAM
        for i in seq(0, M):
            t[i] = 2.0
        Fence(cpu_in_order, cuda_stream_sync)
        cuda_memcpy_to_device(M, x[n, :], t[:])
        Fence(cuda_stream_sync, cpu_in_order)


# expect waits_once: proved
@proc
def waits_once(N: size, M: size, x: f32[N, M] @ CudaGmemLinear):
    t: f32[M] @ DRAM
    for i in seq(0, M):
        t[i] = 2.0
    Fence(cpu_in_order, cuda_stream_sync)
    for n in seq(0, N):
        cuda_memcpy_to_device(M, x[n, :], t[:])
    Fence(cuda_stream_sync, cpu_in_order)


# expect called: refuted FREE t
@proc
def called(M: size, x: f32[M] @ CudaGmemLinear):
    t: f32[M] @ DRAM
    cuda_memcpy_to_host(M, t[:], x[:])


# expect calls: refuted FREE t
@proc
def calls(N: size, M: size, x: f32[N, M] @ CudaGmemLinear):
    for n in seq(0, N):
        called(M, x[n, :])


# expect calls_and_waits: proved
@proc
def calls_and_waits(N: size, M: size, x: f32[N, M] @ CudaGmemLinear):
    """What is called ends with the block that calls it."""
    for n in seq(0, N):
        called(M, x[n, :])
        Fence(cuda_stream_sync, cpu_in_order)


# expect by_value: proved
@proc
def by_value(N: size, x: f32[4] @ CudaGmemLinear):
    """A launch copies it when it is called."""
    for n in seq(0, N):
        c: f32[1] @ CudaGridConstant
        c[0] = 1.0
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for i in cuda_threads(0, 4, unit=cuda_thread):
                    x[i] += c[0]
        c[0] = 2.0


# expect on_the_device: proved
@proc
def on_the_device(N: size, M: size, h: f32[N, M] @ DRAM, x: f32[N, M] @ CudaGmemLinear):
    """The stream gives it back, in its order."""
    for n in seq(0, N):
        d: f32[M] @ CudaGmemLinear
        cuda_memcpy_to_device(M, d[:], h[n, :])
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, M):
                for i in cuda_threads(0, 1, unit=cuda_thread):
                    x[n, task] = d[task]
