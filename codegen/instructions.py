"""Instruction calls as C++ text: the template of the definition, its operands filled in."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from exogpu.analysis.facts import CollectiveFacts
from exogpu.codegen.access import Accesses, Operand
from exogpu.codegen.errors import unsupported
from exogpu.codegen.expressions import C_TYPE, c_constant, c_control
from exogpu.ir.nodes import Access, CallInstr, Const, DataParam
from exogpu.ir.types import DataType


def call_text(
    access: Accesses, facts: CollectiveFacts, stmt: CallInstr, helpers: list[str]
) -> list[str]:
    """The lines of a call; the helper functions that they call are added to `helpers`."""
    if not stmt.instr.template:
        raise unsupported(
            f"{stmt.instr.name} has no emitted text yet",
            stmt.span,
            "check the kernel without compiling it, or use another instruction",
            "G804",
        )
    fields: dict[str, Operand | str | int] = {}
    for at, (param, argument) in enumerate(zip(stmt.instr.params, stmt.arguments, strict=True)):
        name = param.name.name
        match argument:
            case Access():
                loops = facts.operands.get((stmt, at))
                fields[name] = access.operand(argument, len(loops.iterators) if loops else 0)
            case Const():
                assert isinstance(param, DataParam), f"{name} takes a control expression"
                fields[name] = c_constant(argument.value, param.dtype)
            case _:
                fields[name] = c_control(argument, access.control)
    for name, value in stmt.instr.constants:
        fields[name] = C_TYPE[value] if isinstance(value, DataType) else str(value)
    text = stmt.instr.template.format(**fields)
    note_helpers(text, helpers)
    return text.split("\n")


def note_helpers(text: str, helpers: list[str]) -> None:
    """Add the helper functions that the text calls, those that they call first."""
    for name in re.findall(r"\b([A-Za-z_]\w*)(?=\s*[<(])", text):
        if name in helpers or name not in _helper_names():
            continue
        note_helpers(helper_text(name).replace(name, ""), helpers)
        helpers.append(name)


@cache
def _helper_names() -> frozenset[str]:
    folder = resources.files("exogpu.codegen") / "prelude"
    return frozenset(f.name.removesuffix(".cuh") for f in folder.iterdir())


@cache
def helper_text(name: str) -> str:
    """The definition of a helper function."""
    return (resources.files("exogpu.codegen") / "prelude" / f"{name}.cuh").read_text()
