"""FlashAttention #2462: a proxy fence that looked missing and was already implied.

Fact: a row of log-sum-exps is loaded by TMA and read by ordinary loads.  Before TMA refills its
buffer no proxy fence is there for these reads, and a patch added one.  But the fence between the
ordinary stores of P and the wgmma that reads P stands after the same reads: it orders them
before the async proxy too.
Hazard: none.  `suspected` is safe, and so is `patched`, with the fence that is not needed.
`uncovered` reads the row once more after the fence of P: WAR on the row, from this read to the
TMA load, when the buffer is filled for the second time.
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_load, Sm90_wgmma_tf32, Sm90_zero_scale_d


def make(name: str, last: object = cuda_in_order, read_again: bool = False) -> Procedure:
    """The second timeline of the last fence, and whether the row is read after the fence of P."""

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
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                lse_smem: f32[1, 32] @ Sm90_SmemSwizzled(128)
                dO_smem: f32[32, 32] @ Sm90_SmemSwizzled(128)
                P_smem: f32[64, 32] @ Sm90_SmemSwizzled(128)
                D: f32[64, 32] @ Sm90_RmemMatrixD(64, 32)
                full: barrier @ CudaMbarrier
                cg: barrier @ CudaCommitGroup
                Sm90_zero_scale_d(D[:, :], N=32)
                Fence(wgmma_fence_1, wgmma_fence_2)
                for q in seq(0, Q / 32):
                    with CudaWarps(0, 1):
                        (  # [load]
                            Sm90_tma_load(
                                lse_smem[:, :],
                                lse_map[0:1, 32 * q : 32 * q + 32],
                                rows=1,
                                cols=32,
                                box=(1, 32),
                            )
                            >> full
                        )
                        (
                            Sm90_tma_load(
                                dO_smem[:, :],
                                dO_map[0:32, 32 * q : 32 * q + 32],
                                rows=32,
                                cols=32,
                                box=(32, 32),
                            )
                            >> full
                        )
                        Arrive(cuda_temporal) >> full
                    Await(full, cuda_generic_and_async, ~0)
                    for t in cuda_threads(0, 128, unit=cuda_thread):
                        for i in seq(0, 16):
                            P_smem[4 * i + t / 32, t % 32] = exp(
                                S[4 * i + t / 32, 32 * q + t % 32] - lse_smem[0, t % 32]
                            )
                    Fence(cuda_in_order, cuda_generic_and_async)  # for P, and so for lse_smem
                    if read_again:
                        with CudaWarps(1, 2):
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                saved[32 * q + t] = lse_smem[0, t]  # [read]
                    for kk in seq(0, 4):
                        Sm90_wgmma_tf32(
                            D[:, :],
                            P_smem[:, 8 * kk : 8 * kk + 8],
                            dO_smem[:, 8 * kk : 8 * kk + 8],
                            N=32,
                        )
                    Arrive(wgmma_async) >> cg
                    Await(cg, cuda_in_order, 0)
                    Fence(cuda_in_order, last)
                Sm90_store_D(64, 32, dV[:, :], D[:, :], N=32)
                Fence(cuda_in_order, cuda_in_order)

    return attention_backward


suspected = make("suspected")
# safe
patched = make("patched", last=cuda_generic_and_async)
# safe
uncovered = make("uncovered", read_again=True)
# ptx refuted at Q=64: WAR lse_smem read load
# ptx safe iff Q = 32
# ptx safe at Q=32
# paper safe
