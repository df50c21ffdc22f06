"""The emitted text of an instruction: its fields, and what they say of the operands.

A field `{src}` is a pointer to the first element of a window, `{src.strides[0]}` the distance of
neighbours in its first dimension, `{src.ld}` that in the last but one.  Of a dimension whose
distance the text does not take, it can only know that nothing lies between the rows, or what its
placement says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from string import Formatter
from typing import Final, TypeAlias

from exogpu.diagnostics.errors import Diagnostic, ExoGpuError, Span
from exogpu.ir import nodes as ir
from exogpu.ir import types

Template: TypeAlias = str | types.Memset | types.Memcpy

_FIELD: Final = re.compile(r"(\w+)(?:\.(ld)$|\.strides\[(-?\d+)\]|.*)")

_PART: Final = re.compile(r"\.(?:(ld)|strides\[(-?\d+)\]|(bytes|scale|dtype))")
"""A part of a window that a field takes."""


def check_template(
    name: str,
    template: Template,
    cuda: bool,
    params: Sequence[ir.Param],
    values: Mapping[str, object],
) -> tuple[str, str] | None:
    """The message and remedy of a template that no call can fill (T221); None if all can."""
    data = {p.name.name for p in params if isinstance(p, ir.DataParam)}
    taken = _stream_call(template)
    if taken and cuda:
        what = f"{name} is called at CUDA scope, and its template is one of the stream"
        return what, "give cuda=False in the decorator, or a text"
    if odd := set(taken) - data:
        what = f"the template of {name} takes {sorted(odd)}, no data of it"
        return what, "name data parameters in the template"
    if isinstance(template, types.Memset) and not 0 <= template.byte < 256:
        return f"the template of {name} sets bytes to {template.byte}", "give a byte, 0 to 255"
    if not isinstance(template, str):
        return None
    own = {p.name.name: p for p in params}
    known: dict[str, ir.Param | None] = {**own, **dict.fromkeys(values)}
    known |= dict.fromkeys(f"{n}_name" for n, v in values.items() if isinstance(v, types.DataType))
    known |= dict.fromkeys(("transfer", "barrier"))
    try:
        fields = list(_fields(template))
    except ValueError as error:
        what = f"the template of {name} is no format: {error}"
        return what, "write {{ and }} for braces of the text"
    for root, part in fields:
        if root not in known:
            fields_are = ", ".join(f"{{{one}}}" for one in (*own, *values))
            remedy = f"its fields are {fields_are}; write {{{{ and }}}} for braces of the text"
            return f"the template of {name} has the field {{{root}{part}}}", remedy
        if root not in ("transfer", "barrier") and not _has(known[root], part):
            what = f"the template of {name} takes {{{root}{part}}}, which {root} has not"
            return what, "take {x}, {x.ld}, {x.strides[0]} or, at CPU scope, {x.bytes} of a window"
    return None


def _fields(template: str) -> Iterator[tuple[str, str]]:
    """Yields the names of the fields, and what they take of it.  Raises ValueError."""
    for _, field, spec, conversion in Formatter().parse(template):
        if field is None:
            continue
        found = re.match(r"\w*", field)
        root = found[0] if found else ""
        yield root, field[len(root) :] + (f"!{conversion}" if conversion else "") + (spec or "")


def _has(param: ir.Param | None, part: str) -> bool:
    """Tests whether a parameter has what a field takes of it."""
    if not part:
        return True
    found = _PART.fullmatch(part)
    if found is None or not isinstance(param, ir.DataParam):
        return False
    units = 0 if param.operand is None else len(param.operand.units)
    rank = len(param.shape) - units
    if found[1]:
        return rank >= 2
    return bool(found[3]) or -rank <= int(found[2]) < rank


def _stream_call(template: Template) -> tuple[str, ...]:
    """The parameters that a call of the stream takes."""
    match template:
        case types.Memset():
            return (template.target,)
        case types.Memcpy():
            return (template.to, template.of)
        case _:
            return ()


def addressed(param: ir.DataParam, template: str, span: Span) -> ir.DataParam:
    """The parameter with a placement of all that the text takes for granted.

    Raises ExoGpuError (T221) where the text takes a distance and not one further out.
    """
    operand, memory = param.operand, param.memory
    if operand is None or param.window is not None:
        return param
    fields = [_FIELD.match(field) for _, field, _, _ in Formatter().parse(template) if field]
    own = [one for one in fields if one is not None and one[1] == param.name.name]
    if not own or memory.space not in (
        types.Space.GLOBAL,
        types.Space.SHARED,
        types.Space.GRID_CONSTANT,
    ):
        return param
    rank = len(param.shape) - len(operand.units)
    known = {rank - 2 if one[2] else int(one[3]) % rank for one in own if one[2] or one[3]}
    asked = operand.placement or types.Placement(adjacent=0)
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
