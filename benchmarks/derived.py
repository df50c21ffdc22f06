"""The derived kernels, to be compiled beside those written by hand.

exogpu compile benchmarks/derived.py -o build/gpu/derived --cubin
"""

from exogpu.kernels import (
    derived_bias_relu_sm90,
    derived_gemv,
    derived_sm80,
    derived_sm90,
    derived_splitk_sm90,
)
from exogpu.kernels.gemm_bias_relu_sm90 import make_gemm_bias_relu
from exogpu.schedule import rename

gemm_sm80_derived = rename(derived_sm80.derived(), "gemm_sm80_derived")
gemm_sm90_1x1_derived = rename(derived_sm90.derived(1, 1, 128, 256), "gemm_sm90_1x1_derived")
gemm_sm90_2x1_derived = rename(derived_sm90.derived(2, 1, 128, 256), "gemm_sm90_2x1_derived")
gemm_splitk_sm90_2x1_derived = rename(
    derived_splitk_sm90.derived(2, 1, 128, 256), "gemm_splitk_sm90_2x1_derived"
)
gemv_derived = rename(derived_gemv.derived(), "gemv_derived")
gemm_bias_relu_2x1 = make_gemm_bias_relu(2, 1, 128, 256)
gemm_bias_relu_2x1_derived = rename(
    derived_bias_relu_sm90.derived(2, 1, 128, 256), "gemm_bias_relu_2x1_derived"
)
