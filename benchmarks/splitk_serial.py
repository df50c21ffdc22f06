"""Split-k in two passes, the second not dependent: what a dependent launch saves."""

from __future__ import annotations

from exogpu.api import Procedure
from exogpu.kernels.gemm_splitk_sum_sm90 import CONFIGURATIONS, make_gemm_splitk_sum

KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (make_gemm_splitk_sum(*one, dependent=False) for one in CONFIGURATIONS)
}
"""Every configuration, by name."""
