"""Collective analysis: each line ends in the code that it draws, if any."""

from __future__ import annotations

from exogpu import *
from exogpu.hw.operands import CUDA_MEMORY, over
from exogpu.isa.cuda import cuda_shfl_xor
from exogpu.isa.sm80 import Sm80_zero_D
from exogpu.isa.sm90 import Sm90_zero_scale_d


@proc
def ambiguous_unit(A: f32[1] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=128):
        for task in cuda_tasks(0, 1):
            # Four warps of which of the two CTAs?
            for w in cuda_threads(0, 4, unit=cuda_warp):  # expect: C401
                pass
            # Every second CTA, of two: one CTA or two, of four warps or one?
            for w in cuda_threads(0, 1, unit=cuda_warp_in_cluster_strided(2)):  # expect: C401
                pass
            for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for w in cuda_threads(0, 4, unit=cuda_warp):
                    pass


@proc
def not_enough_threads():
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            for w in cuda_threads(0, 5, unit=cuda_warp):  # expect: C402
                pass
            for w in cuda_threads(2, 6, unit=cuda_warp):
                pass
            for w in cuda_threads(0, 3, unit=cuda_warp):
                for g in cuda_threads(0, 1, unit=cuda_warpgroup):  # expect: C402
                    pass
                for t in cuda_threads(0, 33, unit=cuda_thread):  # expect: C402
                    pass
            # An empty loop is a loop.
            for w in cuda_threads(3, 3, unit=cuda_warp):
                pass


@proc
def trivial_tiling():
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            # The whole scope is one tile: one iteration has it, two do not.
            for g in cuda_threads(0, 1, unit=cuda_warpgroup):
                pass
            for g in cuda_threads(0, 2, unit=cuda_warpgroup):  # expect: C402
                pass
            for c in cuda_threads(0, 1, unit=cuda_cluster):
                pass


@proc
def does_not_divide():
    with CudaDeviceFunction(blockDim=96):
        for task in cuda_tasks(0, 1):
            for i in cuda_threads(0, 1, unit=cuda_threads_strided(4, 64)):  # expect: C403
                pass
            # 96 threads are 3 warps; 64 of them fit once.
            for i in cuda_threads(0, 1, unit=2 * cuda_warp):
                pass
            for i in cuda_threads(0, 2, unit=2 * cuda_warp):  # expect: C402
                pass
            for i in cuda_threads(0, 1, unit=cuda_cta_in_cluster_strided(2)):  # expect: C403
                pass


@proc
def quadpairs():
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            for q in cuda_threads(0, 4, unit=cuda_quadpair):  # expect: C401
                pass
            for w in cuda_threads(0, 4, unit=cuda_warp):
                for q in cuda_threads(0, 4, unit=cuda_quadpair):
                    pass
                for q in cuda_threads(0, 5, unit=cuda_quadpair):  # expect: C402
                    pass


@proc
def not_constant(M: size):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, M):
            for t in cuda_threads(0, M, unit=cuda_thread):  # expect: C408
                pass
            for t in cuda_threads(task, task + 1, unit=cuda_thread):  # expect: C408
                pass
            for t in cuda_threads(M - M, 2 * 64 - 0 * M, unit=cuda_thread):
                pass


@proc
def warp_ranges():
    with CudaDeviceFunction(
        warp_config=[CudaWarpConfig("p", 1), CudaWarpConfig("u", 3), CudaWarpConfig("c", 8)]
    ):
        for task in cuda_tasks(0, 1):
            with CudaWarps(0, 2, name="p"):  # expect: C407
                pass
            with CudaWarps(4, 8, name="c"):
                # Counted from the group's first warp, and inside the outer range.
                with CudaWarps(4, 6, name="c"):
                    pass
                with CudaWarps(0, 4, name="c"):  # expect: C407
                    pass
                with CudaWarps(0, 1, name="p"):  # expect: C405
                    pass
                with CudaWarps(5, 5, name="c"):  # expect: C407
                    pass
            for w in cuda_threads(0, 12, unit=cuda_warp):
                with CudaWarps(0, 1, name="p"):  # expect: C404
                    pass


@proc
def warps_under_a_cta_loop():
    with CudaDeviceFunction(
        clusterDim=2, warp_config=[CudaWarpConfig("p", 4), CudaWarpConfig("c", 4)]
    ):
        for task in cuda_tasks(0, 1):
            for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                with CudaWarps(name="c"):
                    for w in cuda_threads(0, 4, unit=cuda_warp):
                        pass
                    for w in cuda_threads(0, 5, unit=cuda_warp):  # expect: C402
                        pass
            with CudaWarps(name="c"):
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for w in cuda_threads(0, 4, unit=cuda_warp):
                        pass


@proc
def registers_of_part_of_a_warpgroup():
    with CudaDeviceFunction(  # expect: C409
        warp_config=[CudaWarpConfig("p", 1, 40, 0), CudaWarpConfig("c", 7, 0, 232)]
    ):
        for task in cuda_tasks(0, 1):
            pass


@proc
def registers_after_a_group_without_change():
    # The two warps of u shift c to warps 2 to 5, across a warpgroup.
    with CudaDeviceFunction(  # expect: C409 C409
        warp_config=[CudaWarpConfig("u", 2), CudaWarpConfig("c", 4, 0, 232)]
    ):
        for task in cuda_tasks(0, 1):
            pass


@proc
def registers_of_whole_warpgroups():
    with CudaDeviceFunction(
        warp_config=[
            CudaWarpConfig("p", 1, 40, 0),
            CudaWarpConfig("u", 3, 40, 0),
            CudaWarpConfig("v", 4),
            CudaWarpConfig("c", 4, 0, 232),
        ]
    ):
        for task in cuda_tasks(0, 1):
            pass


@proc
def registers_by_no_multiple_of_8():
    with CudaDeviceFunction(warp_config=[CudaWarpConfig("c", 4, 0, 230)]):  # expect: C409
        for task in cuda_tasks(0, 1):
            pass


@proc
def registers_of_the_pool():
    # 65536 / 384 is 170: 168 registers a thread, 384 * 168 = 128 * 40 + 256 * 232.
    with CudaDeviceFunction(
        warp_config=[CudaWarpConfig("p", 4, 40, 0), CudaWarpConfig("c", 8, 0, 232)]
    ):
        for task in cuda_tasks(0, 1):
            pass


@proc
def more_registers_than_the_pool_has():
    with CudaDeviceFunction(  # expect: C417
        warp_config=[CudaWarpConfig("p", 4, 40, 0), CudaWarpConfig("c", 8, 0, 240)]
    ):
        for task in cuda_tasks(0, 1):
            pass


@proc
def more_consumers_than_the_pool_has_registers_for():
    with CudaDeviceFunction(  # expect: C417
        warp_config=[CudaWarpConfig("p", 4, 40, 0), CudaWarpConfig("c", 12, 0, 232)]
    ):
        for task in cuda_tasks(0, 1):
            pass


@proc
def an_increase_that_nobody_decreases_for():
    # v keeps the 168 that it starts with.
    with CudaDeviceFunction(  # expect: C417
        warp_config=[CudaWarpConfig("v", 4), CudaWarpConfig("c", 8, 0, 176)]
    ):
        for task in cuda_tasks(0, 1):
            pass


@proc
def an_increase_within_what_every_thread_can_have():
    # 256 threads can have 256 registers each: the kernel is compiled for 240.
    with CudaDeviceFunction(warp_config=[CudaWarpConfig("v", 4), CudaWarpConfig("c", 4, 0, 240)]):
        for task in cuda_tasks(0, 1):
            pass


@proc
def a_decrease_to_more():
    # 512 threads have 128 registers each.
    with CudaDeviceFunction(  # expect: C417
        warp_config=[CudaWarpConfig("p", 4, 136, 0), CudaWarpConfig("c", 12, 0, 136)]
    ):
        for task in cuda_tasks(0, 1):
            pass


@proc
def an_increase_to_fewer():
    with CudaDeviceFunction(  # expect: C417
        warp_config=[
            CudaWarpConfig("p", 4, 24, 0),
            CudaWarpConfig("b", 4, 0, 160),
            CudaWarpConfig("c", 4, 0, 232),
        ]
    ):
        for task in cuda_tasks(0, 1):
            pass


@proc
def launches():
    with CudaDeviceFunction(blockDim=1056):  # expect: C411
        for task in cuda_tasks(0, 1):
            pass
    with CudaDeviceFunction(clusterDim=17, blockDim=32):  # expect: C412
        for task in cuda_tasks(0, 1):
            pass
    with CudaDeviceFunction(clusterDim=16, blockDim=1024):
        for task in cuda_tasks(0, 1):
            pass


@proc
def scalar_statements(A: f32[128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            A[0] = 0  # expect: C413
            for w in cuda_threads(0, 4, unit=cuda_warp):
                A[w] += 1  # expect: C413
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    A[32 * w + t] = A[t]
    A_on_cpu: f32
    A_on_cpu = 0


@proc
def instruction_scopes():
    with CudaDeviceFunction(blockDim=256):
        for task in cuda_tasks(0, 1):
            D: f32[8, 16, 8] @ Sm80_RmemMatrixD(16, 8)
            Sm80_zero_D(D[0, :, :])  # expect: C410
            for w in cuda_threads(0, 8, unit=cuda_warp):
                Sm80_zero_D(D[w, :, :])
            for h in cuda_threads(0, 2, unit=4 * cuda_warp):
                # Four aligned warps, spelt differently, are a warpgroup.
                E: f32[64, 256] @ Sm90_RmemMatrixD(64, 256)
                Sm90_zero_scale_d(E[:, :])


@proc
def misaligned_warpgroup():
    with CudaDeviceFunction(warp_config=[CudaWarpConfig("p", 1), CudaWarpConfig("c", 7)]):
        for task in cuda_tasks(0, 1):
            D: f32[64, 256] @ Sm90_RmemMatrixD(64, 256)
            with CudaWarps(0, 4, name="c"):
                Sm90_zero_scale_d(D[:, :])  # expect: C414
            with CudaWarps(3, 7, name="c"):
                Sm90_zero_scale_d(D[:, :])


@instr(unit=cuda_cta_in_cluster, x=over(CUDA_MEMORY, cuda_warp))
def eight_rows(x: f32[8, 4] @ CudaSmemLinear):
    """One warp a row."""
    for i in seq(0, 8):
        for j in seq(0, 4):
            x[i, j] = 0


@proc
def operands():
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            x: f32[8, 4] @ CudaSmemLinear
            eight_rows(x[:, :])  # expect: C402
            r: f32[64]
            s: f32[64]
            for w in cuda_threads(0, 2, unit=cuda_warp):
                cuda_shfl_xor(r[32 * w : 32 * w + 32], s[32 * w : 32 * (w + 1)], mask=1)
                # An extent that hangs on the task: no constant number of threads.
                cuda_shfl_xor(r[32 * w : 32 * w + task], s[0:32], mask=1)  # expect: C415


@proc
def fences():
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            Fence(cuda_in_order, cuda_in_order)
            for i in cuda_threads(0, 2, unit=16 * cuda_threads_strided(4, 8)):
                Fence(cuda_in_order, cuda_in_order)  # expect: C416
            for w in cuda_threads(0, 2, unit=2 * cuda_warp):
                Fence(cuda_in_order, cuda_in_order)
                for q in cuda_threads(0, 8, unit=8 * cuda_thread):
                    Fence(cuda_in_order, cuda_in_order)
            for h in cuda_threads(0, 2, unit=48 * cuda_thread):
                Fence(cuda_in_order, cuda_in_order)  # expect: C416


@proc
def later_pieces_lie_in_two_warps(x: f32[1] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=96):
        for task in cuda_tasks(0, 1):
            for w in cuda_threads(0, 4, unit=24 * cuda_thread):
                Fence(cuda_in_order, cuda_in_order)  # expect: C416
