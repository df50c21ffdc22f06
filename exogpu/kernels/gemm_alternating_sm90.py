"""C[l, m, n] = sum over k of A[l, m, k] * B[l, n, k], tf32, for Hopper, in slices that take turns.

As `gemm_splitk_sm90`, whose slices are parts of K of the same length.  Here K is any: of S slices
slice s has the steps s, s + S, s + 2 S, ... of 32 columns.
One procedure a configuration:
`gemm_alternating<slices>_sm90_<cluster m>x<cluster n>_<tile m>x<tile n>`.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.hw.language import f32
from exogpu.kernels.gemm_sm90 import make_product, operand_map, warps
from exogpu.kernels.gemm_splitk_sm90 import make_adding, make_zeroing, result_map


def make_gemm_alternating(
    CM: int, CN: int, TM: int, TN: int, SLICES: int, RING: int = 4, groups: int = 2
) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA, whose rows so many
    consumer warpgroups divide among them, and so many slices of K."""
    MM = TM // groups  # rows of a warpgroup
    product = make_product(CM, CN, TM, TN, RING, split=False, groups=groups, every=SLICES)
    zeroed, wait = make_zeroing(True)
    add = make_adding(CM, CN, TM, TN, groups, wait)

    @proc(name=f"gemm_alternating{SLICES}_sm90_{CM}x{CN}_{TM}x{TN}")
    def gemm_alternating_sm90(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        A: f32[L, M, cluster_K] @ CudaGmemLinear,
        B: f32[L, N, cluster_K] @ CudaGmemLinear,
        C: f32[L, M, N] @ CudaGmemLinear,
    ):
        assert cluster_K % 4 == 0  # TMA strides are multiples of 16 bytes
        assert N % 4 == 0
        A_map = A[:, :, :] @ operand_map(f32, 1, TM // CN, 32)
        B_map = B[:, :, :] @ operand_map(f32, 1, TN // CM, 32)
        C_map = C[:, :, :] @ result_map(MM, TN)
        zeroed(L, M, N, C)
        with CudaDeviceFunction(clusterDim=CM * CN, warp_config=warps(groups), dependent=True):
            for batch in cuda_tasks(0, L):
                for tm in cuda_tasks(0, (M + CM * TM - 1) / (CM * TM)):
                    for tn in cuda_tasks(0, (N + CN * TN - 1) / (CN * TN)):
                        for s in cuda_tasks(0, SLICES):
                            D: f32[CM, CN, groups, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                            product(D, A_map, B_map, cluster_K, batch, tm, tn, s, M, N)
                            add(D, C_map, batch, tm, tn)
                            Fence(cuda_in_order, cuda_in_order)

    return gemm_alternating_sm90


CONFIGURATIONS = ((4, 2, 128, 256, 15), *((1, 1, 128, 256, slices) for slices in (3, 6, 16)))
"""Cluster, rows, columns, slices.  Of clusters of 8 a Hopper GPU runs 15 at a time."""

KERNELS: dict[str, Procedure] = {
    kernel.name: kernel for kernel in (make_gemm_alternating(*one) for one in CONFIGURATIONS)
}
"""Every configuration, by name."""
