"""Columns of the rows that `gpu_rows.py` checks or times."""

_MORE = (257, 512, 1000, 1001, 1024, 2048, 4096, 8192, 16384, 16392, 30001, 32768, 65536)
_MOST = (100000, 131072)

COLUMNS = {"f32": (4, 100, *_MORE, *_MOST), "bf16": (8, 104, *_MORE, *_MOST)}
"""By the type of their elements."""
