"""An instruction's contract in Markdown: what it does, who executes it, what operands it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from exogpu.hw.accesses import CALLED
from exogpu.hw.timelines import SHORT_NAME
from exogpu.ir import print_expressions
from exogpu.ir.nodes import BExpr, DataParam, Instr
from exogpu.ir.show import show
from exogpu.ir.types import AccessMode, Operand

_MODES: Final[Mapping[AccessMode, str]] = {
    AccessMode.READ: "read",
    AccessMode.WRITE: "written",
    AccessMode.READ_WRITE: "read and written",
}


def contract(instr: Instr) -> str:
    """The contract of an instruction with its compile-time parameters."""
    names = ", ".join(param.name.name for param in instr.params)
    constants = ", ".join(f"{name}={_constant(value)}" for name, value in instr.constants)
    lines = [f"**{instr.name}**({names})" + (f" with {constants}" if constants else ""), ""]
    doc = instr.doc.strip().splitlines()
    lines += [*doc[:1], ""] if doc else []
    lines.append(f"- unit: `{instr.unit.name}`" if instr.cuda else "- at CPU scope")
    lines += _operands(instr)
    lines += [f"- requires `{_condition(one)}`" for one in instr.preconditions]
    if instr.trailing is not None:
        must = "must" if instr.trailing_required else "may"
        lines.append(f"- {must} signal a `{instr.trailing.value}` (`>> z[...]`)")
    if instr.arch:
        lines.append(f"- `{instr.arch}` alone")
    return "\n".join(lines)


def _condition(condition: BExpr) -> str:
    return print_expressions.condition(condition, lambda name: name.name)


def _constant(value: object) -> str:
    return str(getattr(value, "value", value))


def _operands(instr: Instr) -> Iterator[str]:
    modes = iter(instr.modes)
    for param in instr.params:
        if isinstance(param, DataParam):
            mode = _MODES[next(modes)]
            shape = ", ".join(map(show, param.shape))
            kind = f"{param.dtype.value}[{shape}]" if shape else param.dtype.value
            facts = [f"`{param.name}: {kind} @ {param.memory.name}`", mode]
            facts += [] if param.operand is None else _ordering(param.operand)
            yield f"- {', '.join(facts)}"


def _ordering(operand: Operand) -> Iterator[str]:
    initial = operand.initial
    yield f"as {CALLED[initial].title} ({SHORT_NAME[initial]})"
    if operand.out_of_order:
        yield "in no order with others of its kind"
    place = operand.placement
    if place is not None and place.align > 1:
        yield f"at a multiple of {place.align} bytes"
    if operand.clipped:
        yield "clipped at the tensor's end"
