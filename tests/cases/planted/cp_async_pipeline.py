"""Row sums: cp.async keeps two steps in flight in a ring of three slots of shared memory."""

from __future__ import annotations

from exogpu import proc
from exogpu.isa.sm80 import Sm80_cp_async_copy


@proc
def row_sums(M: size, K: size, x: f32[M, K] @ CudaGmemLinear, y: f32[M] @ CudaGmemLinear):
    assert K % 64 == 0
    with CudaDeviceFunction(blockDim=64):
        for b in cuda_tasks(0, (M + 63) / 64):
            slots: f32[3, 64, 64] @ CudaSmemLinear
            total: f32[64] @ CudaRmem
            copied: barrier[64] @ CudaCommitGroup
            for t in cuda_threads(0, 64, unit=cuda_thread):
                total[t] = 0.0
            for k in seq(0, K / 64 + 2):
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    if k < K / 64:  # [steps]
                        for r in seq(0, 16):
                            row = 4 * r + t / 16
                            col = 4 * (t % 16)
                            if 64 * b + row < M:  # [rows]
                                Sm80_cp_async_copy(
                                    slots[k % 3, row, col : col + 4],  # [into]
                                    x[64 * b + row, 64 * k + col : 64 * k + col + 4],
                                )
                    Arrive(Sm80_cp_async) >> copied[t]  # [commit]
                    if k >= 2:
                        Await(copied[t], cuda_in_order, 2)  # [wait]
                if k >= 2:
                    Fence(cuda_in_order, cuda_in_order)  # [landed]
                    for t in cuda_threads(0, 64, unit=cuda_thread):
                        if 64 * b + t < M:  # [reader]
                            for c in seq(0, 64):
                                total[t] += slots[(k - 2) % 3, t, c]  # [sum]
                    Fence(cuda_in_order, cuda_in_order)  # [read]
            for t in cuda_threads(0, 64, unit=cuda_thread):
                Await(copied[t], cuda_in_order, 0)  # [drain]
                if 64 * b + t < M:  # [tail]
                    y[64 * b + t] = total[t]
            Fence(cuda_in_order, cuda_in_order)


# planted wait_too_weak: wait: 2 -> 3 | RAW WAW | let Await at line | proved
# planted no_fence_after_wait: drop landed | RAW | add `Fence(cuda_in_order, cuda_in_order)`
#     before line | proved
# planted no_fence_before_reuse: drop read | WAR | add `Fence(cuda_in_order, Sm80_generic)` after
#     line | proved
# planted fence_by_half: put landed under with CudaWarps(0, 1): | RAW | add `Fence(cuda_in_order,
#     cuda_in_order)` before line | proved
# planted wrong_slot: sum: k - 2 -> k - 1 | UNINIT RAW | index slots by (k + 1) % 3 at line |
#     proved
# planted slot_overwritten: into: k % 3 -> (k + 1) % 3 | UNINIT RAW | index slots by (k + 2) % 3
#     at line | proved
# planted never_committed: drop commit | RAW FREE WAW | add `Arrive(Sm80_cp_async) >> copied[t]`
#     after line | proved
# planted rows_unguarded: rows: 64 * b + row < M -> True | BOUNDS | guard it: put `if 64 * b + (4
#     * r + t / 16) < M:` before line | proved
# planted tail_unguarded: tail: 64 * b + t < M -> True | BOUNDS | guard it: put `if 64 * b + t <
#     M:` before line | proved
# planted not_drained: drop drain | BARRIER | add `for t in cuda_threads(0, 64, unit=cuda_thread):
#     Await(copied[t], | proved
# planted reader_unguarded: reader: 64 * b + t < M -> True | UNINIT | write slots before it is
#     read there, or read what is written: the slot
