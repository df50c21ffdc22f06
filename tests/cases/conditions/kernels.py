"""Kernels that are safe for some sizes only; the comment of each says for which.

`x = make(...)  # safe iff CONDITION`, `# never safe` where no sizes are left.
"""

from __future__ import annotations

from exogpu import *


def split_k(name: str, reduce: bool) -> Procedure:
    """C = A B, the K axis in K_split parts: a task a tile and part, whose sum goes to C."""

    @proc(name=name)
    def splitting(
        M: size,
        K_split: size,
        A: f32[M, 32, K_split] @ CudaGmemLinear,
        C: f32[M, 32] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                for part in cuda_tasks(0, K_split):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        if reduce:
                            C[m, t] += A[m, t, part]
                        else:
                            C[m, t] = A[m, t, part]

    return splitting


stored = split_k("stored", False)  # safe iff K_split = 1
added = split_k("added", True)  # safe iff K_split = 1


def blocks(name: str, guarded: bool, fenced: bool) -> Procedure:
    """Reverses blocks of 32 elements through shared memory."""

    @proc(name=name)
    def reversing(K: size, x: f32[K] @ CudaGmemLinear, y: f32[K] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, (K + 31) / 32):
                buf: f32[32] @ CudaSmemLinear
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    if guarded:
                        if 32 * task + t < K:
                            buf[t] = x[32 * task + t]
                    else:
                        buf[t] = x[32 * task + t]
                if fenced:
                    Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    if 32 * task + t < K:
                        y[32 * task + t] = buf[31 - t]
                Fence(cuda_in_order, cuda_in_order)

    return reversing


no_tail_guard = blocks("no_tail_guard", False, True)  # safe iff K mod 32 = 0
no_fence = blocks("no_fence", False, False)  # never safe
# With guards on both sides a task of at most 16 elements reads nothing that was written.
no_fence_guarded = blocks("no_fence_guarded", True, False)  # safe iff K <= 16


def ring(name: str, depth: int) -> Procedure:
    """A producer warp fills a ring that the consumer warp reads, never waiting for a free slot."""

    @proc(name=name)
    def unguarded(K: size, x: f32[K, 32] @ CudaGmemLinear, y: f32[K, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for task in cuda_tasks(0, 1):
                slots: f32[depth, 32] @ CudaSmemLinear
                full: barrier[depth] @ CudaMbarrier
                with CudaWarps(0, 1):
                    for k in seq(0, K):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            slots[k % depth, t] = x[k, t]
                        Arrive(cuda_in_order) >> full[k % depth]
                with CudaWarps(1, 2):
                    for k in seq(0, K):
                        Await(full[k % depth], cuda_in_order)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[k, t] = slots[k % depth, 31 - t]
                Fence(cuda_in_order, cuda_in_order)

    return unguarded


ring_of_4 = ring("ring_of_4", 4)  # safe iff K <= 4
ring_of_1 = ring("ring_of_1", 1)  # safe iff K = 1
