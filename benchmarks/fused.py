"""Fused products beside those that ship, to be compiled for a GPU.

exogpu compile benchmarks/fused.py -o build/gpu/fused --cubin
"""

from __future__ import annotations

from exogpu.api import Procedure
from exogpu.hw.language import bf16, f32
from exogpu.kernels.gemm_fused_sm90 import RINGS, make_gemm_fused

KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        *(
            make_gemm_fused(1, 1, 128, columns, RINGS[columns], dtype=dtype, **what)
            for columns in RINGS
            for dtype, what in (
                (bf16, {"activation": "gelu"}),
                (bf16, {"activation": "relu"}),
                (bf16, {"activation": "", "bias": False, "residual": True}),
                (bf16, {"activation": "silu", "residual": True}),
            )
        ),
        make_gemm_fused(1, 1, 128, 256, dtype=f32, activation="relu"),
    )
}
"""By name."""
