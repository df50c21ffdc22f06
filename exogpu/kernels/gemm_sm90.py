"""C[l, m, n] = sum over k of A[l, m, k] * B[l, n, k], for Hopper: tf32, bf16 or f16, sums in f32.

Warp-specialised: one producer warp a CTA fills a ring of shared-memory tiles with TMA,
multicast along the rows and columns of the cluster; consumer warpgroups multiply with wgmma.
One procedure a configuration: `gemm_sm90_<cluster m>x<cluster n>_<tile m>x<tile n>`, and
`..._resident` where the ring runs on from tile to tile; `gemm_bf16_sm90_...` and
`gemm_f16_sm90_...` have A, B and C of 16 bits.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import bf16, f16, f32
from exogpu.hw.memories import Sm90_tensorMap, Sm90_tensorMap_tf32
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig
from exogpu.ir.types import EIGHTS, DataType, SpecialWindow
from exogpu.isa.f8 import Sm90_wgmma_f8
from exogpu.isa.sm90 import (
    Sm90_tma_multicast,
    Sm90_tma_multicast_tf32,
    Sm90_wgmma_f16,
    Sm90_wgmma_tf32,
    Sm90_zero_scale_d,
)
from exogpu.kernels.gemm_epilogue import make_epilogue


def warps(groups: int) -> list[CudaWarpConfig]:
    """A producer warp, and consumers of so many warpgroups."""
    return [
        CudaWarpConfig("producer", 1, 40, 0),
        CudaWarpConfig("unused", 3, 40, 0),
        CudaWarpConfig("consumer", 4 * groups, 0, 232),
    ]


WARPS = warps(2)


def operand_map(dtype: DataType, *box: int, rounded: bool = True) -> SpecialWindow:
    """The tensor map of A or B, whose f32 is rounded to tf32: wgmma would cut it."""
    return (Sm90_tensorMap_tf32 if rounded and dtype is f32 else Sm90_tensorMap)(128, *box)


def make_product(
    CM: int,
    CN: int,
    TM: int,
    TN: int,
    RING: int,
    *,
    split: bool,
    resident: bool = False,
    slots: bool = False,
    groups: int = 2,
    dtype: DataType = f32,
    rounded: bool = True,
    overlapped: bool = False,
    every: int = 1,
) -> Macro:
    """The product of the tiles that a cluster of CM x CN CTAs makes in one task.

    A CTA's tile of TM x TN is left in D, its rows divided among the consumer warpgroups; the ring
    may still be read.  With `split` the tensor maps have slices, and slice `s` is multiplied.  A
    `resident` ring is the caller's, and is given last: A_smem, B_smem, full, empty; in place of K
    is then a number of steps, of 128 bytes a row.  With `slots` its stages are counted from tile to
    tile, else each tile begins with the first.  The maps are those of `operand_map`, as `rounded`.
    Where a ring is not `slots`, the products of a step may be `overlapped` with those of the next.
    Of so many steps only `every` one is multiplied, beginning with `s`; else s is None.  M and N
    are then given last: what one cluster alone loads makes way in the L2 cache for what comes next.
    """
    MM = TM // groups  # rows of a warpgroup
    TK = 128 // dtype.bytes  # columns of a step, and of one product
    KK = 32 // dtype.bytes
    narrow = Sm90_wgmma_f8 if dtype in EIGHTS else Sm90_wgmma_f16

    @macro
    def copy(tile, source, full, n, stride, rows, box, once):
        if rounded and dtype is f32:
            (
                Sm90_tma_multicast_tf32(
                    tile, source, n=n, stride=stride, rows=rows, cols=TK, box=box, once=once
                )
                >> full
            )
        else:
            (
                Sm90_tma_multicast(
                    tile,
                    source,
                    n=n,
                    stride=stride,
                    rows=rows,
                    cols=TK,
                    box=box,
                    dtype=dtype,
                    once=once,
                )
                >> full
            )

    @macro
    def part(tile, tensor, batch, row, s, k, full, n, stride, rows, once):
        if split:
            copy(
                tile,
                tensor[batch, row : row + rows, s, TK * k : TK * k + TK],
                full,
                n,
                stride,
                rows,
                (1, rows // n, 1, TK),
                once,
            )
        else:
            if every > 1:  # noqa: SIM108 (a macro has no conditional expressions)
                column = TK * (every * k + s)
            else:
                column = TK * k
            copy(
                tile,
                tensor[batch, row : row + rows, column : column + TK],
                full,
                n,
                stride,
                rows,
                (1, rows // n, TK),
                once,
            )

    @macro
    def load(tile, tensor, batch, row, s, k, full, n, stride, rows, others, most):
        """Other clusters load it, too, where `others`, rows of the other operand, are more than
        `most`."""
        if every > 1:
            if others <= most:
                part(tile, tensor, batch, row, s, k, full, n, stride, rows, True)
            else:
                part(tile, tensor, batch, row, s, k, full, n, stride, rows, False)
        else:
            part(tile, tensor, batch, row, s, k, full, n, stride, rows, False)

    @macro
    def fill(A_tile, B_tile, A_map, B_map, batch, tm, tn, s, k, full, M, N):
        """By the producer: one stage of the ring."""
        for m in cuda_threads(0, CM, unit=CN * cuda_warp_in_cluster):
            row = (CM * tm + m) * TM
            tile = A_tile[m, :, :, :]
            load(tile, A_map, batch, row, s, k, full[m, :], CN, 1, TM, N, CN * TN)
        for n in cuda_threads(0, CN, unit=CM * cuda_warp_in_cluster_strided(CN)):
            row = (CN * tn + n) * TN
            tile = B_tile[:, n, :, :]
            load(tile, B_map, batch, row, s, k, full[:, n], CM, CN, TN, M, CM * TM)

    @macro
    def multiply(sums, A_tile, B_tile):
        """By a consumer warpgroup: the products of one stage."""
        for kk in seq(0, 4):
            if dtype is f32:
                Sm90_wgmma_tf32(
                    sums[:, :],
                    A_tile[:, KK * kk : KK * kk + KK],
                    B_tile[:, KK * kk : KK * kk + KK],
                    M=MM,
                    N=TN,
                )
            else:
                narrow(
                    sums[:, :],
                    A_tile[:, KK * kk : KK * kk + KK],
                    B_tile[:, KK * kk : KK * kk + KK],
                    M=MM,
                    N=TN,
                    dtype=dtype,
                )

    @macro
    def passed(D, A_map, B_map, steps, batch, tm, tn, s, A_smem, B_smem, full, empty, M, N):
        cg: barrier[CM, CN, groups] @ CudaCommitGroup
        with CudaWarps(name="consumer"):
            for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                    for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                        Sm90_zero_scale_d(D[m, n, wg, :, :], M=MM, N=TN)
                        Fence(wgmma_fence_1, wgmma_fence_2)
        for k in seq(0, steps):
            with CudaWarps(0, 1, name="producer"):
                for m in cuda_threads(0, CM, unit=CN * cuda_warp_in_cluster):
                    for n in cuda_threads(0, CN, unit=cuda_warp_in_cluster):
                        Await(empty[m, n], cuda_temporal, ~RING)
                if slots:
                    fill(
                        A_smem[:, :, slot(full), :, :],
                        B_smem[:, :, slot(full), :, :],
                        A_map,
                        B_map,
                        batch,
                        tm,
                        tn,
                        s,
                        k,
                        full,
                        M,
                        N,
                    )
                else:
                    fill(
                        A_smem[:, :, k % RING, :, :],
                        B_smem[:, :, k % RING, :, :],
                        A_map,
                        B_map,
                        batch,
                        tm,
                        tn,
                        s,
                        k,
                        full,
                        M,
                        N,
                    )
                for m in cuda_threads(0, CM, unit=CN * cuda_warp_in_cluster):
                    for n in cuda_threads(0, CN, unit=cuda_warp_in_cluster):
                        Arrive(cuda_temporal) >> full[m, n]
            with CudaWarps(name="consumer"):
                for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                    for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                        Await(full[m, n], cuda_generic_and_async, ~0)
                        for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                            if slots:
                                multiply(
                                    D[m, n, wg, :, :],
                                    A_smem[m, n, slot(empty), MM * wg : MM * wg + MM, :],
                                    B_smem[m, n, slot(empty), :, :],
                                )
                            else:
                                multiply(
                                    D[m, n, wg, :, :],
                                    A_smem[m, n, k % RING, MM * wg : MM * wg + MM, :],
                                    B_smem[m, n, k % RING, :, :],
                                )
                            Arrive(wgmma_async) >> cg[m, n, wg]
                            Await(cg[m, n, wg], cuda_in_order, int(overlapped))
                        if overlapped:
                            if k > 0:  # of the step before
                                Arrive(cuda_in_order) >> empty[m, :] >> empty[:, n]
                        elif not slots:
                            Arrive(cuda_in_order) >> empty[m, :] >> empty[:, n]
                if slots:  # The slot is that of all CTAs: none has arrived when it is read.
                    for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                        for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                            Arrive(cuda_in_order) >> empty[m, :] >> empty[:, n]
        if overlapped:
            with CudaWarps(name="consumer"):
                for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                    for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                        for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                            Await(cg[m, n, wg], cuda_in_order, 0)
                        Arrive(cuda_in_order) >> empty[m, :] >> empty[:, n]

    @macro
    def of_slice(D, A_map, B_map, K, batch, tm, tn, s, M, N):
        A_smem: dtype[CM, CN, RING, TM, TK] @ Sm90_SmemSwizzled(128)
        B_smem: dtype[CM, CN, RING, TN, TK] @ Sm90_SmemSwizzled(128)
        full: barrier[CM, CN] @ CudaMbarrier
        empty: barrier(full)[CM, CN] @ CudaMbarrier
        # Beyond K there are zeros: each slice has as many steps, and at least one.
        steps = (K + TK * every - 1) / (TK * every)
        passed(D, A_map, B_map, steps, batch, tm, tn, s, A_smem, B_smem, full, empty, M, N)

    @macro
    def whole(D, A_map, B_map, K, batch, tm, tn, s):
        of_slice(D, A_map, B_map, K, batch, tm, tn, s, None, None)

    @macro
    def through(D, A_map, B_map, steps, batch, tm, tn, s, A_smem, B_smem, full, empty):
        passed(D, A_map, B_map, steps, batch, tm, tn, s, A_smem, B_smem, full, empty, None, None)

    if resident:
        return through
    return of_slice if every > 1 else whole


def family(dtype: DataType) -> str:
    """The prefix of the names of the kernels of a type."""
    return "gemm_sm90" if dtype is f32 else f"gemm_{dtype.value}_sm90"


def make_gemm(
    CM: int,
    CN: int,
    TM: int,
    TN: int,
    RING: int = 4,
    groups: int = 2,
    dtype: DataType = f32,
    *,
    rounded: bool = True,
    overlapped: bool = False,
) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA, whose rows so many
    consumer warpgroups divide among them; f32 is `rounded` to tf32, or cut; products of two steps
    are `overlapped`, or not."""
    MM = TM // groups  # rows of a warpgroup
    TK = 128 // dtype.bytes  # columns of a step
    CHUNK = 16 // dtype.bytes
    product = make_product(
        CM,
        CN,
        TM,
        TN,
        RING,
        split=False,
        groups=groups,
        dtype=dtype,
        rounded=rounded,
        overlapped=overlapped,
    )
    epilogue = make_epilogue(CM, CN, TM, TN, groups, dtype)

    @proc(name=f"{family(dtype)}_{CM}x{CN}_{TM}x{TN}")
    def gemm_sm90(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        A: dtype[L, M, cluster_K] @ CudaGmemLinear,
        B: dtype[L, N, cluster_K] @ CudaGmemLinear,
        C: dtype[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % CHUNK == 0  # TMA strides are multiples of 16 bytes
        A_map = A[:, :, :] @ operand_map(dtype, 1, TM // CN, TK, rounded=rounded)
        B_map = B[:, :, :] @ operand_map(dtype, 1, TN // CM, TK, rounded=rounded)
        with CudaDeviceFunction(clusterDim=CM * CN, warp_config=warps(groups)):
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + CM * TM - 1) / (CM * TM)):
                    for tn in cuda_tasks(0, (N + CN * TN - 1) / (CN * TN)):
                        D: f32[CM, CN, groups, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                        product(D, A_map, B_map, cluster_K, batch, tm, tn, None)
                        # The ring is done with: the next task's loads overlap the stores.
                        Fence(cuda_in_order, cuda_in_order)
                        epilogue(C, D, M, N, batch, tm, tn)

    return gemm_sm90


def make_resident(
    CM: int,
    CN: int,
    TM: int,
    TN: int,
    RING: int = 4,
    groups: int = 2,
    dtype: DataType = f32,
    slots: bool = True,
) -> Procedure:
    """The same with a ring that runs on from tile to tile: while the consumers store one, the
    producer fills the ring for the next.

    With `slots` a tile ends anywhere in the ring, whose slots are counted from tile to tile.  Else
    it ends where the ring does: in what is left of a last round the tensor maps give zeros.
    """
    MM = TM // groups  # rows of a warpgroup
    TK = 128 // dtype.bytes  # columns of a step
    CHUNK = 16 // dtype.bytes
    product = make_product(
        CM, CN, TM, TN, RING, split=False, resident=True, slots=slots, groups=groups, dtype=dtype
    )
    epilogue = make_epilogue(CM, CN, TM, TN, groups, dtype)

    @proc(name=f"{family(dtype)}_{CM}x{CN}_{TM}x{TN}_resident")
    def gemm_sm90_resident(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        A: dtype[L, M, cluster_K] @ CudaGmemLinear,
        B: dtype[L, N, cluster_K] @ CudaGmemLinear,
        C: dtype[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % CHUNK == 0  # TMA strides are multiples of 16 bytes
        A_map = A[:, :, :] @ operand_map(dtype, 1, TM // CN, TK)
        B_map = B[:, :, :] @ operand_map(dtype, 1, TN // CM, TK)
        with CudaDeviceFunction(clusterDim=CM * CN, warp_config=warps(groups)):
            A_smem: dtype[CM, CN, RING, TM, TK] @ Sm90_SmemSwizzled(128)
            B_smem: dtype[CM, CN, RING, TN, TK] @ Sm90_SmemSwizzled(128)
            full: barrier[CM, CN] @ CudaMbarrier
            empty: barrier(full)[CM, CN] @ CudaMbarrier
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + CM * TM - 1) / (CM * TM)):
                    for tn in cuda_tasks(0, (N + CN * TN - 1) / (CN * TN)):
                        D: f32[CM, CN, groups, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                        if slots:
                            steps = (cluster_K + TK - 1) / TK
                        else:
                            steps = RING * ((cluster_K + TK * RING - 1) / (TK * RING))
                        product(
                            D,
                            A_map,
                            B_map,
                            steps,
                            batch,
                            tm,
                            tn,
                            None,
                            A_smem,
                            B_smem,
                            full,
                            empty,
                        )
                        epilogue(C, D, M, N, batch, tm, tn)

    return gemm_sm90_resident


CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2))
TILES = ((128, 256), (256, 192))
OTHERS = ((1, 1, 128, 192, 5, 2), (2, 1, 128, 192, 5, 2))
SMALL = (
    (1, 1, 128, 160, 6, 2),
    (1, 1, 128, 96, 8, 2),
    (1, 1, 128, 64, 9, 2),
    (1, 1, 64, 128, 9, 1),
    (1, 1, 64, 96, 11, 1),
    (1, 1, 64, 64, 12, 1),
    (1, 1, 64, 32, 12, 1),
)
"""For sizes that fill fewer CTAs: cluster, rows, columns, ring, consumer warpgroups.  Where a step
is short, its products are overlapped with those of the next."""
RESIDENT = (
    (1, 1, 128, 256),
    (2, 1, 128, 256),
    (1, 2, 256, 192),
    (1, 1, 128, 192),
    (2, 1, 128, 192),
)
"""For many tiles."""

HALVES = (bf16, f16)
HALF_SMALL = (
    (1, 1, 128, 128, 7, 2),
    (1, 1, 128, 64, 9, 2),
    (1, 1, 64, 160, 8, 1),
    (1, 1, 64, 128, 9, 1),
    (1, 1, 64, 64, 12, 1),
)
HALF_RESIDENT = ((1, 1, 128, 256), (2, 1, 128, 256), (1, 2, 256, 192))
"""Resident shapes of types of 16 bits."""

KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        *(make_gemm(cm, cn, tm, tn) for cm, cn in CLUSTERS for tm, tn in TILES),
        *(make_gemm(*one) for one in OTHERS),
        *(make_gemm(*one, overlapped=True) for one in SMALL),
        *(make_resident(*one) for one in RESIDENT),
        *(make_gemm(*one, dtype=half, overlapped=True) for half in HALVES for one in HALF_SMALL),
        *(make_resident(*one, dtype=half) for half in HALVES for one in HALF_RESIDENT),
    )
}
"""Every configuration, by name."""
