"""Columns of x are added up in a cluster of two CTAs: each loads half of the rows of a step by
TMA, and sends them to both.  CTA c adds up what x has of the columns of its half."""

from __future__ import annotations

from exogpu import CudaWarpConfig, proc
from exogpu.isa.sm90 import Sm90_tma_multicast

ROLES = [CudaWarpConfig("load", 1, 0, 0), CudaWarpConfig("add", 2, 0, 0)]


@proc
def column_sums(K: size, N: size, x: f32[K, N] @ CudaGmemLinear, y: f32[2, N] @ CudaGmemLinear):
    assert N % 4 == 0
    x_map = x[:, :] @ Sm90_tensorMap(0, 8, 64)
    with CudaDeviceFunction(clusterDim=2, warp_config=ROLES):
        for b in cuda_tasks(0, (N + 63) / 64):
            ring: f32[2, 2, 16, 64] @ CudaSmemLinear
            total: f32[2, 64] @ CudaRmem
            full: barrier[2] @ CudaMbarrier
            empty: barrier(full)[2] @ CudaMbarrier
            with CudaWarps(name="add"):
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for t in cuda_threads(0, 64, unit=cuda_thread):
                        total[cta, t] = 0.0
            for k in seq(0, (K + 15) / 16):
                with CudaWarps(name="load"):
                    for cta in cuda_threads(0, 2, unit=cuda_warp_in_cluster):
                        Await(empty[cta], cuda_generic_and_async, ~2)  # [free]
                    c = 64 * b
                    (
                        Sm90_tma_multicast(
                            ring[:, k % 2, :, :],
                            x_map[16 * k : 16 * k + 16, c : c + 64],
                            n=2,
                            rows=16,
                            cols=64,
                            box=(8, 64),
                            swizzle=0,
                        )
                        >> full[:]  # [mask]
                    )
                    for cta in cuda_threads(0, 2, unit=cuda_warp_in_cluster):
                        Arrive(cuda_temporal) >> full[cta]  # [filled]
                with CudaWarps(name="add"):
                    for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                        Await(full[cta], cuda_in_order, ~0)  # [arrived]
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            for r in seq(0, 16):
                                total[cta, t] += ring[cta, k % 2, r, t]  # [read]
                        Arrive(cuda_in_order) >> empty[cta] >> empty[:]  # [release]
            with CudaWarps(name="add"):
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for t in cuda_threads(0, 64, unit=cuda_thread):
                        if 64 * b + t < N:  # [tail]
                            y[cta, 64 * b + t] = total[cta, t]
            Fence(cuda_in_order, cuda_in_order)  # [end]


# planted mask_of_one: mask: full[:] -> full[0] | T231 | write `:` for each dimension that a
#     multicast signals, and a point for
# planted released_to_own: release: empty[cta] >> empty[:] -> empty[cta] | WAW WAR PHASE | let the
#     Arrive at line | proved
# planted released_to_other: release: empty[cta] >> empty[:] -> empty[1 - cta] | D501 | index it
#     the same way everywhere, or exchange the data between the thr
# planted waits_in_one_cta: put arrived under if cta == 0: | RAW FREE BARRIER WAW PHASE | move the
#     Await of line | proved
# planted no_cluster_sync: drop end | FREE | add `Fence(cuda_in_order, cuda_in_order)` after line
#     | proved
# planted synced_by_cta: put end under for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster): |
#     FREE | add `Fence(cuda_in_order, cuda_in_order)` after line | proved
# planted filled_in_one_cta: put filled under if cta == 0: | DEADLOCK BARRIER RAW FREE WAW PHASE |
#     move the Arrive of line | proved
# planted space_in_one_cta: put free under if cta == 0: | BARRIER WAW WAR PHASE | move the Await
#     of line | proved
# planted ring_too_long: free: ~2 -> ~3 | WAW WAR | let Await at line | proved
# planted no_proxy_fence: free: cuda_generic_and_async -> cuda_in_order | WAR | make the second
#     timeline of Await at line | proved
# planted other_half: read: ring[cta, k % 2, r, t] -> ring[cta, (k + 1) % 2, r, t] | UNINIT WAR |
#     index ring by k % 2 at line | proved
# planted never_released: drop release | BARRIER WAW WAR DEADLOCK PHASE | add
#     `Arrive(cuda_in_order) >> empty[cta] >> empty[0:2]` after line | proved
