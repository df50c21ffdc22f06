"""Y[h, i] = sum over j of softmax(Q[h, i] . K[h / G, j] / sqrt(D)) * V[h / G, j], for Hopper: bf16
or f16; of all rows, or of sequences that lie one after the other, or have their keys in pages.

The online softmax: 128 rows a task, 64 a consumer warpgroup; one producer warp fills rings with
128 keys and values at a time.  Scores, weights and results stay in registers: what is computed with
them are loops over fragments.  L is the logarithm of the sum of exponentials of each row.

Sequences (`packed`) have arrays of rows of heads.  Their tiles are those of `grouped_tiles`, with
rows `cuts[t]` to `cuts[t + 1]` of sequence `group[t]`; what a tile loads of the next one is masked,
and not stored.  If causal, the last row looks at all keys; a row without keys has 0, and -infinity.
With `page`, the keys of sequence b are in pages `block_table[b, 0]`, `block_table[b, 1]`, ...
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.hw.language import bf16, i32
from exogpu.ir.types import BarrierMechanism, DataType
from exogpu.kernels.attention_loads import Shape
from exogpu.kernels.attention_task import make_task, warps

WARPS = warps(producer=24, consumer=240)
WARPS_OF_PAGES = warps(producer=40, consumer=232)


def name_of(
    D: int, causal: bool, G: int, dtype: DataType, packed: bool = False, page: int | None = None
) -> str:
    """The name of the kernel."""
    family = "attention_varlen" if packed else "attention"
    family = family if page is None else f"attention_paged{page}"
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
    page: int | None = None,
) -> Procedure:
    """The kernel for heads of D columns, 64 or 128, of bf16 or f16; G heads of Q share K and V.

    With `packed` rows and keys are those of sequences; with `page`, a power of two from 16 to 256,
    their keys lie in pages of so many.  Warpgroups take turns by mbarriers or named barriers.
    """
    shape = Shape(D, G, dtype, causal, packed or page is not None, page, keys)
    attend, nothing = make_task(shape, RING, turns)
    KEYS, part = shape.KEYS, shape.part
    name = name_of(D, causal, G, dtype, shape.packed, page)

    if page is not None:

        @proc(name=name)
        def attention_sm90(
            H: size,
            B: size,
            T: size,
            M: size,
            N: size,
            W: size,
            Q: dtype[M, G * H, D] @ CudaGmemLinear,
            K: dtype[N, page, H, D] @ CudaGmemLinear,
            V: dtype[N, page, H, D] @ CudaGmemLinear,
            cuts: i32[T + 1] @ CudaGmemLinear,
            group: i32[T] @ CudaGmemLinear,
            cu_seqlens_q: i32[B + 1] @ CudaGmemLinear,
            seqlens_k: i32[B] @ CudaGmemLinear,
            block_table: i32[B, W] @ CudaGmemLinear,
            Y: dtype[M, G * H, D] @ CudaGmemLinear,
            L: f32[G * H, M] @ CudaGmemLinear,
        ):
            assert monotone(cuts)
            Q_map = Q[:, :, :] @ Sm90_tensorMap(128, 128, 1, 64)
            K_map = K[:, :, :, :] @ Sm90_tensorMap(128, 1, part, 1, 64)
            V_map = V[:, :, :, :] @ Sm90_tensorMap(128, 1, part, 1, 64)
            with CudaDeviceFunction(warp_config=WARPS_OF_PAGES):
                for early in cuda_tasks(0, T):  # the last rows first, as below
                    for h in cuda_tasks(0, G * H):
                        t = T - 1 - early
                        b = load_index(group[t], 0, B)
                        first = load_index(cuts[t], 0, M + 1)
                        end = load_index(cuts[t + 1], 0, M + 1)
                        keys = load_index(seqlens_k[b], 0, page * W + 1)
                        last = load_index(cu_seqlens_q[b + 1], end, M + 1)
                        if causal:
                            seen = keys - (last - end)
                            most = keys - (last - first)
                        else:
                            seen = keys
                            most = keys
                        if first < end:
                            if seen > 0:
                                steps = (seen + KEYS - 1) / KEYS
                                attend(
                                    h,
                                    first,
                                    end,
                                    keys,
                                    steps,
                                    most,
                                    b,
                                    block_table,
                                    N,
                                    Q_map,
                                    K_map,
                                    V_map,
                                    Y,
                                    L,
                                )
                            else:
                                nothing(h, first, end, Y, L)

    elif packed:

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
                        last = load_index(cu_seqlens_q[b + 1], end, M + 1)
                        if causal:
                            seen = after - base - (last - end)
                            most = after - base - (last - first)
                        else:
                            seen = after - base
                            most = after - base
                        if first < end:
                            if seen > 0:
                                steps = (seen + KEYS - 1) / KEYS
                                attend(
                                    h,
                                    first,
                                    end,
                                    after - base,
                                    steps,
                                    most,
                                    base,
                                    None,
                                    None,
                                    Q_map,
                                    K_map,
                                    V_map,
                                    Y,
                                    L,
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
                            attend(
                                h,
                                row,
                                S,
                                S,
                                steps,
                                row,
                                0,
                                None,
                                None,
                                Q_map,
                                K_map,
                                V_map,
                                Y,
                                L,
                            )
            else:
                with CudaDeviceFunction(warp_config=WARPS):
                    for h in cuda_tasks(0, G * H):
                        for block in cuda_tasks(0, (S + 127) / 128):
                            row = 128 * block
                            steps = (S + KEYS - 1) / KEYS
                            attend(h, row, S, S, steps, S, 0, None, None, Q_map, K_map, V_map, Y, L)

    return attention_sm90


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        *(
            make_attention(D, causal=causal, packed=packed)
            for packed in (False, True)
            for D in (64, 128)
            for causal in (False, True)
        ),
        *(make_attention(128, causal=True, page=page) for page in (16, 256)),
    )
}
"""The kernels of bf16 in which each head has its own keys, by name; of pages some of few sizes."""
