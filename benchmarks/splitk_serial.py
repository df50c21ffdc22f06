"""Split-k whose second launch is not dependent: what a dependent launch saves."""

from __future__ import annotations

from exogpu.api import Procedure
from exogpu.kernels import gemm_splitk_sm90 as atomic
from exogpu.kernels import gemm_splitk_sum_sm90 as summed

KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        *(summed.make_gemm_splitk_sum(*one, dependent=False) for one in summed.LARGE),
        *(
            atomic.make_gemm_splitk(*cluster, *tile, dependent=False)
            for cluster in atomic.CLUSTERS
            for tile in atomic.TILES
        ),
        *(atomic.make_gemm_splitk(*one, dependent=False, overlapped=True) for one in atomic.SMALL),
    )
}
"""Every configuration of TF32, by name."""
