"""The derived GEMMs, to be compiled beside those written by hand.

exogpu compile benchmarks/derived.py -o build/gpu/derived --cubin
"""

from exogpu.kernels import derived_sm80, derived_sm90
from exogpu.schedule import rename

gemm_sm80_derived = rename(derived_sm80.derived(), "gemm_sm80_derived")
gemm_sm90_1x1_derived = rename(derived_sm90.derived(1, 1, 128, 256), "gemm_sm90_1x1_derived")
gemm_sm90_2x1_derived = rename(derived_sm90.derived(2, 1, 128, 256), "gemm_sm90_2x1_derived")
