"""Kernels whose emitted synchronisation the tests look at, and the emulator runs."""

from __future__ import annotations

from exogpu.api import Procedure
from tests.texts import made

MBARRIER = """Arrive(cuda_in_order) >> z
                Await(z, {}, ~0)"""


def product(first: str, second: str, *, warps: str = "0, 4") -> Procedure:
    """A product whose accumulator is stored after a Fence of the two timelines."""
    return made(f"""
@proc
def stores(C: f32[64, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            A: f32[64, 32] @ Sm90_SmemSwizzled(128)
            B: f32[64, 32] @ Sm90_SmemSwizzled(128)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                for k in seq(0, 32):
                    A[t, k] = 1
                    B[t, k] = 2
            Fence(cuda_in_order, cuda_generic_and_async)
            for g in cuda_threads(0, 1, unit=cuda_warpgroup):
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                Sm90_zero_scale_d(D[:, :], M=64, N=64)
                Fence(wgmma_fence_1, wgmma_fence_2)
                Sm90_wgmma_tf32(D[:, :], A[:, 0:8], B[:, 0:8], M=64, N=64)
                Fence({first}, {second})
                Sm90_store_D(64, 64, C[:, :], D[:, :], M=64, N=64)
            Fence(wgmma_async, cuda_in_order)
""")


def fragments(synchronise: str, barrier: str = "") -> Procedure:
    """A product whose fragments of A ordinary code has loaded."""
    return made(f"""
@proc
def loads(C: f32[64, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            {barrier or "pass"}
            S: f32[64, 8] @ CudaSmemLinear
            B: f32[64, 32] @ Sm90_SmemSwizzled(128)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                for k in seq(0, 8):
                    S[t, k] = 1
                for k in seq(0, 32):
                    B[t, k] = 2
            Fence(cuda_in_order, cuda_generic_and_async)
            for g in cuda_threads(0, 1, unit=cuda_warpgroup):
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                A: f32[64, 8] @ Sm90_RmemMatrixA(64)
                Sm90_zero_scale_d(D[:, :], M=64, N=64)
                Fence(wgmma_fence_1, wgmma_fence_2)
                Sm90_load_A(A[:, :], S[:, :])
                {synchronise}
                Sm90_wgmma_rs_tf32(D[:, :], A[:, :], B[:, 0:8], N=64)
                Fence(wgmma_async, cuda_in_order)
                Sm90_store_D(64, 64, C[:, :], D[:, :], M=64, N=64)
            Fence(cuda_in_order, cuda_in_order)
""")


def in_warps(count: int, warps: str, statements: str, barrier: str = "pass") -> Procedure:
    return made(f"""
@proc
def some(x: f32[1] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim={32 * count}):
        for task in cuda_tasks(0, 1):
            {barrier}
            with CudaWarps({warps}):
                {statements}
""")


def shapes(second: str) -> Procedure:
    return made(f"""
@proc
def both(C: f32[64, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            A: f32[64, 32] @ Sm90_SmemSwizzled(128)
            H: f16[64, 64] @ Sm90_SmemSwizzled(128)
            Fence(cuda_in_order, cuda_generic_and_async)
            for g in cuda_threads(0, 1, unit=cuda_warpgroup):
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                Sm90_zero_scale_d(D[:, :], M=64, N=64)
                Fence(wgmma_fence_1, wgmma_fence_2)
                Sm90_wgmma_tf32(D[:, :], A[:, 0:8], A[:, 8:16], M=64, N=64)
                {second}
                Fence(wgmma_async, cuda_in_order)
                Sm90_store_D(64, 64, C[:, :], D[:, :], M=64, N=64)
            Fence(cuda_in_order, cuda_in_order)
""")


def stores(*, after: str = "pass", loop: str = "if 0 < 1", store: str = "store") -> Procedure:
    return made(f"""
@proc
def stored(y: f32[32, 32] @ CudaGmemLinear, z: f32[32] @ CudaGmemLinear):
    w = y[:, :] @ Sm90_tensorMap(0, 32, 32)
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            S: f32[32, 32] @ CudaSmemLinear
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for k in seq(0, 32):
                    S[t, k] = 1
            Fence(cuda_in_order, cuda_generic_and_async)
            {loop}:
                with CudaWarps(0, 1):
                    Sm90_tma_{store}(w[:, :], S[:, :], rows=32, cols=32, box=(32, 32))
                    Fence(tma_to_gmem_async, cuda_generic_and_async)
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                {after}
            Fence(cuda_in_order, cuda_in_order)
""")


def by_role(cluster: int) -> Procedure:
    return made(f"""
@proc
def roles(y: f32[{cluster}, 32, 32] @ CudaGmemLinear):
    w = y[:, :, :] @ Sm90_tensorMap(0, 1, 32, 32)
    with CudaDeviceFunction(
        clusterDim={cluster}, warp_config=[CudaWarpConfig("load", 1), CudaWarpConfig("work", 1)]
    ):
        for task in cuda_tasks(0, 1):
            S: f32[{cluster}, 32, 32] @ CudaSmemLinear
            for m in cuda_threads(0, {cluster}, unit=cuda_cta_in_cluster):
                with CudaWarps(name="work"):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        for k in seq(0, 32):
                            S[m, t, k] = 1
                Fence(cuda_in_order, cuda_generic_and_async)
                with CudaWarps(name="load"):
                    Sm90_tma_store(
                        w[m, :, :], S[m, :, :], rows=32, cols=32, box=(1, 32, 32)
                    )
                    Fence(tma_to_gmem_async, cuda_in_order)
            Fence(cuda_in_order, cuda_in_order)
""")


def multicast(before: str, first: str) -> Procedure:
    return made(f"""
@proc
def tells(x: f32[2, 32] @ CudaGmemLinear, y: f32[32, 32] @ CudaGmemLinear):
    w = y[:, :] @ Sm90_tensorMap(0, 32, 32)
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 1):
            z: barrier[2] @ CudaMbarrier
            S: f32[2, 32, 32] @ CudaSmemLinear
            for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                {before}
                Arrive({first}) >> z[m] >> z[:]
                Await(z[m], cuda_in_order, ~0)
            Fence(cuda_in_order, cuda_in_order)
""")


def ring(waits: str) -> Procedure:
    return made(f"""
@proc
def turns(n: size, x: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            z: barrier @ CudaMbarrier
            for i in seq(0, n):
                with CudaWarps(0, 1):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        x[t] = 1
                    Arrive(cuda_in_order) >> z
                {waits}
                with CudaWarps(1, 2):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        x[t] = 2
                Fence(cuda_in_order, cuda_in_order)
            Fence(cuda_in_order, cuda_in_order)
""")
