"""Procedures with loops over fragments around products, each synchronisation there or not."""

from __future__ import annotations

from itertools import product

from exogpu.api import Procedure, proc
from exogpu.isa.rows import Sm90_row_max
from exogpu.isa.sm90 import Sm90_store_D, Sm90_wgmma_rs_tf32, Sm90_zero_scale_d


def make(zero: str, before: bool, waits: bool, read: str, refill: str, after: bool) -> Procedure:
    """n products of a warpgroup into one accumulator, A in registers.

    `zero`: how the accumulator begins; `before`: a wgmma.fence stands before the product; `waits`:
    the product is waited for; `read`: what reads the accumulator then; `refill`: when A is written
    again; `after`: a wgmma.fence stands after what was written.
    """

    @proc(name="product")
    def around(n: size, x: f32[64, 8] @ CudaGmemLinear, y: f32[64, 8] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                B: f32[8, 8] @ Sm90_SmemSwizzled(32)
                A: f32[64, 8] @ Sm90_RmemMatrixA(64)
                D: f32[64, 8] @ Sm90_RmemMatrixD(64, 8)
                big: f32[64, 4] @ Sm90_RmemRows(64)
                cg: barrier @ CudaCommitGroup
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    B[t / 8, t % 8] = x[t / 8, t % 8]
                Fence(cuda_in_order, cuda_generic_and_async)
                for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                    for m, k in fragment(A):
                        A[m, k] = x[m, k]
                    if zero == "scale":
                        Sm90_zero_scale_d(D[:, :], M=64, N=8)
                    if zero == "fragment":
                        for m, n_ in fragment(D):
                            D[m, n_] = 0.0
                    if before:
                        Fence(wgmma_fence_1, wgmma_fence_2)
                    for i in seq(0, n):
                        Sm90_wgmma_rs_tf32(D[:, :], A[:, :], B[:, :], N=8, swizzle=32)
                        Arrive(wgmma_async) >> cg
                        if refill == "in flight":
                            for m, k in fragment(A):
                                A[m, k] = 2.0
                        if waits:
                            Await(cg, cuda_in_order, 0)
                        else:
                            Await(cg, cuda_in_order, 1)
                        if refill == "waited for":
                            for m, k in fragment(A):
                                A[m, k] = 2.0
                        if read == "rows":
                            Sm90_row_max(big[:, :], D[:, :], N=8)
                            for m, n_ in fragment(D):
                                if n_ <= i:
                                    D[m, n_] = D[m, n_] - big[m]
                        if after:
                            Fence(wgmma_fence_1, wgmma_fence_2)
                    Await(cg, cuda_in_order, 0)
                    if read == "fragment":
                        for m, n_ in fragment(D):
                            y[m, n_] = D[m, n_]
                    else:
                        Sm90_store_D(64, 8, y[:, :], D[:, :], M=64, N=8)
                Fence(cuda_in_order, cuda_in_order)

    return around


CHOICES = tuple(
    product(
        ("scale", "fragment"),
        (True, False),
        (True, False),
        ("fragment", "rows", "store"),
        ("never", "in flight", "waited for"),
        (True, False),
    )
)
"""All arguments of `make`."""
