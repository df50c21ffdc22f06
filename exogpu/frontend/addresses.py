"""Addresses of operands in memory, as fields of an instruction's text.

A field `{src}` is a pointer to the first element of a window, `{src.strides[0]}` the distance of
neighbours in its first dimension, `{src.ld}` that in the last but one.  Of a dimension whose
distance the text does not take, it can only know that nothing lies between the rows, or what its
placement says.
"""

from __future__ import annotations

import re
from dataclasses import replace
from string import Formatter

from exogpu.ir.nodes import DataParam
from exogpu.ir.types import Placement, Space
from exogpu.result.errors import Diagnostic, ExoGpuError, Span

_FIELD = re.compile(r"(\w+)(?:\.(ld)$|\.strides\[(-?\d+)\]|.*)")


def addressed(param: DataParam, template: str, span: Span) -> DataParam:
    """The parameter with a placement of all that the text takes for granted.

    Raises ExoGpuError (T221) where the text takes a distance and not one further out.
    """
    operand, memory = param.operand, param.memory
    if operand is None or param.window is not None:
        return param
    fields = [_FIELD.match(field) for _, field, _, _ in Formatter().parse(template) if field]
    own = [one for one in fields if one is not None and one[1] == param.name.name]
    if not own or memory.space not in (Space.GLOBAL, Space.SHARED, Space.GRID_CONSTANT):
        return param
    rank = len(param.shape) - len(operand.units)
    known = {rank - 2 if one[2] else int(one[3]) % rank for one in own if one[2] or one[3]}
    asked = operand.placement or Placement(adjacent=0)
    if asked.pitch:
        known.add(rank - 2)
    adjacent = rank - max(known, default=-1) - 1
    if untold := set(range(rank - adjacent)) - known:
        dim, name = min(untold), param.name.name
        raise ExoGpuError(
            [
                Diagnostic(
                    "T221",
                    f"the template takes no {{{name}.strides[{dim}]}}, but one further in",
                    span,
                    "take the distances of all dimensions but the last ones",
                )
            ]
        )
    if adjacent <= asked.adjacent:
        return param
    return replace(param, operand=replace(operand, placement=replace(asked, adjacent=adjacent)))
