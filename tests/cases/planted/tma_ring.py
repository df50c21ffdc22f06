"""The largest element of each column: one warp fills a ring of three slots by TMA, four read it."""

from __future__ import annotations

from exogpu import CudaWarpConfig, macro, proc
from exogpu.isa.sm90 import Sm90_tma_load

ROLES = [CudaWarpConfig("load", 1, 0, 0), CudaWarpConfig("scan", 4, 0, 0)]


@macro
def load(slot, tile, full):
    Sm90_tma_load(slot, tile, rows=16, cols=128, box=(16, 128), swizzle=0) >> full  # [copy]


@proc
def column_max(K: size, N: size, x: f32[K, N] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear):
    assert N % 4 == 0
    x_map = x[:, :] @ Sm90_tensorMap(0, 16, 128)
    with CudaDeviceFunction(warp_config=ROLES):
        for b in cuda_tasks(0, (N + 127) / 128):
            slots: f32[3, 16, 128] @ CudaSmemLinear
            most: f32[128] @ CudaRmem
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            with CudaWarps(name="scan"):
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    most[t] = 0.0
            for k in seq(0, (K + 15) / 16):
                with CudaWarps(name="load"):
                    Await(empty, cuda_generic_and_async, ~3)  # [free]
                    c = 128 * b
                    load(slots[k % 3, :, :], x_map[16 * k : 16 * k + 16, c : c + 128], full)
                    Arrive(cuda_temporal) >> full  # [filled]
                with CudaWarps(name="scan"):
                    Await(full, cuda_in_order, ~0)  # [arrived]
                    for t in cuda_threads(0, 128, unit=cuda_thread):  # [reads]
                        for r in seq(0, 16):
                            most[t] = max(most[t], slots[k % 3, r, t])  # [read]
                    Arrive(cuda_in_order) >> empty  # [release]
            with CudaWarps(name="scan"):
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    if 128 * b + t < N:  # [tail]
                        y[128 * b + t] = most[t]
            Fence(cuda_in_order, cuda_in_order)  # [end]


# planted ring_too_long: free: ~3 -> ~4 | WAW WAR | let Await at line | proved
# planted no_proxy_fence: free: cuda_generic_and_async -> cuda_temporal | WAR | make the second
#     timeline of Await at line | proved
# planted never_waits_for_space: drop free | BARRIER PHASE WAW WAR | add `Await(empty,
#     cuda_generic_and_async, ~3)` before line | proved
# planted never_filled: drop filled | DEADLOCK BARRIER RAW FREE WAW PHASE | add
#     `Arrive(cuda_in_order) >> full` after line | proved
# planted arrives_without_seeing: arrived: cuda_in_order -> cuda_temporal | RAW | make the second
#     timeline of Await at line | proved
# planted waits_for_last_step: arrived: ~0 -> ~1 | RAW FREE WAW | let Await at line | proved
# planted never_waits_for_copy: drop arrived | RAW FREE BARRIER WAW PHASE | add `Await(full,
#     cuda_in_order, ~0)` before line | proved
# planted one_warp_waits: put arrived under with CudaWarps(0, 1): | RAW PHASE | move the Await of
#     line | proved
# planted wrong_slot: read: k % 3 -> (k + 1) % 3 | UNINIT WAR | index slots by k % 3 at line |
#     proved
# planted release_before_read: move release before reads | WAR | move the Arrive of line | proved
# planted never_released: drop release | BARRIER WAW WAR DEADLOCK PHASE | add
#     `Arrive(cuda_in_order) >> empty` after line | proved
# planted two_releases: add Arrive(cuda_in_order) >> empty after release | BARRIER PHASE WAW WAR |
#     remove the Arrive of line | proved
# planted release_by_one_warp: put release under with CudaWarps(0, 1): | WAR PHASE | move the
#     Arrive of line | proved
# planted swapped_barriers: free: empty -> full; arrived: full -> empty | DEADLOCK RAW FREE WAR |
#     exchange the barriers: let the Await at line | proved
# planted no_fence_at_end: drop end | FREE | add `Fence(cuda_in_order, cuda_in_order)` after line
#     | proved
# planted tail_unguarded: tail: 128 * b + t < N -> True | BOUNDS | guard it: put `if 128 * b + t <
#     N:` before line | proved
