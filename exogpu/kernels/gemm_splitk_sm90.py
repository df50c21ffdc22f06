"""C[l, m, n] = sum over s, k of A[l, m, s, k] * B[l, n, s, k], tf32, for Hopper, split along K.

The K_split slices of a tile are tasks of their own, multiplied as in `gemm_sm90`; each adds its
part into C with TMA, which a launch before has zeroed: the products begin while it runs, and only
what adds to C waits for it.
One procedure a configuration: `gemm_splitk_sm90_<cluster m>x<cluster n>_<tile m>x<tile n>`.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import f32
from exogpu.hw.memories import Sm90_tensorMap
from exogpu.ir.types import SpecialWindow
from exogpu.isa.cuda import cuda_memset0_3d, cuda_store
from exogpu.isa.sm90 import Sm90_stage_tile, Sm90_tma_reduce
from exogpu.kernels.gemm_sm90 import make_product, operand_map, warps


def make_zeroing(dependent: bool) -> tuple[Macro, Macro]:
    """The way in which C is zeroed, and a warp that adds to it waits for that: a launch of its own,
    or else a memset of the stream, for which all wait."""

    @macro
    def zeroed(L, M, N, C):
        if dependent:
            with CudaDeviceFunction(blockDim=128):
                for batch in cuda_tasks(0, L):
                    for rows in cuda_tasks(0, (M + 3) / 4):
                        for columns in cuda_tasks(0, (N + 511) / 512):
                            for t in cuda_threads(0, 128, unit=cuda_thread):
                                none: f32[4]
                                for j in seq(0, 4):
                                    none[j] = 0
                                column = 512 * columns + 4 * t
                                for i in seq(0, 4):
                                    if 4 * rows + i < M and column < N:
                                        cuda_store(
                                            C[batch, 4 * rows + i, column : column + 4], none[:]
                                        )
        else:
            cuda_memset0_3d(L, M, N, C[:, :, :])

    @macro
    def wait():
        if dependent:
            for _ in cuda_threads(0, 1, unit=cuda_warp):
                Fence(cuda_stream_sync, cuda_generic_and_async)

    return zeroed, wait


def staged_columns(TN: int) -> int:
    """Columns of C that are staged and added at a time: up to 128 bytes of a row."""
    return next(columns for columns in (32, 16, 8) if TN % columns == 0)


def result_map(rows: int, TN: int) -> SpecialWindow:
    """The tensor map by which a warpgroup's rows are added to C."""
    return Sm90_tensorMap(4 * staged_columns(TN), 1, rows, staged_columns(TN))


def make_adding(CM: int, CN: int, TM: int, TN: int, groups: int, wait: Macro) -> Macro:
    """Each consumer warpgroup stages its rows of the tile, slice by slice, where the ring was, and
    TMA adds to C what is staged while more is; `wait` waits for what zeroes C."""
    MM = TM // groups
    W = staged_columns(TN)

    @macro
    def add(D, C_map, batch, tm, tn):
        Fence(cuda_in_order, cuda_generic_and_async)
        C_smem: f32[CM, CN, groups, TN / W, MM, W] @ Sm90_SmemSwizzled(4 * W)
        done: barrier[CM, CN, groups] @ CudaCommitGroup
        with CudaWarps(name="consumer"):
            for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                    for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                        row = (CM * tm + m) * TM + MM * wg
                        wait()
                        for j in seq(0, TN / W):
                            column = (CN * tn + n) * TN + W * j
                            Sm90_stage_tile(
                                W * j,
                                C_smem[m, n, wg, j, :, :],
                                D[m, n, wg, :, :],
                                M=MM,
                                N=TN,
                                cols=W,
                                swizzle=4 * W,
                            )
                            Fence(cuda_in_order, cuda_generic_and_async)
                            for _ in cuda_threads(0, 1, unit=cuda_warp):
                                Sm90_tma_reduce(
                                    C_map[batch, row : row + MM, column : column + W],
                                    C_smem[m, n, wg, j, :, :],
                                    rows=MM,
                                    cols=W,
                                    box=(1, MM, W),
                                    swizzle=4 * W,
                                )
                                Arrive(tma_to_gmem_async) >> done[m, n, wg]
                        for _ in cuda_threads(0, 1, unit=cuda_warp):
                            Await(done[m, n, wg], cuda_in_order, 0)

    return add


def make_gemm_splitk(
    CM: int,
    CN: int,
    TM: int,
    TN: int,
    RING: int = 4,
    groups: int = 2,
    *,
    dependent: bool = True,
    overlapped: bool = False,
) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA, whose rows so many
    consumer warpgroups divide among them; `dependent`: beside the launch that zeroes C; products
    of two steps are `overlapped`, or not."""
    MM = TM // groups  # rows of a warpgroup
    product = make_product(CM, CN, TM, TN, RING, split=True, groups=groups, overlapped=overlapped)
    zeroed, wait = make_zeroing(dependent)
    add = make_adding(CM, CN, TM, TN, groups, wait)
    rest = "" if dependent else "_serial"

    @proc(name=f"gemm_splitk_sm90_{CM}x{CN}_{TM}x{TN}{rest}")
    def gemm_splitk_sm90(
        L: size,
        M: size,
        N: size,
        K_split: size,
        cluster_K: size,
        A: f32[L, M, K_split, cluster_K] @ CudaGmemLinear,
        B: f32[L, N, K_split, cluster_K] @ CudaGmemLinear,
        C: f32[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % 4 == 0  # TMA strides are multiples of 16 bytes
        assert N % 4 == 0
        A_map = A[:, :, :, :] @ operand_map(f32, 1, TM // CN, 1, 32)
        B_map = B[:, :, :, :] @ operand_map(f32, 1, TN // CM, 1, 32)
        C_map = C[:, :, :] @ result_map(MM, TN)
        zeroed(L, M, N, C)
        with CudaDeviceFunction(clusterDim=CM * CN, warp_config=warps(groups), dependent=dependent):
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + CM * TM - 1) / (CM * TM)):
                    for tn in cuda_tasks(0, (N + CN * TN - 1) / (CN * TN)):
                        for s in cuda_tasks(0, K_split):
                            D: f32[CM, CN, groups, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                            product(D, A_map, B_map, cluster_K, batch, tm, tn, s)
                            add(D, C_map, batch, tm, tn)
                            Fence(cuda_in_order, cuda_in_order)

    return gemm_splitk_sm90


CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2))
TILES = ((128, 256), (256, 192))
SMALL = ((1, 1, 64, 128, 6, 1), (1, 1, 64, 64, 10, 1), (1, 1, 128, 128, 6, 2))
"""For few rows or columns: cluster, rows, columns, ring, consumer warpgroups; a step's products are
overlapped with those of the next."""
KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        *(make_gemm_splitk(cm, cn, tm, tn) for cm, cn in CLUSTERS for tm, tn in TILES),
        *(make_gemm_splitk(*one, overlapped=True) for one in SMALL),
    )
}
"""Every configuration, by name."""
