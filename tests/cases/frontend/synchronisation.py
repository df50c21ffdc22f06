"""Fence, Arrive, Await and barriers."""

from __future__ import annotations

from exogpu import *


@proc
def barriers(M: size, g: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=128):
        for t in cuda_tasks(0, 1):
            z: barrier[2] @ CudaMbarrier
            y: barrier(z)[2] @ CudaMbarrier
            cg: barrier[2] @ CudaCommitGroup
            a: barrier  # expect: T215
            b: barrier @ CudaRmem  # expect: T215
            c: barrier(g)[2] @ CudaMbarrier  # expect: T214
            d: barrier(z)[2] @ CudaCommitGroup  # expect: T216
            Fence(cuda_in_order)  # expect: P123
            Fence(cuda_in_order, f32)  # expect: T243
            Arrive(cuda_in_order)  # expect: P124
            Arrive(cuda_in_order, 2) >> z[0]  # expect: T237
            Arrive(cuda_in_order, 1) >> z[0]
            Arrive(cuda_in_order) >> z[0] >> y[0]  # expect: T238
            Arrive(cuda_in_order) >> cg[0] >> cg[1]  # expect: T239
            Arrive(cuda_in_order) >> g[0]  # expect: T242
            Await(cg[:], cuda_in_order)  # expect: T240
            Await(z[0], cuda_in_order, 1)  # expect: T241
            Await(cg[0], cuda_in_order, ~0)  # expect: T241
            Await(z[0], cuda_in_order, ~2)
            Await(cg[0], cuda_in_order)
            Await(z[0])  # expect: P125
            z[0] = 3  # expect: T206
