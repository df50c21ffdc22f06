"""TileLang #2674: the phase of an mbarrier is not carried from wave to wave.

Fact: a persistent kernel computed the parity to wait for from the k tile of the current wave
alone, as if the barriers were new in every wave.  Where a wave completes an odd number of phases,
the next one waits for the wrong parity, which returns as soon as the phase before is complete.
Hazards: RAW on the operands, from the TMA loads to the wgmma; and, on the producer's side, WAR.
Fires: from two waves on, unless the k tiles are a multiple of 2 x stages; here with one stage.

The language has no parities to get wrong: an Await counts the phases of its barrier.  A wait for
the wrong parity is an Await that asks for one phase less, `~(m + 1)` for `~m`.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_load, Sm90_wgmma_tf32, Sm90_zero_scale_d

WARPS = [
    CudaWarpConfig("producer", 1, 40, 0),
    CudaWarpConfig("unused", 3, 40, 0),
    CudaWarpConfig("consumer", 4, 0, 232),
]


def make(name: str, carried: bool) -> Procedure:
    """The parities go on from wave to wave, or restart in each."""

    @proc(name=name)
    def gemm(
        waves: size,
        tiles: size,
        A: f32[64 * waves, 32 * tiles] @ CudaGmemLinear,
        B: f32[64, 32 * tiles] @ CudaGmemLinear,
        C: f32[64 * waves, 64] @ CudaGmemLinear,
    ):
        A_map = A[:, :] @ Sm90_tensorMap(128, 64, 32)
        B_map = B[:, :] @ Sm90_tensorMap(128, 64, 32)
        with CudaDeviceFunction(warp_config=WARPS):
            for task in cuda_tasks(0, 1):
                A_smem: f32[64, 32] @ Sm90_SmemSwizzled(128)  # [end_A]
                B_smem: f32[64, 32] @ Sm90_SmemSwizzled(128)  # [end_B]
                full: barrier @ CudaMbarrier  # [end_full]
                empty: barrier(full) @ CudaMbarrier
                for wave in seq(0, waves):
                    D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                    cg: barrier @ CudaCommitGroup
                    with CudaWarps(name="consumer"):
                        Sm90_zero_scale_d(D[:, :], N=64)
                        Fence(wgmma_fence_1, wgmma_fence_2)
                    for k in seq(0, tiles):
                        with CudaWarps(name="producer"):
                            if carried:
                                Await(empty, cuda_temporal, ~1)
                            else:
                                if wave % 2 == 1 and tiles % 2 == 1:
                                    Await(empty, cuda_temporal, ~2)
                                else:
                                    Await(empty, cuda_temporal, ~1)
                            (  # [load_A]
                                Sm90_tma_load(
                                    A_smem[:, :],
                                    A_map[64 * wave : 64 * wave + 64, 32 * k : 32 * k + 32],
                                    rows=64,
                                    cols=32,
                                    box=(64, 32),
                                )
                                >> full
                            )
                            (  # [load_B]
                                Sm90_tma_load(
                                    B_smem[:, :],
                                    B_map[0:64, 32 * k : 32 * k + 32],
                                    rows=64,
                                    cols=32,
                                    box=(64, 32),
                                )
                                >> full
                            )
                            Arrive(cuda_temporal) >> full
                        with CudaWarps(name="consumer"):
                            if carried:
                                Await(full, cuda_generic_and_async, ~0)
                            else:
                                if wave % 2 == 1 and tiles % 2 == 1:
                                    Await(full, cuda_generic_and_async, ~1)
                                else:
                                    Await(full, cuda_generic_and_async, ~0)
                            for kk in seq(0, 4):
                                Sm90_wgmma_tf32(  # [wgmma]
                                    D[:, :],
                                    A_smem[:, 8 * kk : 8 * kk + 8],
                                    B_smem[:, 8 * kk : 8 * kk + 8],
                                    N=64,
                                )
                            Arrive(wgmma_async) >> cg
                            Await(cg, cuda_in_order, 0)
                            Arrive(cuda_in_order) >> empty
                    with CudaWarps(name="consumer"):
                        Sm90_store_D(64, 64, C[64 * wave : 64 * wave + 64, :], D[:, :], N=64)
                Fence(cuda_in_order, cuda_in_order)

    return gemm


bug = make("bug", carried=False)
# refuted at waves=2 tiles=1: RAW A_smem load_A wgmma, RAW B_smem load_B wgmma,
#     WAR A_smem wgmma load_A, WAR B_smem wgmma load_B,
#     WAW A_smem load_A load_A, WAW B_smem load_B load_B,
#     FREE A_smem load_A end_A, FREE B_smem load_B end_B,
#     FREE full load_A end_full, FREE full load_B end_full
# safe iff tiles mod 2 = 0 or waves = 1
# safe at waves=1 tiles=3
# safe at waves=3 tiles=2
fix = make("fix", carried=True)
# safe
