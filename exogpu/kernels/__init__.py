"""The kernels that ship, and what they compute of arrays in one call."""

from exogpu.kernels.attention_calls import attention, attention_paged, attention_varlen
from exogpu.kernels.gemm_calls import gemm, gemm_fp8, gemm_fused, gemv
from exogpu.kernels.grouped_calls import gather_rows, grouped_gemm, histogram, scatter_rows
from exogpu.kernels.row_calls import (
    cross_entropy,
    cumsum,
    layer_norm,
    rms_norm,
    softmax,
    stencil,
    topk,
    total,
    transpose,
)

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
