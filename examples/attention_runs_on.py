"""Causal attention, and attention of sequences, whose rings run on from task to task.

A task of 128 rows looks at as many steps of keys as it has to: by its number if causal, by values
from memory if the rows are those of sequences.  The producer loads queries, keys and values of the
next task while the consumers are at the last products of this one: no task drains its rings.

    exogpu check examples/attention_runs_on.py
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.mn_major import Sm90_wgmma_rs_mn_f16
from exogpu.isa.sm90 import Sm90_store_D_f16, Sm90_tma_load, Sm90_wgmma_f16, Sm90_zero_scale_d
from exogpu.isa.some_rows import Sm90_store_rows_f16
from exogpu.kernels.attention_loads import Shape
from exogpu.kernels.attention_softmax import make_softmax
from exogpu.kernels.attention_task import warps

D, KEYS, RING = 128, 128, 2
WARPS = warps(producer=24, consumer=240)


def make_attend(packed: bool) -> Macro:
    """The task of 128 rows of one head, on rings that outlive it."""
    masked_softmax, weigh = make_softmax(Shape(D, 1, bf16, True, packed, None, KEYS))

    @macro
    def load(tile, tensor, head, row, full):
        for d in seq(0, D / 64):
            if packed:
                (
                    Sm90_tma_load(
                        tile[d, :, :],
                        tensor[row : row + 128, head, 64 * d : 64 * d + 64],
                        rows=128,
                        cols=64,
                        box=(128, 1, 64),
                        dtype=bf16,
                    )
                    >> full
                )
            else:
                (
                    Sm90_tma_load(
                        tile[d, :, :],
                        tensor[head, row : row + 128, 64 * d : 64 * d + 64],
                        rows=128,
                        cols=64,
                        box=(1, 128, 64),
                        dtype=bf16,
                    )
                    >> full
                )

    @macro
    def multiply_keys(scores, Q, K, wg):
        for d in seq(0, D / 64):
            for k in seq(0, 4):
                Sm90_wgmma_f16(
                    scores,
                    Q[d, 64 * wg : 64 * wg + 64, 16 * k : 16 * k + 16],
                    K[d, :, 16 * k : 16 * k + 16],
                    M=64,
                    N=KEYS,
                    dtype=bf16,
                )

    @macro
    def multiply_values(result, weights, V):
        for k in seq(0, KEYS / 16):
            Sm90_wgmma_rs_mn_f16(
                result, weights[k, :, :], V[:, 16 * k : 16 * k + 16, :], N=D, dtype=bf16
            )

    @macro
    def store(Y, h, row, end, result):
        if packed:
            if row + 64 <= end:
                Sm90_store_D_f16(64, D, Y[row : row + 64, h, 0:D], result, M=64, N=D, dtype=bf16)
            else:
                if row < end:
                    Sm90_store_rows_f16(
                        end - row, D, Y[row:end, h, 0:D], result, M=64, N=D, dtype=bf16
                    )
        else:
            Sm90_store_D_f16(end - row, D, Y[h, row : row + 64, 0:D], result, M=64, N=D, dtype=bf16)

    @macro
    def attend(
        h,
        first,
        end,
        base,
        steps,
        limit,
        Q,
        K,
        V,
        Y,
        Q_smem,
        K_smem,
        V_smem,
        Q_full,
        Q_empty,
        K_full,
        K_empty,
        V_full,
        V_empty,
    ):
        """Rows `first` to `end` look at so many steps of keys from `base` on; the first row at
        keys up to `limit`."""
        scores: f32[2, 64, KEYS] @ Sm90_RmemMatrixD(64, KEYS)
        weights: bf16[2, KEYS // 16, 64, 16] @ Sm90_RmemMatrixA(64)
        result: f32[2, 64, D] @ Sm90_RmemMatrixD(64, D)
        largest: f32[2, 64, 4] @ Sm90_RmemRows(64)
        total: f32[2, 64, 4] @ Sm90_RmemRows(64)
        factor: f32[2, 64, 4] @ Sm90_RmemRows(64)
        shift: f32[2, 64, 4] @ Sm90_RmemRows(64)
        cg: barrier[2] @ CudaCommitGroup
        with CudaWarps(name="producer"):
            Await(Q_empty, cuda_temporal, ~RING)
            load(Q_smem[slot(Q_full), :, :, :], Q, h, first, Q_full)
            Arrive(cuda_temporal) >> Q_full
        with CudaWarps(name="consumer"):
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                for m in fragment(total[wg, :, :]):
                    largest[wg, m] = -1e30
                    total[wg, m] = 0.0
                for m, n in fragment(result[wg, :, :]):
                    result[wg, m, n] = 0.0
            Await(Q_full, cuda_generic_and_async, ~0)
        for j in seq(0, steps):
            with CudaWarps(name="producer"):
                Await(K_empty, cuda_temporal, ~RING)
                load(K_smem[slot(K_full), :, :, :], K, h, base + KEYS * j, K_full)
                Arrive(cuda_temporal) >> K_full
                Await(V_empty, cuda_temporal, ~RING)
                load(V_smem[slot(V_full), :, :, :], V, h, base + KEYS * j, V_full)
                Arrive(cuda_temporal) >> V_full
            with CudaWarps(name="consumer"):
                Await(K_full, cuda_generic_and_async, ~0)
                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                    Fence(wgmma_fence_1, wgmma_fence_2)
                    Sm90_zero_scale_d(scores[wg, :, :], M=64, N=KEYS)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                    multiply_keys(
                        scores[wg, :, :],
                        Q_smem[slot(Q_empty), :, :, :],
                        K_smem[slot(K_empty), :, :, :],
                        wg,
                    )
                    Arrive(wgmma_async) >> cg[wg]
                    Await(cg[wg], cuda_in_order, 0)
                Arrive(cuda_in_order) >> K_empty
                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                    masked_softmax(wg, j, limit, scores, largest, total, factor, shift)
                    weigh(wg, scores, weights, result, factor)
                Await(V_full, cuda_generic_and_async, ~0)
                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                    multiply_values(
                        result[wg, :, :], weights[wg, :, :, :], V_smem[slot(V_empty), :, :, :]
                    )
                    Arrive(wgmma_async) >> cg[wg]
                    Await(cg[wg], cuda_in_order, 0)
                Arrive(cuda_in_order) >> V_empty
        with CudaWarps(name="consumer"):
            Arrive(cuda_in_order) >> Q_empty
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                for m, copy in fragment(total[wg, :, :]):
                    total[wg, m, copy] = 1.0 / max(total[wg, m, copy], 1e-30)
                for m, n in fragment(result[wg, :, :]):
                    result[wg, m, n] = result[wg, m, n] * total[wg, m]
                store(Y, h, first + 64 * wg, end, result[wg, :, :])

    return attend


attend, attend_sequences = make_attend(False), make_attend(True)


@proc
def causal_attention(
    H: size,
    S: size,
    Q: bf16[H, S, D] @ CudaGmemLinear,
    K: bf16[H, S, D] @ CudaGmemLinear,
    V: bf16[H, S, D] @ CudaGmemLinear,
    Y: bf16[H, S, D] @ CudaGmemLinear,
):
    Q_map = Q[:, :, :] @ Sm90_tensorMap(128, 1, 128, 64)
    K_map = K[:, :, :] @ Sm90_tensorMap(128, 1, 128, 64)
    V_map = V[:, :, :] @ Sm90_tensorMap(128, 1, 128, 64)
    with CudaDeviceFunction(warp_config=WARPS):
        Q_smem: bf16[RING, D // 64, 128, 64] @ Sm90_SmemSwizzled(128)
        K_smem: bf16[RING, D // 64, KEYS, 64] @ Sm90_SmemSwizzled(128)
        V_smem: bf16[RING, D // 64, KEYS, 64] @ Sm90_SmemSwizzled(128)
        Q_full: barrier @ CudaMbarrier
        Q_empty: barrier(Q_full) @ CudaMbarrier
        K_full: barrier @ CudaMbarrier
        K_empty: barrier(K_full) @ CudaMbarrier
        V_full: barrier @ CudaMbarrier
        V_empty: barrier(V_full) @ CudaMbarrier
        for early in cuda_tasks(0, (S + 127) / 128):  # the last rows have most keys
            for h in cuda_tasks(0, H):
                block = (S + 127) / 128 - 1 - early
                attend(
                    h,
                    128 * block,
                    S,
                    0,
                    block + 1,
                    128 * block,
                    Q_map,
                    K_map,
                    V_map,
                    Y,
                    Q_smem,
                    K_smem,
                    V_smem,
                    Q_full,
                    Q_empty,
                    K_full,
                    K_empty,
                    V_full,
                    V_empty,
                )


@proc
def sequence_attention(
    H: size,
    B: size,
    T: size,
    M: size,
    N: size,
    Q: bf16[M, H, D] @ CudaGmemLinear,
    K: bf16[N, H, D] @ CudaGmemLinear,
    V: bf16[N, H, D] @ CudaGmemLinear,
    cuts: i32[T + 1] @ CudaGmemLinear,
    group: i32[T] @ CudaGmemLinear,
    cu_seqlens_q: i32[B + 1] @ CudaGmemLinear,
    cu_seqlens_k: i32[B + 1] @ CudaGmemLinear,
    Y: bf16[M, H, D] @ CudaGmemLinear,
):
    """Tile t has rows `cuts[t]` to `cuts[t + 1]` of sequence `group[t]`."""
    assert monotone(cuts)
    Q_map = Q[:, :, :] @ Sm90_tensorMap(128, 128, 1, 64)
    K_map = K[:, :, :] @ Sm90_tensorMap(128, 128, 1, 64)
    V_map = V[:, :, :] @ Sm90_tensorMap(128, 128, 1, 64)
    with CudaDeviceFunction(warp_config=WARPS):
        Q_smem: bf16[RING, D // 64, 128, 64] @ Sm90_SmemSwizzled(128)
        K_smem: bf16[RING, D // 64, KEYS, 64] @ Sm90_SmemSwizzled(128)
        V_smem: bf16[RING, D // 64, KEYS, 64] @ Sm90_SmemSwizzled(128)
        Q_full: barrier @ CudaMbarrier
        Q_empty: barrier(Q_full) @ CudaMbarrier
        K_full: barrier @ CudaMbarrier
        K_empty: barrier(K_full) @ CudaMbarrier
        V_full: barrier @ CudaMbarrier
        V_empty: barrier(V_full) @ CudaMbarrier
        for t in cuda_tasks(0, T):
            for h in cuda_tasks(0, H):
                b = load_index(group[t], 0, B)
                first = load_index(cuts[t], 0, M + 1)
                end = load_index(cuts[t + 1], 0, M + 1)
                base = load_index(cu_seqlens_k[b], 0, N + 1)
                after = load_index(cu_seqlens_k[b + 1], 0, N + 1)
                last = load_index(cu_seqlens_q[b + 1], end, M + 1)
                seen = after - base - (last - end)
                if first < end and seen > 0:
                    attend_sequences(
                        h,
                        first,
                        end,
                        base,
                        (seen + KEYS - 1) / KEYS,
                        after - base - (last - first),
                        Q_map,
                        K_map,
                        V_map,
                        Y,
                        Q_smem,
                        K_smem,
                        V_smem,
                        Q_full,
                        Q_empty,
                        K_full,
                        K_empty,
                        V_full,
                        V_empty,
                    )
