"""A running sum over blocks: each task waits for the total of the one before."""

from __future__ import annotations

from exogpu import proc


@proc
def running_sums(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    done: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            if m > 0:  # [first]
                Await(done[m - 1], cuda_in_order, 0)  # [before]
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[m, t] = x[m, t] + y[m - 1, 63 - t]  # [add]
            else:
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[m, t] = x[m, t]
            Arrive(cuda_in_order) >> done[m]  # [raise]


# planted never_waits: drop before | RAW | add `Await(done[m - 1], cuda_in_order, 0)` before line
#     | proved
# planted waits_for_itself: before: m - 1 -> m | RAW DEADLOCK | let Await at line | proved
# planted waits_for_next: before: m - 1 -> m + 1 | BOUNDS | guard the access with `if`, or add a
#     precondition that excludes indice
# planted waits_for_older: before: m - 1 -> m / 2 | RAW | let Await at line | proved
# planted never_raised: drop raise | RAW | add `Arrive(cuda_in_order) >> done[m]` after line |
#     proved
# planted raised_too_early: move raise before first | RAW | move the Arrive of line | proved
# planted one_warp_waits: put before under with CudaWarps(0, 1): | RAW | move the Await of line |
#     proved
# planted one_warp_raises: put raise under with CudaWarps(0, 1): | RAW | move the Arrive of line |
#     proved
# planted no_first: first: m > 0 -> m >= 0 | BOUNDS | guard it: put `if m - 1 >= 0:` before line |
#     refuted
