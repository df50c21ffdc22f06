"""Split-k whose second launch is not dependent: what a dependent launch saves."""

from __future__ import annotations

from exogpu.api import Procedure
from exogpu.kernels.gemm_splitk_sm90 import CLUSTERS, OTHERS, TILES, make_gemm_splitk
from exogpu.kernels.gemm_splitk_sum_sm90 import CONFIGURATIONS, make_gemm_splitk_sum

KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        *(make_gemm_splitk_sum(*one, dependent=False) for one in CONFIGURATIONS),
        *(make_gemm_splitk(*c, *t, dependent=False) for c in CLUSTERS for t in TILES),
        *(make_gemm_splitk(*one, dependent=False) for one in OTHERS),
    )
}
"""Every configuration, by name."""
