"""Instructions with atomic operands do what can be done in any order."""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.atomics import operation
from exogpu.ir.nodes import Apply, Assign, Block, DataParam, Param, Read
from exogpu.ir.scalars import assigned
from exogpu.ir.types import FLOATS, DataType
from exogpu.ir.walk import reads, walk
from exogpu.result.errors import Diagnostic, Span


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
        taken = assigned(stmt.value, param.dtype, types.__getitem__).dtype
        own = {types[access.name] for access in reads(stmt.value)} == {param.dtype}
        plain = own and isinstance(stmt.value, Apply) and isinstance(stmt.value.arguments[1], Read)
        if taken is not param.dtype and not plain:
            return taken
    return None
