"""The small programs of the paper's sections 2, 3 and 6, each as a procedure that runs.

exogpu check examples/insets.py --at n=5
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm80 import Sm80_cp_async_copy


@proc
def parallel_loops(A: f32[37, 4, 32] @ CudaGmemLinear):
    """Section 2.1: tasks over CTAs, then warps, then threads."""
    with CudaDeviceFunction(blockDim=128):
        for blk in cuda_tasks(0, 37):
            for w in cuda_threads(0, 4, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    A[blk, w, t] = 1


@proc
def vector_copy(A: f32[32] @ CudaGmemLinear, B: f32[32] @ CudaGmemLinear):
    """Section 2.1: a register a thread needs a distributed allocation."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            tmp: f32[32] @ CudaRmem
            for i in cuda_threads(0, 32, unit=cuda_thread):
                tmp[i] = A[i]
            for i in cuda_threads(0, 32, unit=cuda_thread):
                B[i] = tmp[i]


@proc
def block_sum(gmem: f32[128] @ CudaGmemLinear, total: f32[128] @ CudaGmemLinear):
    """Section 2.1: each thread sums up what all threads stored."""
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            buf: f32[128] @ CudaSmemLinear
            for tid in cuda_threads(0, 128, unit=cuda_thread):
                buf[tid] = gmem[tid]
            # __syncthreads
            Fence(cuda_in_order, cuda_in_order)
            for tid in cuda_threads(0, 128, unit=cuda_thread):
                accum: f32  # Each thread sums up buf[...]
                accum = 0
                for i in seq(0, 128):
                    accum += buf[i]
                total[tid] = accum
            Fence(cuda_in_order, cuda_in_order)


@proc
def block_sum_cp_async(gmem: f32[512] @ CudaGmemLinear, total: f32[128] @ CudaGmemLinear):
    """Section 2.1: with cp.async the fence's first timeline must be Sm80_cp_async."""
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            buf: f32[512] @ CudaSmemLinear
            for tid in cuda_threads(0, 128, unit=cuda_thread):
                Sm80_cp_async_copy(buf[4 * tid : 4 * tid + 4], gmem[4 * tid : 4 * tid + 4])
            Fence(Sm80_cp_async, cuda_in_order)
            for tid in cuda_threads(0, 128, unit=cuda_thread):
                accum: f32
                accum = 0
                for i in seq(0, 512):
                    accum += buf[i]
                total[tid] = accum
            Fence(cuda_in_order, cuda_in_order)


@proc
def block_sum_split_barrier(gmem: f32[128] @ CudaGmemLinear, total: f32[128] @ CudaGmemLinear):
    """Section 2.1: the fence as a split barrier."""
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            buf: f32[128] @ CudaSmemLinear
            for tid in cuda_threads(0, 128, unit=cuda_thread):
                buf[tid] = gmem[tid]
            bar: barrier @ CudaMbarrier
            Arrive(cuda_in_order) >> bar
            # ... insert work here
            Await(bar, cuda_in_order)
            for tid in cuda_threads(0, 128, unit=cuda_thread):
                accum: f32
                accum = 0
                for i in seq(0, 128):
                    accum += buf[i]
                total[tid] = accum
            Fence(cuda_in_order, cuda_in_order)


my_warp_config = [
    CudaWarpConfig("producer", 1, 40, 0),
    CudaWarpConfig("unused", 3, 40, 0),
    CudaWarpConfig("consumer", 8, 0, 232),
]


@proc
def kernel_structure(M: size, N: size, C: f32[128 * M, N] @ CudaGmemLinear):
    """Section 3: a launch of clusters of 2 CTAs with 1 + 3 + 8 warps each."""
    with CudaDeviceFunction(clusterDim=2, warp_config=my_warp_config):
        for cta_m in cuda_tasks(0, M):
            for cta_n in cuda_tasks(0, N):
                # Device task starts here
                A_smem: f32[2, 128] @ CudaSmemLinear
                with CudaWarps(0, 4, name="consumer"):
                    for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                        for t in cuda_threads(0, 128, unit=cuda_thread):
                            A_smem[cta, t] = 2
                            if cta == 0:
                                C[128 * cta_m + t, cta_n] = A_smem[cta, t]
                Fence(cuda_in_order, cuda_in_order)


@proc
def redundant_guard(n: size, C: f32[8]):
    """Section 6: the first guard may be removed; nobody reads tmp[6] and tmp[7]."""
    tmp: f32[8]
    for i in seq(0, 8):
        if i < 6:
            tmp[i] = 0
    for i in seq(0, 8):
        if i < 6:
            C[i] = tmp[i]
