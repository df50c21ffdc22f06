"""FlashInfer #2996: a barrier of the whole CTA inside the branch of one warp role.

Fact: a warp-specialised kernel called a barrier of all threads of the CTA from the branch of the
compute warps; the TMA warps never come there, and on H100 the kernel hung now and then.
Hazard: DIVERGENCE.
Fires: always.  A cluster of one CTA makes the cluster sync a barrier of the CTA; the fix is a
barrier of the role alone, as a Fence in its branch is.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_tma_load

RING = 2

WARPS = [CudaWarpConfig("producer", 4, 40, 0), CudaWarpConfig("consumer", 8, 0, 232)]


def make(name: str, whole_cta: bool) -> Procedure:
    """The consumers exchange a tile behind a barrier of the whole CTA, or of their own."""

    @proc(name=name)
    def reverse_rows(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
        assert M % 8 == 0
        x_map = x[:, :] @ Sm90_tensorMap(128, 8, 32)
        with CudaDeviceFunction(warp_config=WARPS):
            for task in cuda_tasks(0, 1):
                tile: f32[RING, 8, 32] @ Sm90_SmemSwizzled(128)
                scaled: f32[8, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                if whole_cta:
                    cta: barrier @ CudaClusterSync
                for m in seq(0, M / 8):
                    with CudaWarps(0, 1, name="producer"):
                        Await(empty, cuda_generic_and_async, ~RING)
                        (
                            Sm90_tma_load(
                                tile[m % RING, :, :],
                                x_map[8 * m : 8 * m + 8, 0:32],
                                rows=8,
                                cols=32,
                                box=(8, 32),
                            )
                            >> full
                        )
                        Arrive(cuda_temporal) >> full
                    with CudaWarps(name="consumer"):  # [role]
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 256, unit=cuda_thread):
                            scaled[t / 32, t % 32] = 2.0 * tile[m % RING, t / 32, t % 32]
                        Arrive(cuda_in_order) >> empty
                        if whole_cta:
                            Arrive(cuda_in_order) >> cta  # [arrive]
                            Await(cta, cuda_in_order, 0)  # [await]
                        else:
                            Fence(cuda_in_order, cuda_in_order)
                        for t in cuda_threads(0, 256, unit=cuda_thread):
                            y[8 * m + t / 32, t % 32] = scaled[7 - t / 32, t % 32]
                        Fence(cuda_in_order, cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)

    return reverse_rows


bug = make("bug", whole_cta=True)
# refuted: DIVERGENCE - role arrive, DIVERGENCE - role await
fix = make("fix", whole_cta=False)
# safe
