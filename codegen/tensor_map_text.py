"""Tensor maps: kernel parameters, and the operands of TMA instructions as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exogpu.analysis.thread_names import CollectiveFacts
from exogpu.analysis.threadmap import ThreadAxis
from exogpu.analysis.tiling import cluster_axes
from exogpu.codegen.access import Accesses, Operand
from exogpu.codegen.control_text import SIZE_OF, c_atom, c_control, plus, simplify, times
from exogpu.codegen.names import CTA, unsupported
from exogpu.ir import nodes as ir
from exogpu.ir.affine import difference
from exogpu.ir.types import Sym
from exogpu.ir.walk import walk


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor, the box and the swizzle (bytes) that it is copied in, and whether it is rounded."""

    tensor: Sym
    box: tuple[int, ...]
    swizzle: int
    tf32: bool


@dataclass(frozen=True, slots=True)
class Transfer:
    """The data that a TMA instruction moves, as text; templates use its fields."""

    shared: str
    """Pointer to the box in this CTA's shared memory."""
    tensor: str
    coordinates: str
    """The coordinates of the box, the innermost dimension first."""
    ctas: str
    """Mask of the CTAs that receive it."""
    bytes: int
    """The bytes that land in this CTA's shared memory by all boxes of the call."""


def mapped(call: ir.CallInstr) -> tuple[TensorMap, ir.Access, int] | None:
    """The tensor map that a call goes through, its window, and the shared operand's position."""
    pairs = list(enumerate(zip(call.instr.params, call.arguments, strict=True)))
    for at, (param, argument) in pairs:
        if isinstance(param, ir.DataParam) and param.window is not None:
            assert isinstance(argument, ir.Access)
            (other,) = [i for i, (p, _) in pairs if isinstance(p, ir.DataParam) and i != at]
            window = param.window
            found = TensorMap(argument.name, window.box, window.swizzle, window.tf32)
            return found, argument, other
    return None


def tensor_maps(launch: ir.DeviceFunction) -> Mapping[TensorMap, Sym]:
    """The tensor maps of a launch, each a parameter of its kernel."""
    found: dict[TensorMap, Sym] = {}
    for stmt in walk(launch.body):
        if isinstance(stmt, ir.CallInstr) and (used := mapped(stmt)) is not None:
            found.setdefault(used[0], Sym(f"{used[0].tensor.name}_map"))
    return found


def transfer(
    stmt: ir.CallInstr,
    facts: CollectiveFacts,
    access: Accesses,
    maps: Mapping[TensorMap, Sym],
) -> Transfer | None:
    """The transfer of a call, if it has a tensor map.

    Each CTA that executes the call moves one box of the window.  Raises ExoGpuError where the
    window is not made of so many boxes.
    """
    used = mapped(stmt)
    if used is None:
        return None
    tensor_map, window, other = used
    box = tensor_map.box
    extents, firsts = _window(stmt, window)
    tiling = facts.scope[stmt]
    assert tiling is not None
    axes = [a for a in cluster_axes(tiling) if a.extent > 1]
    d = _divided_dimension(stmt, window, extents, box, axes)
    shared_argument = stmt.arguments[other]
    assert isinstance(shared_argument, ir.Access)
    loops = facts.operands.get((stmt, other))
    shared = access.operand(shared_argument, len(loops.iterators) if loops else 0)
    _check_rows(stmt, shared, extents)
    mask, to = "1", shared.text
    coordinates = [c_control(first, access.control) for first in firsts]
    if axes:
        (axis,) = axes
        base = _first_cta(cluster_axes(tiling), access)
        index = _index(axis, base, access)
        access.control.note(plus(firsts[d], ir.Int(box[d] * (axis.extent - 1))))
        coordinates[d] += f" + {box[d]} * {index}"
        to += f" + {math.prod(box)} * {index}"
        mask = hex(sum(1 << axis.pitch * j for j in range(axis.extent)))
        if base != ir.Int(0):
            mask += f" << {c_atom(base, access.control)}"
    item = SIZE_OF[access.storage[window.name].dtype]
    return Transfer(
        to,
        access.names(maps[tensor_map]),
        "{" + ", ".join(reversed(coordinates)) + "}",
        mask,
        math.prod(extents) * item,
    )


def _divided_dimension(
    stmt: ir.CallInstr,
    window: ir.Access,
    extents: Sequence[int],
    box: Sequence[int],
    axes: Sequence[ThreadAxis],
) -> int:
    """The dimension of a window in which the CTAs along the axes have a box each; any, of one CTA.

    Raises ExoGpuError where the window is not made of so many boxes.
    """
    if len(box) != len(extents):
        raise unsupported(
            f"a box of {len(box)} dimensions for {window.name}, which has {len(extents)}",
            stmt.span,
            "give the box as many dimensions as the variable, 1 where the window has a point",
        )
    ctas = math.prod(a.extent for a in axes)
    counts = [e // b for e, b in zip(extents, box, strict=True)]
    cut = [d for d, c in enumerate(counts) if c > 1]
    whole = all(c * b == e for c, b, e in zip(counts, box, extents, strict=True))
    if whole and len(axes) <= 1 and math.prod(counts) == ctas and len(cut) <= 1:
        return cut[0] if cut else 0
    if ctas == 1:
        raise unsupported(
            f"a copy moves one box, and the window of {extents} is not one of {list(box)}",
            stmt.span,
            "let the box be the window, or copy it in several calls",
        )
    raise unsupported(
        f"a window of {extents} in boxes of {list(box)} is not one box for each of {ctas} CTAs, "
        "adjacent in one dimension",
        stmt.span,
        "let the box be the tile, divided in one dimension by the CTAs of the multicast",
    )


def _first_cta(axes: Sequence[ThreadAxis], access: Accesses) -> ir.CExpr:
    """The rank of the first CTA that executes the call."""
    base: ir.CExpr = ir.Int(0)
    for axis in axes:
        base = plus(base, times(axis.pitch, axis.offset))
    return simplify(base, access.control.constants)


def _index(axis: ThreadAxis, base: ir.CExpr, access: Accesses) -> str:
    """The number of this CTA among those that execute the call."""
    cta = access.names(CTA)
    if base != ir.Int(0):
        cta = f"({cta} - {c_atom(base, access.control)})"
    return cta if axis.pitch == 1 else f"({cta} / {axis.pitch})"


def _window(stmt: ir.CallInstr, window: ir.Access) -> tuple[list[int], list[ir.CExpr]]:
    extents: list[int] = []
    firsts: list[ir.CExpr] = []
    for coord in window.coords:
        if isinstance(coord, ir.Point):
            extents.append(1)
            firsts.append(coord.at)
            continue
        extent = difference(coord.hi, coord.lo)
        if extent is None:
            raise unsupported(
                f"the window of {window.name} has no constant extent", stmt.span, "use a constant"
            )
        extents.append(extent)
        firsts.append(coord.lo)
    return extents, firsts


def _check_rows(stmt: ir.CallInstr, shared: Operand, extents: list[int]) -> None:
    """TMA writes boxes by rows without gaps."""
    inner = [e for e in extents if e > 1][1:]
    expected = [str(math.prod(inner[d:])) for d in range(len(inner))]
    if inner and list(shared.strides[-len(inner) - 1 :])[:-1] != expected:
        raise unsupported(
            "the tile is not contiguous in shared memory",
            stmt.span,
            "let its dimensions be the last ones, and whole",
        )
