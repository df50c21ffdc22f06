"""The kernels that ship, and products and attention of arrays in one call."""

from exogpu.kernels.attending import attention
from exogpu.kernels.calls import gemm, gemv
from exogpu.kernels.scaled import gemm_fp8

__all__ = ["attention", "gemm", "gemm_fp8", "gemv"]
