"""Derivation of collective tilings (paper, section 4): loops, warp ranges, and unit-scopes.

Once `exogpu.analysis.common_dimensions` has scope and unit over common dimensions, their boxes
compare dimension by dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from exogpu.analysis import common_dimensions
from exogpu.analysis.common_dimensions import Cell, TilingError, evaluate_unit, show_box
from exogpu.analysis.tiling import DimOp, ThreadRange, Tiling
from exogpu.ir.nodes import CExpr, CVar, Int, Sub, WarpConfig
from exogpu.ir.types import CollUnit, Sym


class ScopeFit(Enum):
    """The result of comparing a scope with a collective unit."""

    EXACT = "is the unit"
    UNIT_LARGER = "has less than the unit in some dimension"
    UNIT_SMALLER = "has more than the unit"
    MISALIGNED = "does not start where the unit may start"
    INCOMPATIBLE = "cannot be compared with the unit"


def derive(
    tiling: Tiling, unit: CollUnit, iterator: Sym, lo: int, count: int
) -> Tiling | TilingError:
    """The tiling of the body of `for iterator in cuda_threads(lo, lo + count, unit=unit)`.

    Iteration y is executed by tile `y - lo` of what the parent has; threads left over idle.
    """
    cells = common_dimensions.align(tiling, unit)
    if isinstance(cells, TilingError):
        return cells
    differing = [m for m, cell in enumerate(cells) if _differs(cell)]
    ranges = (*tiling.ranges, ThreadRange(iterator, lo, count))
    if len(differing) > 1:
        first, second = (_dimension(tiling, cells[m]) for m in differing[:2])
        return TilingError(
            "C401",
            f"unit {unit.name} is ambiguous here: it divides {first} and also {second}; "
            + _compared(cells),
            "divide one dimension at a time: first a loop over CTAs or larger groups, "
            "then one over smaller groups inside it",
        )
    if not differing:
        capacity = 0 if any(_lacks(tiling, cell) for cell in cells) else 1
        if count > capacity:
            return _not_enough(unit, capacity, count, cells)
        return replace(tiling, ranges=ranges)
    (m,) = differing
    cell = cells[m]
    assert cell.unit is not None
    capacity = cell.dim.box // cell.unit
    if count > capacity:
        return _not_enough(unit, capacity, count, cells)
    number: CExpr = CVar(iterator) if lo == 0 else Sub(CVar(iterator), Int(lo))
    op = DimOp(iterator, number, 0, cell.unit, count, cell.unit)
    dims = tuple(replace(c.dim, ops=(*c.dim.ops, op)) if c is cell else c.dim for c in cells)
    return replace(tiling, dims=dims, ranges=ranges)


def derive_warps(
    tiling: Tiling, warps: Sequence[WarpConfig], group: str | None, lo: int, hi: int
) -> Tiling | TilingError:
    """The tiling of the body of `with CudaWarps(lo, hi, name=group)`.

    Warps are counted from the group's first, in nested blocks too.
    """
    last = tiling.dims[-1]
    if last.extent != tiling.block_dim or any(op.iterator is not None for op in last.ops):
        return TilingError(
            "C404",
            "CudaWarps stands under a cuda_threads loop that already divided the CTA",
            "put CudaWarps outside of that loop",
        )
    chosen = _group(tiling, warps, group)
    if isinstance(chosen, TilingError):
        return chosen
    names = [g.name for g in warps]
    before = sum(g.count for g in warps[: names.index(chosen.name)])
    start = sum(op.offset for op in last.ops)
    nested = tiling.group is not None
    first = start // 32 - before if nested else 0
    end = first + (last.box // 32 if nested else chosen.count)
    if not first <= lo < hi <= end:
        whose = _group_name(chosen.name)
        here = f"the enclosing CudaWarps has warps {first} to {end - 1} of {whose}"
        return TilingError(
            "C407",
            f"CudaWarps({lo}, {hi}) is out of range: "
            + (here if nested else f"{whose} has {end} warp(s)"),
            f"choose {first} <= lo < hi <= {end}",
        )
    width = 32 * (hi - lo)
    op = DimOp(None, Int(0), 32 * (before + lo) - start, width, 1, width)
    dims = (*tiling.dims[:-1], replace(last, ops=(*last.ops, op)))
    return replace(tiling, dims=dims, group=chosen.name)


def is_unit_scope(tiling: Tiling, unit: CollUnit) -> bool:
    """Tests whether every instance of the scope is executed by exactly one aligned `unit`."""
    return scope_fit(tiling, unit) is ScopeFit.EXACT


def scope_fit(tiling: Tiling, unit: CollUnit) -> ScopeFit:
    """Compares the scope's threads with the unit, box by box, alignment included."""
    cells = common_dimensions.align(tiling, unit)
    if isinstance(cells, TilingError):
        return ScopeFit.INCOMPATIBLE
    if any(cell.unit is not None and cell.unit > cell.dim.box for cell in cells):
        return ScopeFit.UNIT_LARGER
    if any(cell.unit is not None and cell.unit < cell.dim.box for cell in cells):
        return ScopeFit.UNIT_SMALLER
    return ScopeFit.EXACT if all(map(_aligned, cells)) else ScopeFit.MISALIGNED


def unit_threads(tiling: Tiling, unit: CollUnit) -> int | None:
    """Threads of one `unit` in this launch; None if it has none fixed or does not fit."""
    evaluated = evaluate_unit(tiling, unit)
    if isinstance(evaluated, TilingError):
        return None
    sizes = [n for n in evaluated[1] if n is not None]
    return math.prod(sizes) if len(sizes) == len(evaluated[1]) else None


# --- steps 3 and 4: the one dimension that differs ------------------------------------------


def _differs(cell: Cell) -> bool:
    """Tests whether the unit divides this dimension of the parent; agnostic and full entries do
    not."""
    return cell.unit is not None and cell.unit not in (cell.dim.box, cell.dim.extent)


def _lacks(tiling: Tiling, cell: Cell) -> bool:
    """Tests whether the parent has less of this dimension than the unit.

    Whole CTAs do not ask for all their threads: a loop over CTAs keeps the warps that a
    surrounding CudaWarps chose.
    """
    inside = cell.whole_ctas and cell.pitch < tiling.block_dim
    return cell.unit is not None and cell.unit > cell.dim.box and not inside


def _not_enough(unit: CollUnit, capacity: int, count: int, cells: Sequence[Cell]) -> TilingError:
    return TilingError(
        "C402",
        f"not enough threads for {count} iterations: the scope has at most {capacity} tile(s) "
        f"of {unit.name}; {_compared(cells)}",
        f"iterate at most {capacity} times, launch more threads, or take a smaller unit",
    )


def _compared(cells: Sequence[Cell]) -> str:
    domain = tuple(cell.dim.extent for cell in cells)
    scope = tuple(cell.dim.box for cell in cells)
    return f"over {domain} the scope is {scope} and the unit {show_box([c.unit for c in cells])}"


def _dimension(tiling: Tiling, cell: Cell) -> str:
    if cell.pitch >= tiling.block_dim:
        step = cell.pitch // tiling.block_dim
        return "the CTAs" if step == 1 else f"the CTAs {step} apart"
    return "the threads" if cell.pitch == 1 else f"the threads {cell.pitch} apart"


# --- alignment and warp groups --------------------------------------------------------------


def _aligned(cell: Cell) -> bool:
    """Tests whether the positions start at the multiples that the hardware asks of the unit.

    A warpgroup starts at a multiple of 128 threads, a warp of 32, and a power of two of
    threads inside a warp at a multiple of itself.
    """
    if cell.unit is None:
        return True
    span = cell.unit * cell.pitch
    step = next((n for n in (128, 32) if span % n == 0), span if 32 % span == 0 else 1)
    align = max(1, step // cell.pitch)
    start = sum(op.offset for op in cell.dim.ops)
    return start % align == 0 and all(op.pitch % align == 0 for op in cell.dim.ops if op.count > 1)


def _group(
    tiling: Tiling, warps: Sequence[WarpConfig], name: str | None
) -> WarpConfig | TilingError:
    names = {group.name: group for group in warps}
    if tiling.group is not None:
        if name is not None and name != tiling.group:
            return TilingError(
                "C405",
                f'a nested CudaWarps may not change the name: it stands in "{tiling.group}" '
                f'and asks for "{name}"',
                "close the enclosing CudaWarps first",
            )
        return names[tiling.group]
    known = ", ".join(f'"{group.name}"' for group in warps)
    if name is None:
        if len(warps) == 1:
            return warps[0]
        return TilingError(
            "S314", "CudaWarps needs a name here: the launch has several warp groups", known
        )
    if name not in names:
        return TilingError(
            "S314",
            f'the launch has no warp group "{name}"',
            f"name one of {known}" if known != '""' else "leave the name out",
        )
    return names[name]


def _group_name(name: str) -> str:
    return f'warp group "{name}"' if name else "the CTA"
