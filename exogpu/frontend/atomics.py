"""Instructions with atomic operands do what can be done in any order."""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.atomics import operation
from exogpu.ir.nodes import Block, DataParam, Param
from exogpu.result.errors import Diagnostic, Span


def check_atomic(
    name: str, params: tuple[Param, ...], body: Block, span: Span
) -> Iterator[Diagnostic]:
    """The atomic operands that a body changes otherwise than by one operation (T255)."""
    for param in params:
        if not isinstance(param, DataParam) or param.operand is None or not param.operand.atomic:
            continue
        if operation(body, param.name) is None:
            yield Diagnostic(
                "T255",
                f"{param.name} is an atomic operand of {name}, whose body neither adds to it "
                "alone nor takes a maximum or minimum alone",
                span,
                f"write {param.name}[...] += e, or {param.name}[...] = max({param.name}[...], e), "
                "where e reads something else",
            )
