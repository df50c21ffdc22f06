"""A product by CUDA cores behind a ring of cp.async, wrong in five ways.

# proved right
# refuted late: RAW | let Await at line {wait} wait for it: 1 instead of 2 | proved
# refuted full: RAW WAR | |
# refuted no_fence: RAW WAR
#     | add `Fence(cuda_in_order, cuda_in_order)` after line {wait}, | proved
# refuted no_end: FREE | before the memory of As ends | proved
# refuted no_drain: BARRIER | Await(cg[i, j], cuda_in_order, 0)` after line | proved
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm80 import Sm80_cp_async_copy

RING = 3


def make(
    name: str,
    wait: int = RING - 2,
    ahead: int = RING - 1,
    fence: bool = True,
    drain: bool = True,
    end: bool = True,
) -> Procedure:
    """How many groups are left in flight, how many steps are loaded ahead, and what is left out."""

    @proc(name=name)
    def product(
        M: size,
        N: size,
        K: size,
        A: f32[M, K] @ CudaGmemLinear,
        B: f32[K, N] @ CudaGmemLinear,
        C: f32[M, N] @ CudaGmemLinear,
    ):
        assert M % 32 == 0
        assert N % 32 == 0
        assert K % 32 == 0
        with CudaDeviceFunction(blockDim=256):
            for bm in cuda_tasks(0, M / 32):
                for bn in cuda_tasks(0, N / 32):
                    As: f32[RING, 32, 32] @ CudaSmemLinear
                    Bs: f32[RING, 32, 32] @ CudaSmemLinear
                    cg: barrier[32, 8] @ CudaCommitGroup
                    acc: f32[32, 8, 4] @ CudaRmem
                    for i in cuda_threads(0, 32, unit=8 * cuda_thread):
                        for j in cuda_threads(0, 8, unit=cuda_thread):
                            for c in seq(0, 4):
                                acc[i, j, c] = 0.0
                            for s in seq(0, ahead):
                                if s < K / 32:
                                    Sm80_cp_async_copy(
                                        As[s, i, 4 * j : 4 * j + 4],
                                        A[32 * bm + i, 32 * s + 4 * j : 32 * s + 4 * j + 4],
                                    )
                                    Sm80_cp_async_copy(
                                        Bs[s, i, 4 * j : 4 * j + 4],
                                        B[32 * s + i, 32 * bn + 4 * j : 32 * bn + 4 * j + 4],
                                    )
                                Arrive(Sm80_cp_async) >> cg[i, j]
                    for k in seq(0, K / 32):
                        for i in cuda_threads(0, 32, unit=8 * cuda_thread):
                            for j in cuda_threads(0, 8, unit=cuda_thread):
                                Await(cg[i, j], cuda_in_order, wait)  # [wait]
                        if fence:
                            Fence(cuda_in_order, cuda_in_order)
                        for i in cuda_threads(0, 32, unit=8 * cuda_thread):
                            for j in cuda_threads(0, 8, unit=cuda_thread):
                                if k + ahead < K / 32:
                                    column = 32 * (k + ahead)
                                    Sm80_cp_async_copy(
                                        As[(k + ahead) % RING, i, 4 * j : 4 * j + 4],
                                        A[32 * bm + i, column + 4 * j : column + 4 * j + 4],
                                    )
                                    Sm80_cp_async_copy(
                                        Bs[(k + ahead) % RING, i, 4 * j : 4 * j + 4],
                                        B[column + i, 32 * bn + 4 * j : 32 * bn + 4 * j + 4],
                                    )
                                Arrive(Sm80_cp_async) >> cg[i, j]
                                for kk in seq(0, 32):
                                    for c in seq(0, 4):
                                        acc[i, j, c] += (
                                            As[k % RING, i, kk] * Bs[k % RING, kk, 4 * j + c]
                                        )
                    for i in cuda_threads(0, 32, unit=8 * cuda_thread):
                        for j in cuda_threads(0, 8, unit=cuda_thread):
                            for c in seq(0, 4):
                                C[32 * bm + i, 32 * bn + 4 * j + c] = acc[i, j, c]
                            if drain:
                                Await(cg[i, j], cuda_in_order, 0)
                    if end:
                        Fence(cuda_in_order, cuda_in_order)

    return product


right = make("right")
late = make("late", wait=RING - 1)
full = make("full", wait=RING - 1, ahead=RING)
no_fence = make("no_fence", fence=False)
no_end = make("no_end", end=False)
no_drain = make("no_drain", drain=False)
