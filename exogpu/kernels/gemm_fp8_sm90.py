"""C[l, m, n] = scale * sum over k of A[l, m, k] * B[l, n, k], of 8-bit floats, for Hopper.

Multiplied as in `gemm_sm90`, with sums of f32 as the tensor cores keep them.  The scale, of A times
that of B, is in memory.  Results are bf16 or f32: `gemm_fp8_sm90_<cluster>_<tile>`, with e4m3, and
`..._f32`.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.hw.language import bf16, f8e4m3, f8e5m2, f32
from exogpu.ir.types import DataType
from exogpu.kernels.gemm_epilogue import make_epilogue
from exogpu.kernels.gemm_sm90 import make_product, warps


def name_of(CM: int, CN: int, TM: int, TN: int, dtype: DataType, result: DataType) -> str:
    """The name of the kernel."""
    kind = "fp8" if dtype is f8e4m3 else "fp8_e5m2"
    return f"gemm_{kind}_sm90_{CM}x{CN}_{TM}x{TN}{'_f32' if result is f32 else ''}"


def make_gemm_fp8(
    CM: int,
    CN: int,
    TM: int,
    TN: int,
    RING: int = 4,
    groups: int = 2,
    dtype: DataType = f8e4m3,
    result: DataType = bf16,
) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA, whose rows so many
    consumer warpgroups divide among them; the ring runs on from tile to tile."""
    MM = TM // groups
    slots = CM * CN == 1
    product = make_product(
        CM, CN, TM, TN, RING, split=False, resident=True, slots=slots, groups=groups, dtype=dtype
    )
    epilogue = make_epilogue(CM, CN, TM, TN, groups, result)

    @proc(name=name_of(CM, CN, TM, TN, dtype, result))
    def gemm_fp8_sm90(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        A: dtype[L, M, cluster_K] @ CudaGmemLinear,
        B: dtype[L, N, cluster_K] @ CudaGmemLinear,
        scale: f32[1] @ CudaGmemLinear,
        C: result[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % 16 == 0  # TMA strides are multiples of 16 bytes
        A_map = A[:, :, :] @ Sm90_tensorMap(128, 1, TM // CN, 128)
        B_map = B[:, :, :] @ Sm90_tensorMap(128, 1, TN // CM, 128)
        with CudaDeviceFunction(clusterDim=CM * CN, warp_config=warps(groups)):
            A_smem: dtype[CM, CN, RING, TM, 128] @ Sm90_SmemSwizzled(128)
            B_smem: dtype[CM, CN, RING, TN, 128] @ Sm90_SmemSwizzled(128)
            full: barrier[CM, CN] @ CudaMbarrier
            empty: barrier(full)[CM, CN] @ CudaMbarrier
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + CM * TM - 1) / (CM * TM)):
                    for tn in cuda_tasks(0, (N + CN * TN - 1) / (CN * TN)):
                        D: f32[CM, CN, groups, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                        if slots:
                            steps = (cluster_K + 127) / 128
                        else:
                            steps = RING * ((cluster_K + 128 * RING - 1) / (128 * RING))
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
                        with CudaWarps(name="consumer"):
                            for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                                for n in cuda_threads(0, CN, unit=cuda_cta_in_cluster):
                                    for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                                        for i, j in fragment(D[m, n, wg, :, :]):
                                            D[m, n, wg, i, j] = D[m, n, wg, i, j] * scale[0]
                        epilogue(C, D, M, N, batch, tm, tn)

    return gemm_fp8_sm90


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        make_gemm_fp8(1, 1, 128, 256),
        make_gemm_fp8(1, 1, 128, 128, 6),
        make_gemm_fp8(2, 1, 128, 256),
        make_gemm_fp8(1, 1, 128, 256, result=f32),
        make_gemm_fp8(1, 1, 128, 256, dtype=f8e5m2),
    )
}
"""By name."""
