"""What a statement asks besides the order of accesses, one kind a line: extents of a window, what
an instruction touches under a guard, where operands lie, that they are apart, and whole warps."""

from __future__ import annotations

from exogpu import *
from exogpu.hw.operands import CUDA_MEMORY
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor


@instr(unit=cuda_thread, y=CUDA_MEMORY)
def partly(n: size, y: f32[32] @ CudaGmemLinear):
    """Zeroes the first n elements."""
    for i in seq(0, 32):
        if i < n:
            y[i] = 0.0


@proc
def asking(n: size, K: size, x: f32[n, K] @ CudaGmemLinear, y: f32[n, K] @ CudaGmemLinear):
    assert K % 8 == 0
    with CudaDeviceFunction(blockDim=64):
        for i in cuda_tasks(0, n):
            r: f32[2, 32, 4]
            with CudaWarps(0, 1):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    partly(K, y[i, 0:32])
            for w in cuda_threads(0, 2, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    row = x[i, 0:K]
                    cuda_load(r[w, t, :], row[4:8])
                for k in seq(0, 2):
                    cuda_shfl_xor(r[w, :, (k + 1) % 2], r[w, :, k % 2], mask=1)
            Fence(cuda_in_order, cuda_in_order)
