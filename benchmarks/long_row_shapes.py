"""Shapes of long rows that `gpu_long_rows.py` compares, of each type and number of columns."""

from exogpu.kernels.row_layout import LongShape

CHOICES = ((16, 32, 2), (8, 32, 4), (32, 32, 1), (16, 16, 3))
"""(warps, elements of a thread, CTAs of a multiprocessor)"""

COLUMNS = (65536, 131072)


def shapes(kind: str, columns: int) -> list[LongShape]:
    """Returns the shapes that take rows of so many columns, with no CTA too many."""
    found = []
    for warps, elements, blocks in CHOICES:
        ctas = max(2, columns // (32 * warps * elements))
        if ctas <= 8:
            found.append(LongShape(kind, ctas, warps, elements, blocks))
    return found
