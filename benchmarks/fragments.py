"""Kernels with loops over fragments, beside those that ship, to be compiled for a GPU.

exogpu compile benchmarks/fragments.py -o build/gpu/fragments --cubin
"""

from exogpu.hw.language import f16
from exogpu.kernels.attention_sm90 import make_attention
from exogpu.kernels.gemm_fused_sm90 import make_gemm_fused

gemm_fused_1x1 = make_gemm_fused(1, 1, 128, 256)
gemm_fused_2x1 = make_gemm_fused(2, 1, 128, 256)
gemm_fused_2x2 = make_gemm_fused(2, 2, 256, 192)
attention_128_causal_4 = make_attention(128, causal=True, G=4)
attention_f16_64 = make_attention(64, dtype=f16)
attention_f16_128_causal = make_attention(128, causal=True, dtype=f16)
