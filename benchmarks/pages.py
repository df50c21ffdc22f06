"""The kernels of attention that `gpu_sequences.py` checks and times, to be compiled for a GPU.

exogpu compile benchmarks/pages.py -o build/gpu --cubin
"""

from exogpu.kernels.attention_sm90 import make_attention

PAGES = (16, 64, 256)
"""Rows of a page."""

KERNELS = {
    made.name: made
    for D in (64, 128)
    for causal in (False, True)
    for made in (
        make_attention(D, causal=causal, packed=True),
        *(make_attention(D, causal=causal, page=page) for page in PAGES),
    )
}
