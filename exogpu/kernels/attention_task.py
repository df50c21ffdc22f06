"""Macros of attention: the task of 128 rows of one head, with its ring of keys and values.

The softmax of one step goes on while the values of the step before are multiplied, and the
warpgroups take turns to multiply, which `turns` tell them.
"""

from __future__ import annotations

import math

from exogpu.frontend.macros import Macro, macro
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig
from exogpu.ir.types import BarrierMechanism
from exogpu.isa.mn_major import Sm90_wgmma_rs_mn_f16
from exogpu.isa.sm90 import Sm90_store_D_f16, Sm90_wgmma_f16, Sm90_zero_scale_d
from exogpu.isa.some_rows import Sm90_store_rows_f16
from exogpu.kernels.attention_loads import Shape, make_loads
from exogpu.kernels.attention_softmax import make_softmax


def warps(producer: int, consumer: int) -> list[CudaWarpConfig]:
    """A producer warp and eight consumers, with so many registers a thread."""
    return [
        CudaWarpConfig("producer", 1, producer, 0),
        CudaWarpConfig("unused", 3, producer, 0),
        CudaWarpConfig("consumer", 8, 0, consumer),
    ]


def make_task(shape: Shape, RING: int, turns: BarrierMechanism) -> tuple[Macro, Macro]:
    """`attend`, and `nothing`: with a ring of so many steps."""
    D, G, KEYS, dtype = shape.D, shape.G, shape.KEYS, shape.dtype
    parts, scale = shape.parts, shape.scale
    packed, paged = shape.packed, shape.page is not None
    load_rows, load_step = make_loads(shape, RING)
    masked_softmax, weigh = make_softmax(shape)

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
    def forget(own, V_smem, slot):
        """By the consumers: values behind a sequence have weights of 0, but may be infinite.

        Where a page without keys was not loaded, both warpgroups have read those of a step before.
        """
        if own > 0 and own < KEYS:
            if paged:
                Fence(cuda_in_order, cuda_in_order)
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
    def attend(h, first, end, keys, steps, limit, base, table, pages, Q, K, V, Y, L):
        """The task of 128 rows of one head from `first` on; those from `end` on are not stored.

        There are so many keys, and some row looks at so many steps of them; they begin at `base`,
        or lie in the pages of row `base` of `table`.  `limit` is their number or, if causal, that
        of the last key which the first row looks at.
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
            load_rows(Q_smem, Q, h, 0, first, Q_full, 128)
            Arrive(cuda_temporal) >> Q_full
        with CudaWarps(name="consumer"):
            for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                for m in fragment(total[wg, :, :]):
                    largest[wg, m] = -1e30
                    total[wg, m] = 0.0
                for m, n in fragment(result[wg, :, :]):
                    result[wg, m, n] = 0.0
            Await(Q_full, cuda_generic_and_async, ~0)
        load_step(
            0,
            h / G,
            keys,
            base,
            table,
            pages,
            K_smem,
            V_smem,
            K,
            V,
            K_full,
            K_empty,
            V_full,
            V_empty,
        )
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
            load_step(
                j,
                h / G,
                keys,
                base,
                table,
                pages,
                K_smem,
                V_smem,
                K,
                V,
                K_full,
                K_empty,
                V_full,
                V_empty,
            )
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
                forget(keys - KEYS * (steps - 1), V_smem, (steps + RING - 1) % RING)
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

    return attend, nothing
