"""What may stand at CPU scope, in a kernel, in a task."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.cuda import cuda_load, cuda_memset0_1d

FEWER = [CudaWarpConfig("fewer", 4, 40, 0)]
GROUPS = [CudaWarpConfig("producer", 4, 40, 0), CudaWarpConfig("consumer", 8, 0, 232)]


@proc
def cpu(M: size, h: f32[M], g: f32[M] @ CudaGmemLinear):
    h[0] = 1
    g[0] = 1  # expect: S302
    s: f32[4] @ CudaSmemLinear  # expect: S317
    base: f32[4] @ CudaBasicSmem  # expect: T236
    z: barrier @ CudaMbarrier  # expect: S318
    for t in cuda_threads(0, 4, unit=cuda_thread):  # expect: S310
        h[t] = 0
    for t in cuda_tasks(0, 4):  # expect: S309
        h[t] = 0
    with CudaWarps(0, 1, name="producer"):  # expect: S313
        h[0] = 0
    Fence(cuda_stream_sync, cpu_in_order)
    Fence(cuda_in_order, cuda_in_order)  # expect: S322
    cuda_load(h[0:4], g[0:4])  # expect: T227
    cuda_memset0_1d(M, g[:])
    with CudaDeviceFunction(blockDim=64):  # expect: S312
        h[0] = 0
    with CudaDeviceFunction(blockDim=33):  # expect: T233
        for t in cuda_tasks(0, 1):
            pass
    with CudaDeviceFunction(blockDim=32, warp_config=GROUPS):  # expect: P121
        for t in cuda_tasks(0, 1):
            pass
    with CudaDeviceFunction(blockDim=1024, minBlocks=3):  # expect: P121
        for t in cuda_tasks(0, 1):
            pass
    with CudaDeviceFunction(blockDim=1024, minBlocks=2):
        for t in cuda_tasks(0, 1):
            pass
    with CudaDeviceFunction(warp_config=FEWER, minBlocks=2):  # expect: P121
        for t in cuda_tasks(0, 1):
            pass
    with CudaDeviceFunction(warp_config=[3]):  # expect: T234
        for t in cuda_tasks(0, 1):
            pass
    with CudaDeviceFunction(clusterDim=0, blockDim=32):  # expect: T232
        for t in cuda_tasks(0, 1):
            pass


@proc
def cuda(M: size, h: f32[M], g: f32[M] @ CudaGmemLinear):
    G_map = g[:] @ Sm90_tensorMap(0, 32)
    with CudaDeviceFunction(clusterDim=2, warp_config=GROUPS):
        for t in cuda_tasks(0, M):
            r: f32[2]
            d: f32[4] @ DRAM  # expect: S316
            e: f32[4] @ CudaGmemLinear  # expect: S316
            h[0] = 1  # expect: S303
            G_map[0] = 1  # expect: S301
            Fence(cpu_in_order, cuda_in_order)  # expect: S323
            cuda_memset0_1d(M, g[:])  # expect: S306
            W = g[:] @ Sm90_tensorMap(0, 32)  # expect: S319
            for u in cuda_tasks(0, 2):  # expect: S309
                pass
            for u in cuda_threads(0, 2):  # expect: T219
                pass
            for u in cuda_threads(0, 2, unit=3):  # expect: T219
                pass
            with CudaWarps(0, 1, name="loader"):  # expect: S314
                pass
            with CudaWarps(0, 1):  # expect: S314
                pass
            with CudaDeviceFunction(blockDim=32):  # expect: S311
                pass
            with CudaWarps(1, name="producer"):  # expect: P122
                pass
