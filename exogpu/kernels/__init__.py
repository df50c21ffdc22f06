"""The kernels that ship, and products and attention of arrays in one call."""

from exogpu.kernels.attending import attention
from exogpu.kernels.calls import gemm, gemv

__all__ = ["attention", "gemm", "gemv"]
