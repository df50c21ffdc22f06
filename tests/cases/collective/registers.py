"""Ownership of registers and shared memory: each line ends in the code that it draws, if any."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.cuda import cuda_shfl_xor
from exogpu.isa.sm80 import Sm80_zero_D
from exogpu.isa.sm90 import Sm90_load_A, Sm90_zero_scale_d


@proc
def undistributed_copy(A: f32[32] @ CudaGmemLinear, B: f32[32] @ CudaGmemLinear):
    """The paper's section 2.1: sequentially B is A[31] everywhere, on threads it would be A."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            tmp: f32
            for i in cuda_threads(0, 32, unit=cuda_thread):
                tmp = A[i]  # expect: D503
            for i in cuda_threads(0, 32, unit=cuda_thread):
                B[i] = tmp


@proc
def distributed_copy(A: f32[32] @ CudaGmemLinear, B: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            tmp: f32[32]
            for i in cuda_threads(0, 32, unit=cuda_thread):
                tmp[i] = A[i]
            for i in cuda_threads(0, 32, unit=cuda_thread):
                B[i] = tmp[i]


@proc
def broadcast_by_another_thread(A: f32[32] @ CudaGmemLinear, B: f32[32] @ CudaGmemLinear):
    """One thread writes; another one reads."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            tmp: f32
            for i in cuda_threads(0, 1, unit=cuda_thread):
                tmp = A[0]
            for i in cuda_threads(0, 2, unit=cuda_thread):
                if i == 1:
                    B[i] = tmp  # expect: D501


@proc
def one_thread_under_a_guard(A: f32[32] @ CudaGmemLinear, B: f32[32] @ CudaGmemLinear):
    """Guards count: only thread 0 ever has tmp."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            tmp: f32
            for i in cuda_threads(0, 32, unit=cuda_thread):
                if i == 0:
                    tmp = A[i]
            for i in cuda_threads(0, 1, unit=cuda_thread):
                B[i] = tmp


@proc
def reversed_index(A: f32[32] @ CudaGmemLinear, B: f32[32] @ CudaGmemLinear):
    """tmp[31 - i] is another thread's; used so in both places it is a fine name for one's own."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            mixed: f32[32]
            same: f32[32]
            for i in cuda_threads(0, 32, unit=cuda_thread):
                mixed[i] = A[i]
                same[31 - i] = A[i]
            for i in cuda_threads(0, 32, unit=cuda_thread):
                B[i] = mixed[31 - i]  # expect: D501
                B[i] = same[31 - i]


@proc
def iterations_take_tiles_from_the_first(A: f32[32] @ CudaGmemLinear):
    """Iteration 16 of a loop from 16 is executed by thread 0."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            x: f32[32]
            for i in cuda_threads(0, 16, unit=cuda_thread):
                x[i] = A[i]
            for i in cuda_threads(16, 32, unit=cuda_thread):
                x[i - 16] = A[i]
                x[i] = A[i]  # expect: D502


@proc
def overlapping_owners(A: f32[32] @ CudaGmemLinear):
    """Two indices of the distributed dimension in one thread, from two statements."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            tmp: f32[64]
            for i in cuda_threads(0, 32, unit=cuda_thread):
                tmp[i] = A[i]
                tmp[i + 32] = A[i]  # expect: D502


@proc
def thread_arrays(A: f32[128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            acc: f32[128, 4]
            bad: f32[128, 4]
            for t in cuda_threads(0, 128, unit=cuda_thread):
                own: f32[4]
                for k in seq(0, 4):
                    acc[t, k] = 0
                    own[k] = acc[t, 3 - k]
                    bad[t, (t + k) % 4] = 0  # expect: D504


@proc
def two_indices_for_a_thread(A: f32[128] @ CudaGmemLinear):
    """The warp and the lane together name the thread; n / 2 of a loop over n does too."""
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            x: f32[4, 32]
            y: f32[32]
            for w in cuda_threads(0, 4, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[w, t] = 0
                    y[t] = 0  # expect: D503
            for n in cuda_threads(0, 128, unit=cuda_thread):
                x[n / 32, n % 32] = 1


@proc
def registers_of_a_sequential_index(A: f32[32] @ CudaGmemLinear):
    """A distributed index that also moves in time would move the register between threads."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            x: f32[32]
            for k in seq(0, 32):
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    x[(i + k) % 32] = 0  # expect: D503


@proc
def shuffles():
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            a: f32[2, 32]
            b: f32[2, 32]
            c: f32[32]
            for w in cuda_threads(0, 2, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    a[w, t] = 0
                cuda_shfl_xor(b[w, :], a[w, :], mask=1)
                cuda_shfl_xor(c[:], b[w, :], mask=1)  # expect: D503
            for t in cuda_threads(0, 32, unit=cuda_thread):
                a[1, t] = 0  # expect: D501


@proc
def tiles():
    with CudaDeviceFunction(blockDim=256):
        for task in cuda_tasks(0, 1):
            D: f32[2, 64, 256] @ Sm90_RmemMatrixD(64, 256)
            E: f32[64, 256] @ Sm90_RmemMatrixD(64, 256)
            F: f32[2, 64, 128] @ Sm90_RmemMatrixD(64, 256)  # expect: D505
            G: f32[8, 2, 16, 8] @ Sm80_RmemMatrixD(16, 8)
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                Sm90_zero_scale_d(D[wg, :, :])
                Sm90_zero_scale_d(E[:, :])  # expect: D503
            for w in cuda_threads(0, 8, unit=cuda_warp):
                for i in seq(0, 2):
                    # Several tiles a warp: the second dimension is not distributed.
                    Sm80_zero_D(G[w, i, :, :])


@proc
def tile_without_warpgroup():
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            D: f32[64, 256] @ Sm90_RmemMatrixD(64, 256)  # expect: D515


@proc
def shared_memory(A: f32[128] @ CudaGmemLinear):
    """Any thread of the CTA may use any element."""
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            buf: f32[128] @ CudaSmemLinear
            for t in cuda_threads(0, 128, unit=cuda_thread):
                buf[t] = A[t]
            for t in cuda_threads(0, 128, unit=cuda_thread):
                buf[127 - t] += buf[0]
            for w in cuda_threads(0, 4, unit=cuda_warp):
                part: f32[32] @ CudaSmemLinear  # expect: D514


@proc
def shared_memory_of_a_cluster(A: f32[256] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=128):
        for task in cuda_tasks(0, 1):
            both: f32[2, 128] @ CudaSmemLinear
            swapped: f32[2, 128] @ CudaSmemLinear
            flat: f32[128] @ CudaSmemLinear
            for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                own: f32[128] @ CudaSmemLinear
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    own[t] = 0
                    both[cta, t] = A[128 * cta + t]
                    swapped[1 - cta, t] = 0
                    flat[t] = 0  # expect: D503
            for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    swapped[1 - cta, t] = 1
                    both[1 - cta, t] = 1  # expect: D501
            for n in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    if n == 1:
                        both[1, t] = 2


@proc
def disagreement_with_an_earlier_use(A: f32[32] @ CudaGmemLinear):
    """Neighbouring uses touch different elements; the first and the last one disagree."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            x: f32[32]
            for i in cuda_threads(0, 16, unit=cuda_thread):
                x[i] = A[i]
            for i in cuda_threads(0, 32, unit=cuda_thread):
                if i >= 16:
                    x[i] = A[i]
            for i in cuda_threads(0, 2, unit=cuda_thread):
                x[1 - i] = A[i]  # expect: D501


@proc
def parts_of_tiles():
    """A window of registers has no address: its offset would be lost."""
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            s: f32[64, 32] @ CudaSmemLinear
            A: f32[64, 32] @ Sm90_RmemMatrixA(64)
            B: f32[4, 64, 8] @ Sm90_RmemMatrixA(64)
            D: f32[2, 4, 16, 8] @ Sm80_RmemMatrixD(16, 8)
            for g in cuda_threads(0, 1, unit=cuda_warpgroup):
                Sm90_load_A(A[:, :], s[:, :], K=32)
                for k in seq(0, 4):
                    Sm90_load_A(A[:, 8 * k : 8 * k + 8], s[:, 8 * k : 8 * k + 8])  # expect: D517
                    Sm90_load_A(B[k, :, :], s[:, 8 * k : 8 * k + 8])
                part = A[:, 0:8]
                Sm90_load_A(part[:, :], s[:, 0:8])  # expect: D517
            for w in cuda_threads(0, 2, unit=cuda_warp):
                Sm80_zero_D(D[w, 3, :, :])


@proc
def a_tile_across_tiles():
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            D: f32[16, 16, 8] @ Sm80_RmemMatrixD(16, 8)
            for w in cuda_threads(0, 1, unit=cuda_warp):
                Sm80_zero_D(D[3, :, :])
                Sm80_zero_D(D[:, 3, :])  # expect: D517
