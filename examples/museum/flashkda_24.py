"""FlashKDA #24, #25: ordinary stores to shared memory, then a TMA store, without a proxy fence.

Fact: a state in shared memory is cleared, updated once a tile, and stored by TMA.  Only the
loop over the tiles has a proxy fence, so that for an empty sequence nothing orders the clearing
before the TMA store (`bug`).  Elsewhere the state was first converted into a second buffer, with
a barrier after the conversion that orders threads and not proxies (`bug_converted`).
Hazard: RAW on the buffer, from the ordinary stores to the TMA store.
Fires: `bug` at 0 tiles and at no other number; `bug_converted` always.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_tma_store


def make(name: str, converted: bool, post: object) -> Procedure:
    """The barrier before the TMA store has `post` as its second timeline."""

    @proc(name=name)
    def state(tiles: size, x: f32[tiles, 8, 32] @ CudaGmemLinear, y: f32[8, 32] @ CudaGmemLinear):
        assert tiles >= 0
        y_map = y[:, :] @ Sm90_tensorMap(0, 8, 32)
        with CudaDeviceFunction(blockDim=256):
            for task in cuda_tasks(0, 1):
                buf: f32[8, 32] @ CudaSmemLinear
                wide: f32[8, 32] @ CudaSmemLinear
                done: barrier @ CudaCommitGroup
                for t in cuda_threads(0, 256, unit=cuda_thread):
                    buf[t / 32, t % 32] = 0.0  # [clear]
                for n in seq(0, tiles):
                    for t in cuda_threads(0, 256, unit=cuda_thread):
                        buf[t / 32, t % 32] = 0.5 * buf[t / 32, t % 32] + x[n, t / 32, t % 32]
                    Fence(cuda_in_order, cuda_generic_and_async)
                if converted:
                    for t in cuda_threads(0, 256, unit=cuda_thread):
                        wide[t / 32, t % 32] = 2.0 * buf[t / 32, t % 32]  # [convert]
                Fence(cuda_in_order, post)
                with CudaWarps(0, 1):
                    if converted:
                        Sm90_tma_store(  # [store_wide]
                            y_map[0:8, 0:32], wide[:, :], rows=8, cols=32, box=(8, 32)
                        )
                    else:
                        Sm90_tma_store(  # [store]
                            y_map[0:8, 0:32], buf[:, :], rows=8, cols=32, box=(8, 32)
                        )
                    Arrive(tma_to_gmem_async) >> done
                    Await(done, cuda_in_order, 0)
                Fence(cuda_in_order, cuda_in_order)

    return state


bug = make("bug", converted=False, post=cuda_in_order)
# refuted at tiles=0: RAW buf clear store
# safe iff tiles >= 1
# safe at tiles=1
# safe at tiles=2
bug_converted = make("bug_converted", converted=True, post=cuda_in_order)
# refuted at tiles=0: RAW wide convert store_wide
fix = make("fix", converted=False, post=cuda_generic_and_async)
# safe
fix_converted = make("fix_converted", converted=True, post=cuda_generic_and_async)
# safe
