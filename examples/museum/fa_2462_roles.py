"""FlashAttention #2462 with warp roles, as it was: the proxy fence stands at the readers.

Fact: as in fa_2462.py, but a producer warp refills the slot, after an mbarrier by which the
consumers release it.  The proxy fence is in the consumers, before they arrive: for P, and so for
the row of log-sum-exps that they have read.
Hazard: none, since a proxy fence counts anywhere on the way from the read to the TMA load.
`suspected` is safe, and so are `patched` and `acquired`, with a fence that is not needed.
`uncovered` reads the row once more after the fence of P: WAR on the row, from this read to the TMA
load.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_load, Sm90_wgmma_tf32, Sm90_zero_scale_d

RING = 2

WARPS = [
    CudaWarpConfig("producer", 1, 40, 0),
    CudaWarpConfig("unused", 3, 40, 0),
    CudaWarpConfig("consumer", 4, 0, 232),
]


def make(name: str, before_release: object, acquire: object, read_again: bool = False) -> Procedure:
    """The second timelines of the consumers' last fence and of the producer's Await, and whether
    the row is read after the fence of P."""

    @proc(name=name)
    def attention_backward(
        Q: size,
        S: f32[64, Q] @ CudaGmemLinear,
        lse: f32[1, Q] @ CudaGmemLinear,
        dO: f32[32, Q] @ CudaGmemLinear,
        dV: f32[64, 32] @ CudaGmemLinear,
        saved: f32[Q] @ CudaGmemLinear,
    ):
        assert Q % 32 == 0
        lse_map = lse[:, :] @ Sm90_tensorMap(128, 1, 32)
        dO_map = dO[:, :] @ Sm90_tensorMap(128, 32, 32)
        with CudaDeviceFunction(warp_config=WARPS):
            for task in cuda_tasks(0, 1):
                lse_smem: f32[RING, 1, 32] @ Sm90_SmemSwizzled(128)
                dO_smem: f32[RING, 32, 32] @ Sm90_SmemSwizzled(128)
                P_smem: f32[64, 32] @ Sm90_SmemSwizzled(128)
                D: f32[64, 32] @ Sm90_RmemMatrixD(64, 32)
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                cg: barrier @ CudaCommitGroup
                with CudaWarps(name="consumer"):
                    Sm90_zero_scale_d(D[:, :], N=32)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                for q in seq(0, Q / 32):
                    with CudaWarps(name="producer"):
                        Await(empty, acquire, ~RING)
                        (  # [load]
                            Sm90_tma_load(
                                lse_smem[q % RING, :, :],
                                lse_map[0:1, 32 * q : 32 * q + 32],
                                rows=1,
                                cols=32,
                                box=(1, 32),
                            )
                            >> full
                        )
                        (
                            Sm90_tma_load(
                                dO_smem[q % RING, :, :],
                                dO_map[0:32, 32 * q : 32 * q + 32],
                                rows=32,
                                cols=32,
                                box=(32, 32),
                            )
                            >> full
                        )
                        Arrive(cuda_temporal) >> full
                    with CudaWarps(name="consumer"):
                        Await(full, cuda_generic_and_async, ~0)
                        for t in cuda_threads(0, 128, unit=cuda_thread):
                            for i in seq(0, 16):
                                P_smem[4 * i + t / 32, t % 32] = exp(  # [read]
                                    S[4 * i + t / 32, 32 * q + t % 32]
                                    - lse_smem[q % RING, 0, t % 32]
                                )
                        Fence(cuda_in_order, cuda_generic_and_async)  # for P, and for lse_smem
                        if read_again:
                            with CudaWarps(1, 2):
                                for t in cuda_threads(0, 32, unit=cuda_thread):
                                    saved[32 * q + t] = lse_smem[q % RING, 0, t]  # [again]
                        for kk in seq(0, 4):
                            Sm90_wgmma_tf32(
                                D[:, :],
                                P_smem[:, 8 * kk : 8 * kk + 8],
                                dO_smem[q % RING, :, 8 * kk : 8 * kk + 8],
                                N=32,
                            )
                        Arrive(wgmma_async) >> cg
                        Await(cg, cuda_in_order, 0)
                        Fence(cuda_in_order, before_release)
                        Arrive(cuda_in_order) >> empty
                with CudaWarps(name="consumer"):
                    Sm90_store_D(64, 32, dV[:, :], D[:, :], N=32)
                Fence(cuda_in_order, cuda_in_order)

    return attention_backward


suspected = make("suspected", before_release=cuda_in_order, acquire=cuda_temporal)
# safe
patched = make("patched", before_release=cuda_generic_and_async, acquire=cuda_temporal)
# safe
acquired = make("acquired", before_release=cuda_in_order, acquire=cuda_generic_and_async)
# safe
uncovered = make("uncovered", before_release=cuda_in_order, acquire=cuda_temporal, read_again=True)
# ptx refuted at Q=96: WAR lse_smem again load
# ptx safe iff Q <= 64
# paper safe
