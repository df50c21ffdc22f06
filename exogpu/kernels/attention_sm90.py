"""Y[h, i] = sum over j of softmax(Q[h, i] . K[h / G, j] / sqrt(D)) * V[h / G, j], for Hopper: bf16
or f16; of all rows, or of sequences that lie one after the other.

The online softmax: 128 rows a task, 64 a consumer warpgroup; one producer warp fills rings with
128 keys and values at a time.  Scores, weights and results stay in registers: what is computed with
them are loops over fragments.  L is the logarithm of the sum of exponentials of each row.

Sequences (`packed`) have arrays of rows of heads.  Their tiles are those of `grouped_tiles`, with
rows `cuts[t]` to `cuts[t + 1]` of sequence `group[t]`; what a tile loads of the next one is masked,
and not stored.  If causal, the last row looks at all keys; a row without keys has 0, and -infinity.
"""

from __future__ import annotations

import math

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.hw.datatypes import DataType, bf16, i32
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig
from exogpu.ir.types import BarrierMechanism
from exogpu.isa.mn_major import Sm90_wgmma_rs_mn_f16
from exogpu.isa.rows import Sm90_row_max, Sm90_row_sum
from exogpu.isa.sm90 import (
    Sm90_store_D_f16,
    Sm90_tma_load,
    Sm90_wgmma_f16,
    Sm90_zero_scale_d,
)
from exogpu.isa.some_rows import Sm90_store_rows_f16

WARPS = [
    CudaWarpConfig("producer", 1, 24, 0),
    CudaWarpConfig("unused", 3, 24, 0),
    CudaWarpConfig("consumer", 8, 0, 240),
]


def name_of(D: int, causal: bool, G: int, dtype: DataType, packed: bool = False) -> str:
    """What the kernel is called."""
    family = "attention_varlen" if packed else "attention"
    family += "_sm90" if dtype is bf16 else f"_{dtype.value}_sm90"
    suffix = "_causal" if causal else ""
    return f"{family}_{D}{suffix}{f'_{G}' if G > 1 else ''}"


def make_attention(
    D: int,
    *,
    causal: bool = False,
    G: int = 1,
    RING: int = 2,
    dtype: DataType = bf16,
    keys: int | None = None,
    turns: BarrierMechanism = BarrierMechanism.MBARRIER,
    packed: bool = False,
) -> Procedure:
    """The kernel for heads of D columns, 64 or 128, of bf16 or f16; G heads of Q share K and V.

    The softmax of one step goes on while the values of the step before are multiplied, and the
    warpgroups take turns to multiply, which mbarriers or named barriers tell them.  With `packed`
    rows and keys are those of sequences.
    """
    KEYS = keys or (176 if D == 128 else 128)  # of a step
    scale = math.log2(math.e) / math.sqrt(D)
    MASKED = -1e38 if packed else -1e30  # no row's largest score, where rows have no key
    parts = D // 64  # 64 columns of bf16 are a row of 128 bytes, the swizzle

    @macro
    def load_rows(tile, tensor, head, base, row, full, rows):
        for d in seq(0, parts):
            if packed:
                (
                    Sm90_tma_load(
                        tile[d, :, :],
                        tensor[base + row : base + row + rows, head, 64 * d : 64 * d + 64],
                        rows=rows,
                        cols=64,
                        box=(rows, 1, 64),
                        dtype=dtype,
                    )
                    >> full
                )
            else:
                (
                    Sm90_tma_load(
                        tile[d, :, :],
                        tensor[head, row : row + rows, 64 * d : 64 * d + 64],
                        rows=rows,
                        cols=64,
                        box=(1, rows, 64),
                        dtype=dtype,
                    )
                    >> full
                )

    @macro
    def multiply_keys(scores, Q_smem, K_smem, wg, slot, group):
        Fence(wgmma_fence_1, wgmma_fence_2)
        Sm90_zero_scale_d(scores, M=64, N=KEYS)
        Fence(wgmma_fence_1, wgmma_fence_2)
        for d in seq(0, parts):
            for k in seq(0, 4):
                Sm90_wgmma_f16(
                    scores,
                    Q_smem[d, 64 * wg : 64 * wg + 64, 16 * k : 16 * k + 16],
                    K_smem[slot, d, :, 16 * k : 16 * k + 16],
                    M=64,
                    N=KEYS,
                    dtype=dtype,
                )
        Arrive(wgmma_async) >> group

    @macro
    def multiply_values(result, weights, V_smem, slot, group):
        for k in seq(0, KEYS / 16):
            Sm90_wgmma_rs_mn_f16(
                result,
                weights[k, :, :],
                V_smem[slot, :, 16 * k : 16 * k + 16, :],
                N=D,
                dtype=dtype,
            )
        Arrive(wgmma_async) >> group

    @macro
    def masked_softmax(wg, j, limit, scores, largest, total, factor, shift):
        """Exponentials relative to the largest score so far, and the sums of them."""
        if causal:
            row = limit + 64 * wg
            if KEYS * j + KEYS > row:
                for m, n in fragment(scores[wg, :, :]):
                    if KEYS * j + n > row + m:
                        scores[wg, m, n] = MASKED
        else:
            if KEYS * j + KEYS > limit:
                for m, n in fragment(scores[wg, :, :]):
                    if KEYS * j + n >= limit:
                        scores[wg, m, n] = MASKED
        Sm90_row_max(shift[wg, :, :], scores[wg, :, :], N=KEYS)
        for m in fragment(largest[wg, :, :]):
            shift[wg, m] = max(largest[wg, m], shift[wg, m])
            factor[wg, m] = exp2((largest[wg, m] - shift[wg, m]) * scale)
            largest[wg, m] = shift[wg, m]
        for m, n in fragment(scores[wg, :, :]):
            scores[wg, m, n] = exp2(fma(scores[wg, m, n], scale, largest[wg, m] * -scale))
        Sm90_row_sum(shift[wg, :, :], scores[wg, :, :], N=KEYS)
        for m in fragment(total[wg, :, :]):
            total[wg, m] = fma(total[wg, m], factor[wg, m], shift[wg, m])

    @macro
    def weigh(wg, scores, weights, result, factor):
        """The operand of the next product; what was summed before is rescaled."""
        for m, n in fragment(scores[wg, :, :]):
            weights[wg, n / 16, m, n % 16] = scores[wg, m, n]
        for m, n in fragment(result[wg, :, :]):
            result[wg, m, n] = result[wg, m, n] * factor[wg, m]
        Fence(wgmma_fence_1, wgmma_fence_2)

    @macro
    def load_step(j, h, base, K_smem, V_smem, K_map, V_map, K_full, K_empty, V_full, V_empty):
        """The keys and values of one step."""
        with CudaWarps(name="producer"):
            Await(K_empty, cuda_temporal, ~RING)
            load_rows(K_smem[j % RING, :, :, :], K_map, h / G, base, KEYS * j, K_full, KEYS)
            Arrive(cuda_temporal) >> K_full
            Await(V_empty, cuda_temporal, ~RING)
            load_rows(V_smem[j % RING, :, :, :], V_map, h / G, base, KEYS * j, V_full, KEYS)
            Arrive(cuda_temporal) >> V_full

    @macro
    def forget(own, V_smem, slot):
        """By the consumers: values of the next sequence have weights of 0, but may be infinite."""
        if own > 0 and own < KEYS:
            for t in cuda_threads(0, 256, unit=cuda_thread):
                for r in seq(own / 4, KEYS / 4):
                    if 4 * r + t / 64 >= own:
                        for d in seq(0, parts):
                            V_smem[slot, d, 4 * r + t / 64, t % 64] = 0.0
            Fence(cuda_in_order, cuda_generic_and_async)

    @macro
    def store(Y, h, row, end, wg, result):
        """By a consumer warpgroup: of its 64 rows those before `end`."""
        if packed:
            if row + 64 <= end:
                Sm90_store_D_f16(
                    64, D, Y[row : row + 64, h, 0:D], result[wg, :, :], M=64, N=D, dtype=dtype
                )
            else:
                if row < end:
                    Sm90_store_rows_f16(
                        end - row, D, Y[row:end, h, 0:D], result[wg, :, :], M=64, N=D, dtype=dtype
                    )
        else:
            Sm90_store_D_f16(
                end - row, D, Y[h, row : row + 64, 0:D], result[wg, :, :], M=64, N=D, dtype=dtype
            )

    @macro
    def attend(h, first, end, base, steps, limit, own, Q_map, K_map, V_map, Y, L):
        """The task of 128 rows of one head from `first` on; those from `end` on are not stored.

        The keys begin at `base`, and are so many steps, of whose last `own` are of this sequence.
        `limit` is their number or, if causal, that of the last key which the first row looks at.
        """
        Q_smem: dtype[parts, 128, 64] @ Sm90_SmemSwizzled(128)
        K_smem: dtype[RING, parts, KEYS, 64] @ Sm90_SmemSwizzled(128)
        V_smem: dtype[RING, parts, KEYS, 64] @ Sm90_SmemSwizzled(128)
        scores: f32[2, 64, KEYS] @ Sm90_RmemMatrixD(64, KEYS)
        weights: dtype[2, KEYS // 16, 64, 16] @ Sm90_RmemMatrixA(64)
        result: f32[2, 64, D] @ Sm90_RmemMatrixD(64, D)
        largest: f32[2, 64, 4] @ Sm90_RmemRows(64)
        total: f32[2, 64, 4] @ Sm90_RmemRows(64)
        factor: f32[2, 64, 4] @ Sm90_RmemRows(64)
        shift: f32[2, 64, 4] @ Sm90_RmemRows(64)
        Q_full: barrier @ CudaMbarrier
        K_full: barrier @ CudaMbarrier
        K_empty: barrier(K_full) @ CudaMbarrier
        V_full: barrier @ CudaMbarrier
        V_empty: barrier(V_full) @ CudaMbarrier
        turn: barrier[2] @ turns
        cg: barrier[2] @ CudaCommitGroup
        with CudaWarps(name="producer"):
            load_rows(Q_smem, Q_map, h, 0, first, Q_full, 128)
            Arrive(cuda_temporal) >> Q_full
        with CudaWarps(name="consumer"):
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                for m in fragment(total[wg, :, :]):
                    largest[wg, m] = -1e30
                    total[wg, m] = 0.0
                for m, n in fragment(result[wg, :, :]):
                    result[wg, m, n] = 0.0
            Await(Q_full, cuda_generic_and_async, ~0)
        load_step(0, h, base, K_smem, V_smem, K_map, V_map, K_full, K_empty, V_full, V_empty)
        with CudaWarps(name="consumer"):
            Await(K_full, cuda_generic_and_async, ~0)
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                multiply_keys(scores[wg, :, :], Q_smem, K_smem, wg, 0, cg[wg])
                Await(cg[wg], cuda_in_order, 0)
            Arrive(cuda_in_order) >> K_empty
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                masked_softmax(wg, 0, limit, scores, largest, total, factor, shift)
                weigh(wg, scores, weights, result, factor)
            with CudaWarps(4, 8, name="consumer"):
                Arrive(cuda_temporal) >> turn[0]
        for j in seq(1, steps):
            load_step(j, h, base, K_smem, V_smem, K_map, V_map, K_full, K_empty, V_full, V_empty)
            with CudaWarps(name="consumer"):
                Await(K_full, cuda_generic_and_async, ~0)
                Await(V_full, cuda_generic_and_async, ~0)
                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                    Await(turn[wg], cuda_temporal, ~0)
                    multiply_keys(scores[wg, :, :], Q_smem, K_smem, wg, j % RING, cg[wg])
                    multiply_values(
                        result[wg, :, :],
                        weights[wg, :, :, :],
                        V_smem,
                        (j + RING - 1) % RING,
                        cg[wg],
                    )
                    Arrive(cuda_temporal) >> turn[1 - wg]
                    Await(cg[wg], cuda_in_order, 1)
                Arrive(cuda_in_order) >> K_empty
                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                    masked_softmax(wg, j, limit, scores, largest, total, factor, shift)
                    Await(cg[wg], cuda_in_order, 0)
                Arrive(cuda_in_order) >> V_empty
                for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                    weigh(wg, scores, weights, result, factor)
        with CudaWarps(0, 4, name="consumer"):
            Await(turn[0], cuda_temporal, ~0)
        with CudaWarps(name="consumer"):
            Await(V_full, cuda_generic_and_async, ~0)
            if packed:
                forget(own, V_smem, (steps + RING - 1) % RING)
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                multiply_values(
                    result[wg, :, :],
                    weights[wg, :, :, :],
                    V_smem,
                    (steps + RING - 1) % RING,
                    cg[wg],
                )
                Await(cg[wg], cuda_in_order, 0)
            Arrive(cuda_in_order) >> V_empty
        # The rings are done with: the next task's loads overlap the stores.
        Fence(cuda_in_order, cuda_in_order)
        with CudaWarps(name="consumer"):
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                row = first + 64 * wg
                for m, copy in fragment(total[wg, :, :]):
                    if copy == 0 and row + m < end:
                        L[h, row + m] = largest[wg, m, copy] * (scale * math.log(2.0)) + log(
                            total[wg, m, copy]
                        )
                    if packed:  # 0 of a row that looks at no key
                        total[wg, m, copy] = max(total[wg, m, copy], 1e-30)
                    total[wg, m, copy] = 1.0 / total[wg, m, copy]
                for m, n in fragment(result[wg, :, :]):
                    result[wg, m, n] = result[wg, m, n] * total[wg, m]
                store(Y, h, row, end, wg, result)

    @macro
    def nothing(h, first, end, Y, L):
        """As `attend`, of rows that look at no key."""
        zeros: f32[2, 64, D] @ Sm90_RmemMatrixD(64, D)
        rows: f32[2, 64, 4] @ Sm90_RmemRows(64)
        with CudaWarps(name="consumer"):
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                row = first + 64 * wg
                for m, copy in fragment(rows[wg, :, :]):
                    rows[wg, m, copy] = 0.0
                    if copy == 0 and row + m < end:
                        L[h, row + m] = log(rows[wg, m, copy])
                for m, n in fragment(zeros[wg, :, :]):
                    zeros[wg, m, n] = 0.0
                store(Y, h, row, end, wg, zeros)

    name = name_of(D, causal, G, dtype, packed)

    if packed:

        @proc(name=name)
        def attention_sm90(
            H: size,
            B: size,
            T: size,
            M: size,
            N: size,
            Q: dtype[M, G * H, D] @ CudaGmemLinear,
            K: dtype[N, H, D] @ CudaGmemLinear,
            V: dtype[N, H, D] @ CudaGmemLinear,
            cuts: i32[T + 1] @ CudaGmemLinear,
            group: i32[T] @ CudaGmemLinear,
            cu_seqlens_q: i32[B + 1] @ CudaGmemLinear,
            cu_seqlens_k: i32[B + 1] @ CudaGmemLinear,
            Y: dtype[M, G * H, D] @ CudaGmemLinear,
            L: f32[G * H, M] @ CudaGmemLinear,
        ):
            assert monotone(cuts)
            Q_map = Q[:, :, :] @ Sm90_tensorMap(128, 128, 1, 64)
            K_map = K[:, :, :] @ Sm90_tensorMap(128, KEYS, 1, 64)
            V_map = V[:, :, :] @ Sm90_tensorMap(128, KEYS, 1, 64)
            with CudaDeviceFunction(warp_config=WARPS):
                for early in cuda_tasks(0, T):  # the last rows first, as below
                    for h in cuda_tasks(0, G * H):
                        t = T - 1 - early
                        b = load_index(group[t], 0, B)
                        first = load_index(cuts[t], 0, M + 1)
                        end = load_index(cuts[t + 1], 0, M + 1)
                        base = load_index(cu_seqlens_k[b], 0, N + 1)
                        after = load_index(cu_seqlens_k[b + 1], 0, N + 1)
                        last = load_index(cu_seqlens_q[b + 1], 0, M + 1)
                        if causal:
                            seen = after - base - (last - end)
                            most = after - base - (last - first)
                        else:
                            seen = after - base
                            most = after - base
                        if first < end:
                            if seen > 0:
                                steps = (seen + KEYS - 1) / KEYS
                                own = after - base - KEYS * (steps - 1)
                                attend(
                                    h, first, end, base, steps, most, own, Q_map, K_map, V_map, Y, L
                                )
                            else:
                                nothing(h, first, end, Y, L)

    else:

        @proc(name=name)
        def attention_sm90(
            H: size,
            S: size,
            Q: dtype[G * H, S, D] @ CudaGmemLinear,
            K: dtype[H, S, D] @ CudaGmemLinear,
            V: dtype[H, S, D] @ CudaGmemLinear,
            Y: dtype[G * H, S, D] @ CudaGmemLinear,
            L: f32[G * H, S] @ CudaGmemLinear,
        ):
            Q_map = Q[:, :, :] @ Sm90_tensorMap(128, 1, 128, 64)
            K_map = K[:, :, :] @ Sm90_tensorMap(128, 1, KEYS, 64)
            V_map = V[:, :, :] @ Sm90_tensorMap(128, 1, KEYS, 64)
            if causal:
                with CudaDeviceFunction(warp_config=WARPS):
                    # The last rows have most keys: they come first, of all heads.
                    for early in cuda_tasks(0, (S + 127) / 128):
                        for h in cuda_tasks(0, G * H):
                            block = (S + 127) / 128 - 1 - early
                            row = 128 * block
                            steps = (row + 127 + KEYS) / KEYS  # no key after the last row's
                            attend(h, row, S, 0, steps, row, KEYS, Q_map, K_map, V_map, Y, L)
            else:
                with CudaDeviceFunction(warp_config=WARPS):
                    for h in cuda_tasks(0, G * H):
                        for block in cuda_tasks(0, (S + 127) / 128):
                            row = 128 * block
                            steps = (S + KEYS - 1) / KEYS
                            attend(h, row, S, 0, steps, S, KEYS, Q_map, K_map, V_map, Y, L)

    return attention_sm90


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        make_attention(D, causal=causal, packed=packed)
        for packed in (False, True)
        for D in (64, 128)
        for causal in (False, True)
    )
}
"""Those of bf16 in which each head has its own keys, by name."""
