"""Triton #7262: ordinary reads of shared memory, then a TMA load over it, without a proxy fence.

Fact: a tile was read by ordinary loads, all threads met at a barrier, and TMA filled the tile
anew; the barrier orders threads, but nothing ordered the generic proxy before the async one.
Hazard: WAR on the tile, from the ordinary reads to the TMA load.
Fires: from two tiles on.  Policy paper accepts the program: it lets an overwrite by the async
proxy follow an ordinary read with temporal order alone.  Policy ptx asks for the fence.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_tma_load


def make(name: str, post: object) -> Procedure:
    """The barrier between a tile's reads and its refill has `post` as its second timeline."""

    @proc(name=name)
    def reverse_rows(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
        assert M % 8 == 0
        x_map = x[:, :] @ Sm90_tensorMap(128, 8, 32)
        with CudaDeviceFunction(blockDim=256):
            for task in cuda_tasks(0, 1):
                tile: f32[8, 32] @ Sm90_SmemSwizzled(128)
                full: barrier @ CudaMbarrier
                for m in seq(0, M / 8):
                    with CudaWarps(0, 1):
                        (  # [load]
                            Sm90_tma_load(
                                tile[:, :],
                                x_map[8 * m : 8 * m + 8, 0:32],
                                rows=8,
                                cols=32,
                                box=(8, 32),
                            )
                            >> full
                        )
                        Arrive(cuda_temporal) >> full
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 256, unit=cuda_thread):
                        y[8 * m + t / 32, t % 32] = tile[7 - t / 32, t % 32]  # [read]
                    Fence(cuda_in_order, post)

    return reverse_rows


bug = make("bug", post=cuda_in_order)
# ptx refuted at M=16: WAR tile read load
# ptx safe iff M = 8
# ptx safe at M=8
# paper safe
fix = make("fix", post=cuda_generic_and_async)
# safe
