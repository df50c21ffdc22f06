"""Columns of the rows that `gpu_rows.py` checks or times."""

COLUMNS = {
    "f32": (4, 100, 257, 512, 1000, 1001, 1024, 2048, 4096, 8192, 16384, 30001, 65536),
    "bf16": (8, 104, 257, 512, 1000, 1001, 1024, 2048, 4096, 8192, 16384, 30001, 65536),
}
"""By the type of their elements."""
