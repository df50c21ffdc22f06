"""Custom operators, `torch.ops.exogpu.gemm` and others, which `torch.compile` takes."""

from __future__ import annotations

import torch

from exogpu.kernels import attention_calls, gemm_calls


@torch.library.custom_op("exogpu::gemm", mutates_args=())
def gemm(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """C = A B^T, as `exogpu.kernels.gemm`."""
    return gemm_calls.gemm(A.contiguous(), B.contiguous())


@torch.library.custom_op("exogpu::gemv", mutates_args=())
def gemv(A: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """y = A x, as `exogpu.kernels.gemv`."""
    return gemm_calls.gemv(A.contiguous(), x.contiguous())


@torch.library.custom_op("exogpu::attention", mutates_args=())
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """softmax(q k^T / sqrt(D)) v, as `exogpu.kernels.attention`."""
    return attention_calls.attention(q.contiguous(), k.contiguous(), v.contiguous(), causal)


@torch.library.custom_op("exogpu::gemm_fp8", mutates_args=())
def gemm_fp8(A: torch.Tensor, B: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """C = scale A B^T in bf16, as `exogpu.kernels.gemm_fp8`."""
    return gemm_calls.gemm_fp8(A.contiguous(), B.contiguous(), scale)


@gemm.register_fake
def _(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    return A.new_empty((*A.shape[:-1], B.shape[-2]))


@gemv.register_fake
def _(A: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return A.new_empty(A.shape[:-1])


@attention.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False) -> torch.Tensor:
    return q.new_empty(q.shape)


@gemm_fp8.register_fake
def _(A: torch.Tensor, B: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return A.new_empty((*A.shape[:-1], B.shape[-2]), dtype=torch.bfloat16)
