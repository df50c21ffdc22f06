"""The kernels that ship, and what they compute of arrays in one call."""

from exogpu.kernels.attending import attention
from exogpu.kernels.calls import gemm, gemv
from exogpu.kernels.row_calls import layer_norm, rms_norm, softmax, stencil, transpose
from exogpu.kernels.scaled import gemm_fp8

__all__ = [
    "attention",
    "gemm",
    "gemm_fp8",
    "gemv",
    "layer_norm",
    "rms_norm",
    "softmax",
    "stencil",
    "transpose",
]
