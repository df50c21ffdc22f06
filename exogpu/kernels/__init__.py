"""The kernels that ship, and what they compute of arrays in one call."""

from exogpu.kernels.calls import gemm, gemv
from exogpu.kernels.row_calls import layer_norm, rms_norm, softmax, stencil, transpose

__all__ = ["gemm", "gemv", "layer_norm", "rms_norm", "softmax", "stencil", "transpose"]
