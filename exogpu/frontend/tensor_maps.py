"""Checks the boxes that TMA copies (CUDA driver API, cuTensorMapEncodeTiled)."""

from __future__ import annotations

from typing import Final

from exogpu.ir.types import DataType, SpecialWindow

MAX_EXTENT: Final = 256
"""Elements of a box along one dimension."""

ROW_BYTES: Final = 16
"""The bytes of a box's innermost dimension are a multiple of this."""


def box_problem(special: SpecialWindow, dtype: DataType) -> tuple[str, str] | None:
    """Returns the fault of a tensor map's box, and the remedy; None if TMA copies it."""
    for dimension, extent in enumerate(special.box):
        if not 1 <= extent <= MAX_EXTENT:
            return (
                f"the box has {extent} elements in dimension {dimension}, and TMA copies "
                f"1 to {MAX_EXTENT}",
                "make the box smaller, and copy the tile with several instructions",
            )
    if special.tf32 and dtype is not DataType.F32:
        return (
            f"{special.name} rounds f32 to tf32, and the elements are {dtype.value}",
            "use Sm90_tensorMap, which copies them as they are",
        )
    inner = special.box[-1]
    row = inner * dtype.bytes
    if row % ROW_BYTES:
        return (
            f"rows of {inner} {dtype.value} are {row} bytes, not a multiple of {ROW_BYTES}",
            f"give the last dimension of the box a multiple of {ROW_BYTES // dtype.bytes} elements",
        )
    if special.swizzle and row > special.swizzle:
        return (
            f"rows of {inner} {dtype.value} are {row} bytes, more than the swizzle's "
            f"{special.swizzle}",
            f"give the last dimension of the box at most {special.swizzle // dtype.bytes} "
            "elements, or use a wider swizzle",
        )
    return None
