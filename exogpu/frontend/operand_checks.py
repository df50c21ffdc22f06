"""Instructions with atomic operands do what can be done in any order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from exogpu.diagnostics.errors import Diagnostic, Span
from exogpu.ir.nodes import Apply, Assign, Block, DataParam, Param, Read
from exogpu.ir.scalars import assigned_scalar
from exogpu.ir.types import FLOATS, DataType, SpecialWindow
from exogpu.ir.walk import operation, reads, walk


def check_atomic(
    name: str, params: tuple[Param, ...], body: Block, span: Span
) -> Iterator[Diagnostic]:
    """The atomic operands that a body changes otherwise than by one operation (T255)."""
    for param in params:
        if not isinstance(param, DataParam) or param.operand is None or not param.operand.atomic:
            continue
        found = operation(body, param.name)
        if found in ("max", "min") and (wider := _wider(body, param, params)) is not None:
            yield Diagnostic(
                "T255",
                f"{param.name} is an atomic operand of {name}, and its {found} is taken in "
                f"{wider.value} and then narrowed to {param.dtype.value}: another order has "
                "another result",
                span,
                f"let the other operand be {param.dtype.value} as well",
            )
        if found is None:
            yield Diagnostic(
                "T255",
                f"{param.name} is an atomic operand of {name}, whose body neither adds to it "
                "alone nor takes a maximum or minimum alone",
                span,
                f"write {param.name}[...] += e, or {param.name}[...] = max({param.name}[...], e), "
                "where e reads something else",
            )


def _wider(body: Block, param: DataParam, params: tuple[Param, ...]) -> DataType | None:
    """The type in which a maximum of an integer is taken, if it has values that the integer's type
    has not: to narrow them keeps no order, as to round floats does."""
    if param.dtype in FLOATS:
        return None
    types = {p.name: p.dtype for p in params if isinstance(p, DataParam)}
    for stmt in walk(body):
        if not isinstance(stmt, Assign) or stmt.target.name != param.name:
            continue
        taken = assigned_scalar(stmt.value, param.dtype, types.__getitem__).dtype
        own = {types[access.name] for access in reads(stmt.value)} == {param.dtype}
        plain = own and isinstance(stmt.value, Apply) and isinstance(stmt.value.arguments[1], Read)
        if taken is not param.dtype and not plain:
            return taken
    return None


# Checks the boxes that TMA copies (CUDA driver API, cuTensorMapEncodeTiled).

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
