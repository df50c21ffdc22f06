"""How often each of 64 keys occurs: each CTA counts in shared memory, and adds what it has."""

from __future__ import annotations

from exogpu import proc
from exogpu.isa.cuda import cuda_atomic_add


@proc
def histogram(
    n: size,
    key: i32[n] @ CudaGmemLinear,
    weight: f32[n] @ CudaGmemLinear,
    y: f32[64] @ CudaGmemLinear,
):
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, (n + 511) / 512):
            hist: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                hist[t] = 0.0  # [zero]
            Fence(cuda_in_order, cuda_in_order)  # [zeroed]
            for t in cuda_threads(0, 128, unit=cuda_thread):
                for i in seq(0, 4):
                    e = 512 * b + 128 * i + t
                    if e < n:  # [tail]
                        k = load_index(key[e], 0, 64)  # [key]
                        w: f32
                        w = weight[e]
                        cuda_atomic_add(hist[k], w)  # [count]
            Fence(cuda_in_order, cuda_in_order)  # [counted]
            for t in cuda_threads(0, 64, unit=cuda_thread):
                h: f32
                h = hist[t]
                cuda_atomic_add(y[t], h)  # [add]
            Fence(cuda_in_order, cuda_in_order)  # [end]


# planted missing_atomic: count: cuda_atomic_add(hist[k], w) -> hist[k] += w | RAW | add
#     atomically (cuda_atomic_add), or write different elements; if the
# planted missing_atomic_in_global: add: cuda_atomic_add(y[t], h) -> y[t] += h | RAW | add
#     atomically (cuda_atomic_add): tasks of one kernel are ordered by f
# planted no_fence_after_zero: drop zeroed | RAW | add `Fence(cuda_in_order, cuda_in_order)`
#     before line | proved
# planted never_zeroed: drop zero | UNINIT | write hist before it is read there, or read what is
#     written: the slot
# planted no_fence_before_add: drop counted | RAW | add `Fence(cuda_in_order, cuda_in_order)`
#     before line | proved
# planted one_warp_fences: put counted under with CudaWarps(0, 1): | RAW | move the Fence of line
#     | proved
# planted use_after_free: drop end | FREE | add `Fence(cuda_in_order, cuda_in_order)` after line |
#     proved
# planted tail_unguarded: tail: e < n -> True | BOUNDS | guard it: put `if 512 * b + 128 * i + t <
#     n:` before line | proved
# planted key_too_large: key: 64 -> 65 | BOUNDS | narrow the range of the load_index at line
