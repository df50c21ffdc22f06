"""The kernels that ship, and what they compute of arrays in one call."""

from exogpu.kernels.attending import attention, attention_paged, attention_varlen
from exogpu.kernels.calls import gemm, gemv
from exogpu.kernels.fused import gemm_fused
from exogpu.kernels.grouped import gather_rows, grouped_gemm, histogram, scatter_rows
from exogpu.kernels.ranking import topk
from exogpu.kernels.row_calls import (
    cross_entropy,
    cumsum,
    layer_norm,
    rms_norm,
    softmax,
    stencil,
    transpose,
)
from exogpu.kernels.scaled import gemm_fp8
from exogpu.kernels.scanning import total

__all__ = [
    "attention",
    "attention_paged",
    "attention_varlen",
    "cross_entropy",
    "cumsum",
    "gather_rows",
    "gemm",
    "gemm_fp8",
    "gemm_fused",
    "gemv",
    "grouped_gemm",
    "histogram",
    "layer_norm",
    "rms_norm",
    "scatter_rows",
    "softmax",
    "stencil",
    "topk",
    "total",
    "transpose",
]
