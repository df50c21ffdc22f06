"""The GEMMs of `gemm_sm90` with a ring that runs on, whose results leave through shared memory.

The consumers stage a tile slice by slice in swizzled buffers that reside, and go on with the next
tile; a warp for each of their warpgroups stores the slices with TMA, and waits until they are read.
One procedure a configuration: `gemm_sm90_<cluster m>x<cluster n>_<tile m>x<tile n>_staged`, and
`gemm_bf16_sm90_...`, `gemm_f16_sm90_...`.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import bf16, f16, f32
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig
from exogpu.ir.types import DataType
from exogpu.isa.sm90 import Sm90_stage_tile, Sm90_tma_store
from exogpu.kernels.gemm_sm90 import family, make_product, operand_map


def warps(groups: int) -> list[CudaWarpConfig]:
    """A producer warp, a storing warp for each warpgroup of consumers, and these."""
    return [
        CudaWarpConfig("producer", 1, 40, 0),
        CudaWarpConfig("storer", groups, 40, 0),
        CudaWarpConfig("unused", 3 - groups, 40, 0),
        CudaWarpConfig("consumer", 4 * groups, 0, 232),
    ]


def make_staged_epilogue(
    CM: int,
    CN: int,
    TM: int,
    TN: int,
    BUFFERS: int,
    LAG: int,
    groups: int = 2,
    dtype: DataType = f32,
) -> Macro:
    """Each consumer warpgroup stages its rows of the tile, 128 bytes of each at a time, in turn in
    one of so many buffers; its storer stores them, and leaves `LAG` of them unread meanwhile."""
    MM = TM // groups  # rows of a warpgroup
    W = 128 // dtype.bytes  # columns of a slice
    assert TN % W == 0 and TN // W % BUFFERS == 0 and 0 <= LAG < BUFFERS

    @macro
    def epilogue(C_map, D, batch, tm, tn, C_smem, staged, drained):
        read: barrier[CM, CN, groups] @ CudaCommitGroup
        for j in seq(0, TN / W):
            with CudaWarps(name="consumer"):
                for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                    for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                        for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                            Await(drained[m, n, wg], cuda_in_order, ~(BUFFERS - LAG))
                            Sm90_stage_tile(
                                W * j,
                                C_smem[m, n, wg, j % BUFFERS, :, :],
                                D[m, n, wg, :, :],
                                M=MM,
                                N=TN,
                                cols=W,
                                dtype=dtype,
                            )
                            for w in cuda_threads(0, 4, unit=cuda_warp):
                                Fence(cuda_in_order, cuda_generic_and_async)
                            Arrive(cuda_in_order) >> staged[m, n, wg]
            with CudaWarps(name="storer"):
                for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                    for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                        for wg in cuda_threads(0, groups, unit=cuda_warp):
                            row = (CM * tm + m) * TM + MM * wg
                            column = (CN * tn + n) * TN + W * j
                            Await(staged[m, n, wg], cuda_in_order, ~0)
                            Sm90_tma_store(
                                C_map[batch, row : row + MM, column : column + W],
                                C_smem[m, n, wg, j % BUFFERS, :, :],
                                rows=MM,
                                cols=W,
                                box=(1, MM, W),
                                swizzle=128,
                                dtype=dtype,
                            )
                            Arrive(tma_to_gmem_source) >> read[m, n, wg]
                            Await(read[m, n, wg], cuda_in_order, LAG)
                            Arrive(cuda_in_order) >> drained[m, n, wg]
        if LAG > 0:
            with CudaWarps(name="storer"):
                for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                    for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                        for wg in cuda_threads(0, groups, unit=cuda_warp):
                            Await(read[m, n, wg], cuda_in_order, 0)

    return epilogue


def make_staged(
    CM: int,
    CN: int,
    TM: int,
    TN: int,
    RING: int = 4,
    BUFFERS: int = 2,
    LAG: int = 1,
    groups: int = 2,
    dtype: DataType = f32,
    name: str = "staged",
) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA, whose rows so many
    consumer warpgroups divide among them, each with so many buffers; `name` ends its name."""
    slots = CM * CN == 1
    MM = TM // groups  # rows of a warpgroup
    TK = 128 // dtype.bytes  # columns of a step, and of a slice
    CHUNK = 16 // dtype.bytes
    product = make_product(
        CM, CN, TM, TN, RING, split=False, resident=True, slots=slots, groups=groups, dtype=dtype
    )
    epilogue = make_staged_epilogue(CM, CN, TM, TN, BUFFERS, LAG, groups, dtype)

    @proc(name=f"{family(dtype)}_{CM}x{CN}_{TM}x{TN}_{name}")
    def gemm_sm90_staged(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        A: dtype[L, M, cluster_K] @ CudaGmemLinear,
        B: dtype[L, N, cluster_K] @ CudaGmemLinear,
        C: dtype[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % CHUNK == 0  # TMA strides are multiples of 16 bytes
        assert N % CHUNK == 0
        A_map = A[:, :, :] @ operand_map(dtype, 1, TM // CN, TK)
        B_map = B[:, :, :] @ operand_map(dtype, 1, TN // CM, TK)
        C_map = C[:, :, :] @ Sm90_tensorMap(128, 1, MM, TK)
        with CudaDeviceFunction(clusterDim=CM * CN, warp_config=warps(groups)):
            A_smem: dtype[CM, CN, RING, TM, TK] @ Sm90_SmemSwizzled(128)
            B_smem: dtype[CM, CN, RING, TN, TK] @ Sm90_SmemSwizzled(128)
            C_smem: dtype[CM, CN, groups, BUFFERS, MM, TK] @ Sm90_SmemSwizzled(128)
            full: barrier[CM, CN] @ CudaMbarrier
            empty: barrier(full)[CM, CN] @ CudaMbarrier
            staged: barrier[CM, CN, groups] @ CudaMbarrier
            drained: barrier(staged)[CM, CN, groups] @ CudaMbarrier
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
                        epilogue(C_map, D, batch, tm, tn, C_smem, staged, drained)

    return gemm_sm90_staged


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        make_staged(1, 1, 128, 256, 4, 2, 0),
        make_staged(1, 1, 128, 192, 4, 2, 0),
        *(make_staged(1, 1, 128, 256, 3, 4, 2, dtype=dtype) for dtype in (bf16, f16)),
    )
}
"""By name."""
