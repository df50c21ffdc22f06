"""The shapes of rows that `gpu_row_variants.py` compares."""

from exogpu.kernels.row_layout import Shape
from exogpu.kernels.topk_selection import Part, TopkShape

SHAPES = (
    Shape("bf16", 4, 2),
    Shape("bf16", 2, 4, staged=True),
    Shape("bf16", 4, 4),
    Shape("bf16", 4, 4, staged=True),
    Shape("bf16", 2, 8, staged=True),
    Shape("bf16", 16, 2),
    Shape("bf16", 4, 8, staged=True),
    Shape("bf16", 2, 16, staged=True),
    Shape("bf16", 32, 2),
    Shape("bf16", 8, 8, staged=True),
    Shape("bf16", 16, 4, staged=True),
    Shape("bf16", 4, 16, staged=True),
    Shape("f32", 32, 4),
    Shape("f32", 16, 8, staged=True),
)

BLOCKS = {f"{rows}x{columns}": (rows, columns) for rows, columns in ((4, 2), (8, 2), (4, 4))}
"""The shapes of transposes: warps of a CTA, rows and columns of them."""

STENCILS = {f"{step}x{warps}": (step, warps) for step, warps in ((8, 8), (8, 16), (12, 8), (16, 8))}
"""Rows of a thread, and warps of a CTA."""

TOPK = {
    (151936, 8): tuple(TopkShape(Part("f32", loads), 8, 2) for loads in (8, 16, 32)),
    (151936, 64): tuple(TopkShape(Part("f32", n), 64, 2 + (n < 32)) for n in (8, 16, 32)),
}
"""By columns and how many of them."""
