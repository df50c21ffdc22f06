"""Columns of the rows that `gpu_rows.py` checks or times."""

_MORE = (257, 512, 1000, 1001, 1024, 2048, 4096, 8192, 16384, 16392, 30001, 32768, 65536)
_MOST = (100000, 131072)

COLUMNS = {"f32": (4, 100, *_MORE, *_MOST), "bf16": (8, 104, *_MORE, *_MOST)}
"""By the type of their elements."""

TOPK = (
    *((1, 1), (37, 8), (64, 2), (64, 8), (64, 64), (100, 8), (128, 8), (256, 8), (384, 8)),
    *((1000, 50), (1024, 8), (4096, 50), (4104, 128), (30001, 50), (32768, 50), (50257, 50)),
    *((128256, 50), (151936, 1), (151936, 8), (300000, 64)),
)
"""Columns, and how many of them: of `topk` that is checked."""

TOPK_TIMED = (
    *((1 << 20, 64, 2), (1 << 20, 64, 8), (1 << 19, 128, 8), (1 << 18, 256, 8), (1 << 16, 1024, 8)),
    *((64, 32768, 50), (8, 128256, 50), (64, 128256, 50), (512, 128256, 50)),
    *((64, 151936, 1), (64, 151936, 8)),
)
"""Rows, columns and k of what is timed: experts of a token, and the likeliest of a vocabulary.

Columns and k are among those that are checked.
"""
