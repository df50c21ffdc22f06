"""The three erroneous programs of the paper's section 2.2, and their repairs.

exogpu check examples/erroneous_synchronisation.py::example_3 --policy paper
"""

from __future__ import annotations

from exogpu import *
from exogpu.hw.operands import (
    CUDA_MEMORY,
    CUDA_REGISTER,
    TMA_LOAD,
    WGMMA_D,
    WGMMA_SMEM,
    over,
)


@instr(unit=cuda_cta_in_cluster, B=CUDA_MEMORY)
def some_in_order_op(B: f32[256, 32] @ CudaSmemLinear):
    """Ordinary work of a CTA that reads B."""
    seen: f32
    for i in seq(0, 256):
        for j in seq(0, 32):
            seen = B[i, j]


@instr(unit=cuda_warpgroup, B=CUDA_MEMORY)
def some_in_order_op_1(B: f32[256, 32] @ Sm90_SmemSwizzled(128)):
    """Ordinary work of a warpgroup that reads B."""
    seen: f32
    for i in seq(0, 256):
        for j in seq(0, 32):
            seen = B[i, j]


@instr(unit=cuda_warpgroup, D=CUDA_REGISTER)
def some_in_order_op_2(D: f32[64, 256] @ Sm90_RmemMatrixD(64, 256)):
    """Ordinary work of a warpgroup on its accumulator."""
    for m in seq(0, 64):
        for n in seq(0, 256):
            D[m, n] = relu(D[m, n])


@instr(unit=cuda_cluster, B=over(TMA_LOAD, cuda_cta_in_cluster), src=TMA_LOAD)
def example_tma_multicast(
    B: f32[2, 256, 32] @ memory, src: f32[256, 32] @ CudaGmemLinear, *, memory=CudaSmemLinear
):
    """Copies src to the B of both CTAs, asynchronously."""
    for cta in seq(0, 2):
        for i in seq(0, 256):
            for j in seq(0, 32):
                B[cta, i, j] = src[i, j]


@instr(unit=cuda_warpgroup, D=WGMMA_D, A=WGMMA_SMEM, B=WGMMA_SMEM)
def example_wgmma(
    D: f32[64, 256] @ Sm90_RmemMatrixD(64, 256),
    A: f32[64, 32] @ CudaGmemLinear,
    B: f32[256, 32] @ memory,
    *,
    memory=CudaGmemLinear,
):
    """D += matmul(A, B), asynchronously."""
    for m in seq(0, 64):
        for n in seq(0, 256):
            for k in seq(0, 32):
                D[m, n] += A[m, k] * B[n, k]


def make_example_1(name: str, inside: bool, post) -> Procedure:
    """The fence inside the loop over CTAs, or after it; its second timeline is `post`."""

    @proc(name=name)
    def example_1(some_gmem: f32[256, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=2, blockDim=256):
            for task in cuda_tasks(0, 1):
                B: f32[2, 256, 32] @ CudaSmemLinear
                uninit(B)  # here and below: the paper shows synchronisation, not values
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    some_in_order_op(B[cta, :, :])
                    if inside:
                        Fence(cuda_in_order, post)  # __syncthreads
                if not inside:
                    Fence(cuda_in_order, post)  # of the whole cluster
                example_tma_multicast(B[:, :, :], some_gmem[:, :])
                Fence(
                    tma_to_smem_async, cuda_generic_and_async
                )  # stands for what waits for the copy

    return example_1


example_1 = make_example_1("example_1", True, cuda_in_order)
example_1_repaired = make_example_1("example_1_repaired", False, cuda_generic_and_async)
example_1_repaired_paper = make_example_1("example_1_repaired_paper", False, cuda_in_order)


def make_example_2(name: str, wait: bool) -> Procedure:
    """With or without waiting for the wgmma."""

    @proc(name=name)
    def example_2(some_A: f32[64, 32] @ CudaGmemLinear, some_B: f32[256, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=2, blockDim=256):
            for task in cuda_tasks(0, 1):
                D: f32[2, 2, 64, 256] @ Sm90_RmemMatrixD(64, 256)
                uninit(D)
                cg: barrier[2, 2] @ CudaCommitGroup
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                        example_wgmma(D[cta, wg, :, :], some_A[:, :], some_B[:, :])
                        if wait:
                            Arrive(wgmma_async) >> cg[cta, wg]
                            Await(cg[cta, wg], cuda_in_order, 0)
                        some_in_order_op_2(D[cta, wg, :, :])

    return example_2


example_2 = make_example_2("example_2", False)
example_2_repaired = make_example_2("example_2_repaired", True)


def make_example_3(name: str, early: bool, post) -> Procedure:
    """The Await on the commit group before the cluster sync's Arrive, or after it."""

    @proc(name=name)
    def example_3(some_A: f32[64, 32] @ CudaGmemLinear, some_gmem: f32[256, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=2, blockDim=256):
            for task in cuda_tasks(0, 1):
                B: f32[2, 256, 32] @ Sm90_SmemSwizzled(128)
                uninit(B)
                D: f32[2, 2, 64, 256] @ Sm90_RmemMatrixD(64, 256)
                uninit(D)
                cg: barrier[2, 2] @ CudaCommitGroup
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                        some_in_order_op_1(B[cta, :, :])
                        example_wgmma(
                            D[cta, wg, :, :],
                            some_A[:, :],
                            B[cta, :, :],
                            memory=Sm90_SmemSwizzled(128),
                        )
                        Arrive(wgmma_async) >> cg[cta, wg]
                        if early:
                            Await(cg[cta, wg], cuda_in_order, 0)
                cs: barrier @ CudaClusterSync
                Arrive(cuda_in_order) >> cs
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                        if not early:
                            Await(cg[cta, wg], cuda_in_order, 0)
                        some_in_order_op_2(D[cta, wg, :, :])
                Await(cs, post, 0)
                example_tma_multicast(B[:, :, :], some_gmem[:, :], memory=Sm90_SmemSwizzled(128))
                Fence(
                    tma_to_smem_async, cuda_generic_and_async
                )  # stands for what waits for the copy

    return example_3


example_3 = make_example_3("example_3", False, cuda_in_order)
example_3_repaired = make_example_3("example_3_repaired", True, cuda_generic_and_async)
example_3_repaired_paper = make_example_3("example_3_repaired_paper", True, cuda_in_order)
