"""The kernels that ship, and products of arrays in one call."""

from exogpu.kernels.calls import gemm, gemv

__all__ = ["gemm", "gemv"]
