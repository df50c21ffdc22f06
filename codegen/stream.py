"""Instructions of the stream: the bytes that their templates set and copy."""

from __future__ import annotations

from dataclasses import dataclass

from exogpu.codegen.errors import unsupported
from exogpu.codegen.storage import Storage
from exogpu.ir.nodes import Access, CallInstr, CExpr, DataParam, Int, Interval, Sub


@dataclass(frozen=True, slots=True)
class Run:
    """The adjacent elements of a window."""

    window: Access
    firsts: tuple[CExpr, ...]
    """Indices of the first element."""
    extents: tuple[CExpr, ...]
    """Their product is the number of elements."""


def argument_of(stmt: CallInstr, parameter: str) -> Access:
    """The window that a call gives a data parameter."""
    for param, argument in zip(stmt.instr.params, stmt.arguments, strict=True):
        if isinstance(param, DataParam) and param.name.name == parameter:
            assert isinstance(argument, Access)
            return argument
    raise AssertionError(f"{stmt.instr.name} has no data parameter {parameter}")


def run_of(variable: Storage, window: Access, stmt: CallInstr) -> Run:
    """Returns the begin and length of a window.

    Raises ExoGpuError (G806) where its elements are not adjacent: one call of the stream moves
    one block of bytes.
    """
    extents: list[CExpr] = []
    firsts: list[CExpr] = []
    whole = True
    for coord, extent in reversed(list(zip(window.coords, variable.shape, strict=True))):
        if not isinstance(coord, Interval):
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
        whole = coord.lo == Int(0) and coord.hi == extent
        firsts.insert(0, coord.lo)
        extents.append(coord.hi if coord.lo == Int(0) else Sub(coord.hi, coord.lo))
    return Run(window, tuple(firsts), tuple(extents))
