"""Instruction calls as C++ text: the template of the definition, its operands filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from exogpu.analysis.thread_names import CollectiveFacts
from exogpu.codegen.access import Accesses, Operand
from exogpu.codegen.control_text import C_TYPE, SIZE_OF, c_control
from exogpu.codegen.names import unsupported
from exogpu.codegen.scalar_text import constant
from exogpu.codegen.split_barriers import Barriers, trailing
from exogpu.codegen.storage import Storage
from exogpu.codegen.sync import emit
from exogpu.codegen.tensor_map_text import TensorMap, Transfer, transfer
from exogpu.codegen.wgmma import is_wgmma, wgmma_text
from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.ir import nodes as ir
from exogpu.ir.affine import difference
from exogpu.ir.types import DataType, QualTL, Sym
from exogpu.ir.walk import window_arguments

_STRIDE: Final = re.compile(r"\{(\w+)\.(ld|strides\[\d+\])\}")
"""A stride of an operand in a template."""

_FIELD: Final = re.compile(r"(?<!\{)\{(\w+)(\.ld|\.strides\[\d+\]|\.bytes|)\}(?!\})")
"""A parameter in a template, or a number that belongs to one."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Context for lowering instruction calls."""

    access: Accesses
    facts: CollectiveFacts
    barriers: Barriers
    maps: Mapping[TensorMap, Sym]
    helpers: list[str]
    """Names of the helper functions that the text calls, in order of first use."""


def call_text(calls: Calls, stmt: ir.CallInstr) -> list[str]:
    """The lines of a call; the helper functions that they call are added to `helpers`.

    A template's fields are the parameters and the compile-time parameters (a data type's C++ type,
    and its name as `<parameter>_name`); where a parameter is a tensor map `transfer`, and where the
    instruction signals a barrier `barrier`.
    """
    template = stmt.instr.template
    if not template or not isinstance(template, str):
        raise unsupported(
            f"{stmt.instr.name} has no emitted text yet",
            stmt.span,
            "check the kernel without compiling it, or use another instruction",
            "G804",
        )
    fields: dict[str, Operand | Transfer | str | int] = {}
    moved = transfer(stmt, calls.facts, calls.access, calls.maps)
    after: list[str] = []
    if moved is not None:
        fields["transfer"] = moved
    if stmt.trailing is not None:
        if moved is None:
            raise unsupported(
                f"{stmt.instr.name} signals {stmt.trailing.name}, which only TMA loads do",
                stmt.span,
                "arrive on it after the instruction: Arrive(Sm80_cp_async) >> ... for cp.async",
                "G804",
            )
        fields["barrier"], after = trailing(calls.barriers, stmt, moved.bytes)
    for at, (param, argument) in enumerate(zip(stmt.instr.params, stmt.arguments, strict=True)):
        name = param.name.name
        match argument:
            case ir.Access():
                assert isinstance(param, ir.DataParam)
                if param.window is None:
                    fields[name] = _operand(calls, stmt, at, param, argument)
            case ir.Const():
                assert isinstance(param, ir.DataParam), f"{name} takes a control expression"
                fields[name] = constant(argument.value, param.dtype)
            case _:
                fields[name] = c_control(argument, calls.access.control)
    for name, value in stmt.instr.constants:
        fields[name] = constant_text(value)
        if isinstance(value, DataType):
            fields[f"{name}_name"] = value.value
    _note_distances(calls, stmt, template, fields)
    text = grouped(template, stmt).format(**fields)
    note_helpers(text, calls.helpers)
    return [*_before_product(calls, stmt), *text.split("\n"), *after]


def grouped(template: str, stmt: ir.CallInstr) -> str:
    """The template with parentheses around what binds weaker than the text beside it: numbers,
    which may be sums or products, and pointers of which an element is taken."""
    pairs = zip(stmt.instr.params, stmt.arguments, strict=True)
    numbers = {p.name.name for p, argument in pairs if not isinstance(argument, ir.Access)}
    data = {p.name.name for p in stmt.instr.params} - numbers

    def parenthesise(found: re.Match[str]) -> str:
        before = template[: found.start()].rstrip()[-1:]
        after = template[found.end() :].lstrip()[:1]
        weak = False
        if found[2] or found[1] in numbers:
            weak = before in set("-*/%)~!") or after in set("*/%")
        elif found[1] in data:
            weak = after == "["
        return f"({found[0]})" if weak else found[0]

    return _FIELD.sub(parenthesise, template)


def _note_distances(
    calls: Calls,
    stmt: ir.CallInstr,
    template: str,
    fields: Mapping[str, Operand | Transfer | str | int],
) -> None:
    """Helper functions take the strides that a template tells them as `int`."""
    for name, stride in _STRIDE.findall(template):
        operand = fields[name]
        if isinstance(operand, Operand) and operand.extents:
            below = operand.extents[-2 if stride == "ld" else int(stride[8:-1])]
            calls.access.control.note_distance(below, stmt.span)


def _before_product(calls: Calls, stmt: ir.CallInstr) -> list[str]:
    """Products of one shape on an accumulator are in order, those of several take a wgmma.fence
    (PTX ISA, wgmma.fence)."""
    products = [o.access.name for o in window_arguments(stmt) if o.timeline is QualTL.WG_D]
    reshaped = any(calls.access.storage[name].reshaped for name in products)
    return emit("wgmma fence") if reshaped else []


def constant_text(value: object) -> str:
    """A compile-time parameter in a template; of an enumeration's member, its value."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(int(value) if isinstance(value, int) else float(value))
        case str():
            return str.__str__(value)
        case DataType():
            return C_TYPE[value]
        case _:
            return str(value)


def _operand(
    calls: Calls, stmt: ir.CallInstr, at: int, param: ir.DataParam, argument: ir.Access
) -> Operand:
    loops = calls.facts.operands.get((stmt, at))
    initial = param.operand.initial if param.operand is not None else None
    variable = calls.access.storage[argument.name]
    known = param.memory.swizzle == variable.swizzle  # the instruction is one of such memory
    if variable.swizzle and initial not in ASYNC_PROXY and not known:
        if _in_one_unit(param, argument, variable):
            return Operand(f"&{calls.access.element(argument)}", ("1",), C_TYPE[variable.dtype])
        raise unsupported(
            f"{stmt.instr.name} does not undo the swizzle of {argument.name}",
            stmt.span,
            "use TMA or wgmma, or CudaSmemLinear",
            "G804",
        )
    return calls.access.operand(argument, len(loops.iterators) if loops else 0)


def _in_one_unit(param: ir.DataParam, argument: ir.Access, variable: Storage) -> bool:
    """Tests whether the window is a part of 16 bytes, which swizzles move as a whole."""
    asked = param.operand.placement if param.operand is not None else None
    extents = [difference(c.hi, c.lo) for c in argument.coords if isinstance(c, ir.Interval)]
    if asked is None or 16 % asked.align or len(extents) != 1 or extents[0] is None:
        return False
    return isinstance(argument.coords[-1], ir.Interval) and (
        extents[0] * SIZE_OF[variable.dtype] <= asked.align
    )


def note_helpers(text: str, helpers: list[str]) -> None:
    """Add the helper functions that the text calls, those that they call first."""
    for name in re.findall(r"\b([A-Za-z_]\w*)(?=\s*[<(])", text):
        if name in helpers or not (name in _helper_names() or is_wgmma(name)):
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
    if is_wgmma(name):
        return wgmma_text(name)
    return (resources.files("exogpu.codegen") / "prelude" / f"{name}.cuh").read_text()


# Instructions of the stream: the bytes that their templates set and copy.


@dataclass(frozen=True, slots=True)
class Run:
    """The adjacent elements of a window."""

    window: ir.Access
    firsts: tuple[ir.CExpr, ...]
    """Indices of the first element."""
    extents: tuple[ir.CExpr, ...]
    """Their product is the number of elements."""


def argument_of(stmt: ir.CallInstr, parameter: str) -> ir.Access:
    """The window that a call gives a data parameter."""
    for param, argument in zip(stmt.instr.params, stmt.arguments, strict=True):
        if isinstance(param, ir.DataParam) and param.name.name == parameter:
            assert isinstance(argument, ir.Access)
            return argument
    raise AssertionError(f"{stmt.instr.name} has no data parameter {parameter}")


def run_of(variable: Storage, window: ir.Access, stmt: ir.CallInstr) -> Run:
    """Returns the begin and length of a window.

    Raises ExoGpuError (G806) where its elements are not adjacent: one call of the stream moves
    one block of bytes.
    """
    extents: list[ir.CExpr] = []
    firsts: list[ir.CExpr] = []
    whole = True
    for coord, extent in reversed(list(zip(window.coords, variable.shape, strict=True))):
        if not isinstance(coord, ir.Interval):
            firsts.insert(0, coord.at)
            whole = False
            continue
        if not whole:
            raise unsupported(
                f"{stmt.instr.name} takes adjacent elements, and this window of {window.name} has "
                "gaps between its own",
                stmt.span,
                "let all dimensions of the window after its first be whole",
                "G806",
            )
        whole = coord.lo == ir.Int(0) and coord.hi == extent
        firsts.insert(0, coord.lo)
        extents.append(coord.hi if coord.lo == ir.Int(0) else ir.Sub(coord.hi, coord.lo))
    return Run(window, tuple(firsts), tuple(extents))
