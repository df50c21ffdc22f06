"""FlashKDA #24 between warp roles: ordinary stores by one role, the TMA store by another.

Fact: the common epilogue: each consumer stores its part of a tile to shared memory, executes a
proxy fence, and arrives on an mbarrier; one warp of another role awaits it and starts the TMA
store.  The awaiting warp has no proxy fence of its own and needs none (`fix`); with none at the
writers the TMA store reads what was there before (`bug`), and one that stands before the stores is
as good as none (`bug_early`).
Hazard: RAW on the tile, from the ordinary stores to the TMA store.
Fires: always.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_tma_store

WARPS = [CudaWarpConfig("writer", 4, 0, 0), CudaWarpConfig("storer", 1, 0, 0)]


def make(name: str, early: object, late: object) -> Procedure:
    """The second timelines of the writers' fences, before the stores and after them."""

    @proc(name=name)
    def epilogue(M: size, x: f32[M, 4, 32] @ CudaGmemLinear, y: f32[4 * M, 32] @ CudaGmemLinear):
        y_map = y[:, :] @ Sm90_tensorMap(0, 4, 32)
        with CudaDeviceFunction(warp_config=WARPS):
            for m in cuda_tasks(0, M):
                tile: f32[4, 32] @ CudaSmemLinear
                stored: barrier @ CudaMbarrier
                done: barrier @ CudaCommitGroup
                with CudaWarps(name="writer"):
                    Fence(cuda_in_order, early)
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        tile[t / 32, t % 32] = x[m, t / 32, t % 32]  # [write]
                    Fence(cuda_in_order, late)
                    Arrive(cuda_in_order) >> stored
                with CudaWarps(name="storer"):
                    Await(stored, cuda_in_order, ~0)
                    Sm90_tma_store(  # [store]
                        y_map[4 * m : 4 * m + 4, 0:32], tile[:, :], rows=4, cols=32, box=(4, 32)
                    )
                    Arrive(tma_to_gmem_async) >> done
                    Await(done, cuda_in_order, 0)
                Fence(cuda_in_order, cuda_in_order)

    return epilogue


bug = make("bug", early=cuda_in_order, late=cuda_in_order)
# ptx refuted at M=1: RAW tile write store
# paper refuted at M=1: RAW tile write store
bug_early = make("bug_early", early=cuda_generic_and_async, late=cuda_in_order)
# ptx refuted at M=1: RAW tile write store
# paper refuted at M=1: RAW tile write store
fix = make("fix", early=cuda_in_order, late=cuda_generic_and_async)
# ptx safe
# paper refuted at M=1: RAW tile write store
fix_async_alone = make("fix_async_alone", early=cuda_in_order, late=cuda_async_proxy)
# ptx safe
# paper refuted at M=1: RAW tile write store
