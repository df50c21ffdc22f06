"""Ownership of barriers, and divergence: each line ends in the code that it draws, if any."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_tma_multicast, Sm90_zero_scale_d


@proc
def mbarriers():
    with CudaDeviceFunction(clusterDim=2, blockDim=128):
        for task in cuda_tasks(0, 1):
            z: barrier[2, 4] @ CudaMbarrier
            flat: barrier[4] @ CudaMbarrier
            one: barrier @ CudaMbarrier
            for k in seq(0, 8):
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    # A ring in each CTA.
                    Arrive(cuda_in_order) >> z[cta, k % 4]
                    Await(z[cta, k % 4], cuda_in_order)
                    Arrive(cuda_in_order) >> flat[k % 4]  # expect: D503
                    if cta == 0:
                        Arrive(cuda_in_order) >> one
                        Await(one, cuda_in_order)
            for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Await(z[1 - cta, 0], cuda_in_order)  # expect: D501


@proc
def below_the_cta():
    """Each warp its own barrier: still one CTA that has them all."""
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            z: barrier[4] @ CudaMbarrier
            for w in cuda_threads(0, 4, unit=cuda_warp):
                Arrive(cuda_in_order) >> z[w]
                Await(z[3 - w], cuda_in_order)


@proc
def multicast():
    with CudaDeviceFunction(clusterDim=4, blockDim=128):
        for task in cuda_tasks(0, 1):
            z: barrier[2, 2] @ CudaMbarrier
            y: barrier[2, 2] @ CudaMbarrier
            x: barrier[2, 2, 4] @ CudaMbarrier
            v: barrier[2, 2] @ CudaMbarrier
            u: barrier[2, 2] @ CudaMbarrier
            for m in cuda_threads(0, 2, unit=2 * cuda_cta_in_cluster):
                for n in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    Arrive(cuda_in_order) >> z[m, :] >> z[:, n]
                    Await(z[m, n], cuda_in_order)
                    # Home unknown: which column?
                    Arrive(cuda_in_order) >> y[m, :]  # expect: D507
                    # The ring is no multicast dimension.
                    Arrive(cuda_in_order) >> x[m, n, 0] >> x[m, n, :]  # expect: D508
                    Arrive(cuda_in_order) >> v[m, n] >> v[m, 0:1]  # expect: D508
                    Arrive(cuda_in_order) >> u[m, n] >> u[:, 1 - n]  # expect: D507


@proc
def thread_counts():
    with CudaDeviceFunction(clusterDim=2, blockDim=128):
        for task in cuda_tasks(0, 1):
            z: barrier[2] @ CudaMbarrier
            y: barrier[2] @ CudaMbarrier
            for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Arrive(cuda_in_order) >> z[cta]
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    Arrive(cuda_in_order) >> z[cta]  # expect: D509
                # 64 threads in each of two CTAs, or 128 in one: 128 either way.
                Arrive(cuda_in_order) >> y[cta]
                for h in cuda_threads(0, 1, unit=2 * cuda_warp):
                    Arrive(cuda_in_order) >> y[cta] >> y[:]


@proc
def commit_groups(A: f32[128, 4] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=256):
        for task in cuda_tasks(0, 1):
            mine: barrier[256] @ CudaCommitGroup
            ring: barrier[2] @ CudaCommitGroup
            shared: barrier @ CudaCommitGroup
            wrong: barrier @ CudaCommitGroup
            wg_group: barrier[2] @ CudaCommitGroup
            wide: barrier @ CudaCommitGroup
            for t in cuda_threads(0, 256, unit=cuda_thread):
                Arrive(Sm80_cp_async) >> mine[t]
                Await(mine[t], cuda_in_order, 0)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                for k in seq(0, 8):
                    Arrive(Sm80_cp_async) >> ring[k % 2]  # expect: D502
                    Await(ring[k % 2], cuda_in_order, 0)
            for w in cuda_threads(0, 2, unit=cuda_warp):
                Arrive(tma_to_gmem_async) >> shared  # expect: D503
            for t in cuda_threads(0, 1, unit=cuda_thread):
                Arrive(cuda_in_order) >> wrong  # expect: D511
            for g in cuda_threads(0, 2, unit=cuda_warpgroup):
                Arrive(wgmma_async) >> wg_group[g]
                Await(wg_group[g], cuda_in_order, 0)
            Arrive(wgmma_async) >> wide  # expect: D516


@proc
def one_kind_a_variable():
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            cg: barrier @ CudaCommitGroup
            for t in cuda_threads(0, 1, unit=cuda_thread):
                Arrive(Sm80_cp_async) >> cg
                Arrive(tma_to_gmem_async) >> cg  # expect: D511
                Await(cg, cuda_in_order, 0)


@proc
def solitary():
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            # One after the other, of other kinds, or by other threads: fine.
            a: barrier @ CudaCommitGroup
            b: barrier @ CudaCommitGroup
            c: barrier @ CudaCommitGroup
            d: barrier @ CudaCommitGroup
            for t in cuda_threads(0, 1, unit=cuda_thread):
                Arrive(Sm80_cp_async) >> a
                Arrive(tma_to_gmem_async) >> c
                Await(a, cuda_in_order, 0)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                if t == 63:
                    Arrive(Sm80_cp_async) >> d
                    Await(d, cuda_in_order, 0)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                Arrive(Sm80_cp_async) >> b
                Await(b, cuda_in_order, 0)
                Await(c, cuda_in_order, 0)
            e: barrier @ CudaCommitGroup
            f: barrier @ CudaCommitGroup  # expect: D510
            for k in seq(0, 4):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    Arrive(Sm80_cp_async) >> e
                    Await(e, cuda_in_order, 0)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    Arrive(Sm80_cp_async) >> f
                    Await(f, cuda_in_order, 0)


@proc
def cluster_syncs():
    with CudaDeviceFunction(clusterDim=2, blockDim=64):
        for task in cuda_tasks(0, 1):
            cs: barrier @ CudaClusterSync
            Arrive(cuda_in_order) >> cs
            Await(cs, cuda_in_order, 0)
            two: barrier[2] @ CudaClusterSync  # expect: D512
            # In turns with cs in no statement: cs is done.
            late: barrier @ CudaClusterSync
            Arrive(cuda_in_order) >> late
            Await(late, cuda_in_order, 0)


@proc
def guards():
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            cg: barrier @ CudaCommitGroup
            other: barrier(cg) @ CudaMbarrier  # expect: D513


@proc
def divergent_cluster_sync():
    with CudaDeviceFunction(clusterDim=2, blockDim=64):
        for task in cuda_tasks(0, 1):
            cs: barrier @ CudaClusterSync
            for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Arrive(cuda_in_order) >> cs  # expect: H730
            with CudaWarps(0, 1):
                Await(cs, cuda_in_order, 0)  # expect: H730
                # A fence of one warp in each CTA would be a cluster barrier for half of them.
                Fence(cuda_in_order, cuda_in_order)  # expect: H730
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    Fence(cuda_in_order, cuda_in_order)


@proc
def divergent_wgmma():
    with CudaDeviceFunction(blockDim=256):
        for task in cuda_tasks(0, 1):
            D: f32[8, 64, 256] @ Sm90_RmemMatrixD(64, 256)
            cg: barrier[8] @ CudaCommitGroup
            for w in cuda_threads(0, 8, unit=cuda_warp):
                Sm90_zero_scale_d(D[w, :, :])  # expect: H730
                Fence(wgmma_fence_1, wgmma_fence_2)  # expect: H730
                Arrive(wgmma_async) >> cg[w]  # expect: H730
                Await(cg[w], cuda_in_order, 0)  # expect: H730
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                # A guard on control variables: all threads of the scope agree on it.
                if wg == 0:
                    Fence(wgmma_fence_1, wgmma_fence_2)


@proc
def divergent_multicast(A: f32[64, 32] @ CudaGmemLinear):
    A_map = A[:, :] @ Sm90_tensorMap(128, 32, 32)
    with CudaDeviceFunction(clusterDim=2, blockDim=64):
        for task in cuda_tasks(0, 1):
            S: f32[2, 64, 32] @ Sm90_SmemSwizzled(128)
            z: barrier[2] @ CudaMbarrier
            with CudaWarps(0, 1):
                (
                    Sm90_tma_multicast(
                        S[:, :, :], A_map[0:64, 0:32], n=2, rows=64, cols=32, box=(32, 32)
                    )
                    >> z[:]
                )
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    if cta == 0:
                        (  # expect: H730
                            Sm90_tma_multicast(
                                S[:, :, :], A_map[0:64, 0:32], n=2, rows=64, cols=32, box=(32, 32)
                            )
                            >> z[:]
                        )
