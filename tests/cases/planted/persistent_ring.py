"""A product of two vectors, by rows: a ring that runs on from task to task is filled by one warp,
and emptied by another."""

from __future__ import annotations

from exogpu import CudaWarpConfig, proc

ROLES = [CudaWarpConfig("load", 1, 0, 0), CudaWarpConfig("dot", 1, 0, 0)]


@proc
def row_dots(
    M: size,
    K: size,
    x: f32[M, K, 32] @ CudaGmemLinear,
    z: f32[K, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
):
    with CudaDeviceFunction(warp_config=ROLES):
        tile: f32[4, 32] @ CudaSmemLinear
        full: barrier @ CudaMbarrier
        empty: barrier(full) @ CudaMbarrier
        for m in cuda_tasks(0, M):
            total: f32[32] @ CudaRmem
            with CudaWarps(name="dot"):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    total[t] = 0.0
            for k in seq(0, K):
                with CudaWarps(name="load"):
                    Await(empty, cuda_in_order, ~4)  # [free]
                    for t in cuda_threads(0, 32, unit=cuda_thread):  # [fills]
                        tile[slot(full), t] = x[m, k, t] * z[k, t]  # [fill]
                    Arrive(cuda_in_order) >> full  # [filled]
                with CudaWarps(name="dot"):
                    Await(full, cuda_in_order, ~0)  # [arrived]
                    for t in cuda_threads(0, 32, unit=cuda_thread):  # [reads]
                        total[t] += tile[slot(empty), 31 - t]  # [read]
                    Arrive(cuda_in_order) >> empty  # [release]
            with CudaWarps(name="dot"):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] = total[t]


# planted ring_too_long: free: ~4 -> ~5 | WAR | let Await at line | proved
# planted counts_anew: fill: slot(full) -> k % 4; read: slot(empty) -> k % 4 | WAR | index tile by
#     slot(full) at line | proved
# planted wrong_slot: read: slot(empty) -> slot(full) | UNINIT WAR LEAK | write tile before it is
#     read there, or read what is written: the slot
# planted arrive_before_write: move filled before fills | UNINIT LEAK WAR | move the Arrive of
#     line | proved
# planted release_before_read: move release before reads | UNINIT WAR LEAK | move the Arrive of
#     line | proved
# planted never_waits: drop arrived | RAW BARRIER PHASE | add `Await(full, cuda_in_order, ~0)`
#     before line | proved
# planted never_released: drop release | BARRIER PHASE | add `Arrive(cuda_in_order) >> empty`
#     after line | proved
