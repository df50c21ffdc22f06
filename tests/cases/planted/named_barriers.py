"""Two pairs of warps hand one tile to and fro: one writes rows, the other stores them reversed."""

from __future__ import annotations

from exogpu import proc


@proc
def reverse_rows(
    M: size, K: size, x: f32[M, K, 64] @ CudaGmemLinear, y: f32[M, K, 64] @ CudaGmemLinear
):
    with CudaDeviceFunction(blockDim=128):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            ready: barrier @ CudaNamedBarrier
            taken: barrier @ CudaNamedBarrier
            with CudaWarps(2, 4):
                Arrive(cuda_in_order) >> taken  # [first]
            for k in seq(0, K):
                with CudaWarps(0, 2):
                    Await(taken, cuda_in_order)  # [free]
                    for t in cuda_threads(0, 64, unit=cuda_thread):  # [writes]
                        tile[t] = x[m, k, t]  # [write]
                    Arrive(cuda_in_order) >> ready  # [written]
                with CudaWarps(2, 4):
                    Await(ready, cuda_in_order)  # [arrived]
                    for t in cuda_threads(0, 64, unit=cuda_thread):  # [reads]
                        y[m, k, t] = tile[63 - t]  # [read]
                    Arrive(cuda_in_order) >> taken  # [release]
            with CudaWarps(0, 2):
                Await(taken, cuda_in_order)  # [last]
            Fence(cuda_in_order, cuda_in_order)  # [end]


# planted reader_never_waits: drop arrived | RAW PHASE BARRIER | add `Await(ready, cuda_in_order,
#     ~0)` before line | proved
# planted writer_never_waits: drop free | PHASE BARRIER WAR | add `Await(taken, cuda_in_order,
#     ~0)` before line | proved
# planted written_too_early: move written before writes | RAW | move the Arrive of line | proved
# planted taken_too_early: move release before reads | WAR | move the Arrive of line | proved
# planted first_forgotten: drop first | DEADLOCK BARRIER WAR PHASE | add `with CudaWarps(2, 4):
#     Arrive(cuda_in_order) >> taken` before line | proved
# planted last_forgotten: drop last | BARRIER | add `with CudaWarps(0, 2): Await(taken,
#     cuda_in_order, ~0)` after line | proved
# planted swapped_roles: arrived: ready -> taken; free: taken -> ready | D521 D521 | a phase has
#     threads that only arrive and threads that wait: join those
# planted use_after_free: drop end | FREE | add `Fence(cuda_in_order, cuda_in_order)` after line |
#     proved
# planted never_taken: drop release | DEADLOCK BARRIER WAR PHASE | add `Arrive(cuda_in_order) >>
#     taken` after line | proved
