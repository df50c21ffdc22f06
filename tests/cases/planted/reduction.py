"""Sums of blocks of 256 elements, by a tree in shared memory."""

from __future__ import annotations

from exogpu import proc


@proc
def block_sums(n: size, x: f32[n] @ CudaGmemLinear, y: f32[(n + 255) / 256] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=256):
        for b in cuda_tasks(0, (n + 255) / 256):
            part: f32[256] @ CudaSmemLinear
            for t in cuda_threads(0, 256, unit=cuda_thread):
                if 256 * b + t < n:  # [tail]
                    part[t] = x[256 * b + t]
                else:  # [rest]
                    part[t] = 0.0  # [zero]
            Fence(cuda_in_order, cuda_in_order)  # [written]
            for s in (128, 64, 32, 16, 8, 4, 2, 1):
                for t in cuda_threads(0, s, unit=cuda_thread):  # [half]
                    part[t] += part[t + s]  # [add]
                Fence(cuda_in_order, cuda_in_order)  # [step]
            for t in cuda_threads(0, 1, unit=cuda_thread):  # [one]
                y[b] = part[0]  # [store]
            Fence(cuda_in_order, cuda_in_order)  # [end]


# planted no_fence_after_write: drop written | RAW | add `Fence(cuda_in_order, cuda_in_order)`
#     before line | proved
# planted no_fence_between_steps: drop step | RAW | add `Fence(cuda_in_order, cuda_in_order)`
#     before line | proved
# planted fence_by_one_thread: put step under for w in cuda_threads(0, 1, unit=cuda_thread): | RAW
#     | add `Fence(cuda_in_order, cuda_in_order)` before line | proved
# planted fence_by_warps: put step under for w in cuda_threads(0, 8, unit=cuda_warp): | RAW | add
#     `Fence(cuda_in_order, cuda_in_order)` before line | proved
# planted tail_unguarded: tail: 256 * b + t < n -> True | BOUNDS | guard it: put `if 256 * b + t <
#     n:` before line | proved
# planted tail_off_by_one: tail: < n -> <= n | BOUNDS | let the bound of the `if` at line | proved
# planted rest_unwritten: cut rest; cut zero | UNINIT | fill what the `if` of line | proved
# planted too_many_threads: half: (0, s, -> (0, s + 1, | BOUNDS | guard the access with `if`, or
#     add a precondition that excludes indice
# planted stored_by_all: one: 1 -> 32 | WAW | the iterations of the loop at line
# planted use_after_free: drop end | FREE | add `Fence(cuda_in_order, cuda_in_order)` after line |
#     proved
