"""Derivation of collective tilings (paper, section 4): loops, warp ranges, and unit-scopes.

The unit's domain is completed to the cluster and both sides are split until their thread
pitches agree; then boxes compare dimension by dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from exogpu.analysis.tiling import Dimension, DimOp, ThreadRange, Tiling
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Add, CExpr, CVar, FloorDiv, Int, Mod, Sub, WarpConfig
from exogpu.ir.types import CollUnit, Extent


@dataclass(frozen=True, slots=True)
class TilingError:
    """Why no tiling can be derived: a diagnostic without its place."""

    code: str
    message: str
    help: str


class ScopeFit(Enum):
    """How a scope compares with a collective unit."""

    EXACT = "is the unit"
    UNIT_LARGER = "has less than the unit in some dimension"
    UNIT_SMALLER = "has more than the unit"
    MISALIGNED = "does not start where the unit may start"
    INCOMPATIBLE = "cannot be compared with the unit"


@dataclass(frozen=True, slots=True)
class _Cell:
    """One dimension after alignment; `unit` None is agnostic."""

    pitch: int
    dim: Dimension
    unit: int | None
    whole_ctas: bool
    """Whether the figure gives this entry of the unit's box in whole CTAs."""


def derive(
    tiling: Tiling, unit: CollUnit, iterator: Sym, lo: int, count: int
) -> Tiling | TilingError:
    """The tiling of the body of `for iterator in cuda_threads(lo, lo + count, unit=unit)`.

    Iteration y is executed by tile `y - lo` of what the parent has; threads left over idle.
    """
    cells = _align(tiling, unit)
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
    dims = tuple(
        replace(c.dim, ops=(*c.dim.ops, op)) if c is cell else c.dim for c in cells
    )
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
    """Whether every instance of the scope is executed by exactly one aligned `unit`."""
    return scope_fit(tiling, unit) is ScopeFit.EXACT


def scope_fit(tiling: Tiling, unit: CollUnit) -> ScopeFit:
    """How the scope's threads compare with the unit, box by box, alignment included."""
    cells = _align(tiling, unit)
    if isinstance(cells, TilingError):
        return ScopeFit.INCOMPATIBLE
    if any(cell.unit is not None and cell.unit > cell.dim.box for cell in cells):
        return ScopeFit.UNIT_LARGER
    if any(cell.unit is not None and cell.unit < cell.dim.box for cell in cells):
        return ScopeFit.UNIT_SMALLER
    return ScopeFit.EXACT if all(map(_aligned, cells)) else ScopeFit.MISALIGNED


def unit_threads(tiling: Tiling, unit: CollUnit) -> int | None:
    """Threads of one `unit` in this launch; None if it has none fixed or does not fit."""
    evaluated = _evaluate(tiling, unit)
    if isinstance(evaluated, TilingError):
        return None
    sizes = [n for n in evaluated[1] if n is not None]
    return math.prod(sizes) if len(sizes) == len(evaluated[1]) else None


# --- step 1: the unit in this launch --------------------------------------------------------


def _evaluate(
    tiling: Tiling, unit: CollUnit
) -> tuple[tuple[int, ...], tuple[int | None, ...]] | TilingError:
    def at(entry: Extent | None) -> int | None:
        if entry is None:
            return None
        value = entry.at(tiling.cluster_dim, tiling.block_dim)
        return int(value) if value.denominator == 1 and value > 0 else -1

    domain = tuple(at(entry) or 0 for entry in unit.domain)
    box = tuple(map(at, unit.box))
    launch = f"clusterDim={tiling.cluster_dim}, blockDim={tiling.block_dim}"
    if min(domain) < 1 or any(n is not None and n < 1 for n in box):
        return TilingError(
            "C403",
            f"unit {unit.name} does not divide this launch ({launch})",
            "change the launch, or take a unit whose pitch divides it",
        )
    for extent, size in zip(domain, box, strict=True):
        if size is not None and size > extent:
            return TilingError(
                "C402",
                f"not enough threads: unit {unit.name} needs {size} of {extent} positions "
                f"({launch})",
                "take a smaller unit, or launch more threads or CTAs",
            )
    return domain, box


# --- step 2: completion and splitting -------------------------------------------------------


def _align(tiling: Tiling, unit: CollUnit) -> tuple[_Cell, ...] | TilingError:
    """Both sides over common dimensions; no dimension of extent 1 is left."""
    evaluated = _evaluate(tiling, unit)
    if isinstance(evaluated, TilingError):
        return evaluated
    domain, box = evaluated
    total = tiling.cluster_dim * tiling.block_dim
    mismatch = TilingError(
        "C403",
        f"unit {unit.name} with domain {domain} and box {_show(box)} does not divide the scope "
        f"with domain {tuple(d.extent for d in tiling.dims)} and box {tiling.box}",
        "choose extents that divide each other",
    )
    if total % math.prod(domain) or (math.prod(domain) == 1 and total > 1):
        return mismatch
    whole = [entry is not None and entry.block > 0 for entry in unit.box]
    if math.prod(domain) < total:
        domain, box = (total // math.prod(domain), *domain), (1, *box)
        whole.insert(0, False)
    boundaries = sorted({*_pitches(domain), *tiling.pitches})
    units: list[tuple[int, int | None, bool]] = []
    for pitch, extent, size, all_of_it in zip(_pitches(domain), domain, box, whole, strict=True):
        parts = _split_unit(pitch, extent, size, boundaries)
        if parts is None:
            return mismatch
        units += [(*part, all_of_it) for part in parts]
    dims: list[tuple[int, Dimension]] = []
    for pitch, dim in zip(tiling.pitches, tiling.dims, strict=True):
        split = _split_dimension(pitch, dim, boundaries)
        if split is None:
            return mismatch
        dims += split
    units = [u for u in units if u[0] > 1]
    if len(units) != len(dims) or any(
        u[0] != d.extent for u, (_, d) in zip(units, dims, strict=True)
    ):
        return mismatch
    return tuple(
        _Cell(pitch, dim, size, all_of_it)
        for (_, size, all_of_it), (pitch, dim) in zip(units, dims, strict=True)
    )


def _pitches(extents: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(extents[m + 1 :]) for m in range(len(extents)))


def _factors(pitch: int, extent: int, boundaries: Sequence[int]) -> list[int] | None:
    """The factors that split a dimension at the boundaries inside it, innermost first."""
    factors = []
    for boundary in boundaries:
        if pitch < boundary < pitch * extent:
            factor, rest = divmod(boundary, pitch)
            if rest or extent % factor:
                return None
            factors.append(factor)
            pitch, extent = boundary, extent // factor
    return factors


def _split_unit(
    pitch: int, extent: int, size: int | None, boundaries: Sequence[int]
) -> list[tuple[int, int | None]] | None:
    factors = _factors(pitch, extent, boundaries)
    if factors is None:
        return None
    parts: list[tuple[int, int | None]] = []
    for factor in factors:
        if size is not None and size > factor and size % factor:
            return None
        parts.insert(0, (factor, None if size is None else min(size, factor)))
        extent //= factor
        size = None if size is None else max(1, size // factor)
    return [(extent, size), *parts]


def _split_dimension(
    pitch: int, dim: Dimension, boundaries: Sequence[int]
) -> list[tuple[int, Dimension]] | None:
    factors = _factors(pitch, dim.extent, boundaries)
    if factors is None:
        return None
    parts: list[tuple[int, Dimension]] = []
    for factor in factors:
        halves = _split(dim, factor)
        if halves is None:
            return None
        dim, inner = halves
        parts.insert(0, (pitch, inner))
        pitch *= factor
    return [(pitch, dim), *parts]


def _split(dim: Dimension, factor: int) -> tuple[Dimension, Dimension] | None:
    """The dimension as (extent / factor, factor); None where an operator does not divide.

    Operators with a box of at least `factor` move to the outer part, those after a box of
    `factor` stay inside, and one that goes from a larger box to a smaller one is cut in two.
    """
    outer: list[DimOp] = []
    inner: list[DimOp] = []
    before = dim.extent
    for op in dim.ops:
        if before <= factor:
            inner.append(op)
        elif op.box >= factor:
            steps = op.pitch if op.count > 1 else 0
            if op.offset % factor or op.box % factor or steps % factor:
                return None
            outer.append(
                replace(
                    op,
                    offset=op.offset // factor,
                    box=op.box // factor,
                    pitch=op.pitch // factor,
                )
            )
        else:
            cut = _cut(op, factor)
            if cut is None:
                return None
            outer.append(cut[0])
            inner.append(cut[1])
        before = op.box
    return Dimension(dim.extent // factor, tuple(outer)), Dimension(factor, tuple(inner))


def _cut(op: DimOp, factor: int) -> tuple[DimOp, DimOp] | None:
    """An operator with a box below `factor` inside a box above it: quotient and remainder."""
    last = op.offset + (op.count - 1) * op.pitch + op.box - 1
    if op.offset // factor == last // factor:
        outer = DimOp(None, Int(0), op.offset // factor, 1, 1, 1)
        return outer, replace(op, offset=op.offset % factor)
    rows, rest = divmod(op.offset, op.pitch)
    ratio = factor // op.pitch
    if factor % op.pitch or rest + op.box > op.pitch:
        return None
    shift = rows % ratio
    number = op.index if shift == 0 else Add(op.index, Int(shift))
    count = (shift + op.count - 1) // ratio + 1
    outer = DimOp(op.iterator, FloorDiv(number, ratio), rows // ratio, 1, count, 1)
    return outer, DimOp(op.iterator, Mod(number, ratio), rest, op.box, ratio, op.pitch)


# --- steps 3 and 4: the one dimension that differs ------------------------------------------


def _differs(cell: _Cell) -> bool:
    """Whether the unit divides this dimension of the parent; agnostic and full entries do not."""
    return cell.unit is not None and cell.unit not in (cell.dim.box, cell.dim.extent)


def _lacks(tiling: Tiling, cell: _Cell) -> bool:
    """Whether the parent has less of this dimension than the unit.

    Whole CTAs do not ask for all their threads: a loop over CTAs keeps the warps that a
    surrounding CudaWarps chose.
    """
    inside = cell.whole_ctas and cell.pitch < tiling.block_dim
    return cell.unit is not None and cell.unit > cell.dim.box and not inside


def _not_enough(
    unit: CollUnit, capacity: int, count: int, cells: Sequence[_Cell]
) -> TilingError:
    return TilingError(
        "C402",
        f"not enough threads for {count} iterations: the scope has at most {capacity} tile(s) "
        f"of {unit.name}; {_compared(cells)}",
        f"iterate at most {capacity} time(s), or take a smaller unit",
    )


def _compared(cells: Sequence[_Cell]) -> str:
    domain = tuple(cell.dim.extent for cell in cells)
    scope = tuple(cell.dim.box for cell in cells)
    return f"over {domain} the scope is {scope} and the unit {_show([c.unit for c in cells])}"


def _show(box: Sequence[int | None]) -> str:
    entries = ", ".join("_" if n is None else str(n) for n in box)
    return f"({entries},)" if len(box) == 1 else f"({entries})"


def _dimension(tiling: Tiling, cell: _Cell) -> str:
    if cell.pitch >= tiling.block_dim:
        step = cell.pitch // tiling.block_dim
        return "the CTAs" if step == 1 else f"the CTAs {step} apart"
    return "the threads" if cell.pitch == 1 else f"the threads {cell.pitch} apart"


# --- alignment and warp groups --------------------------------------------------------------


def _aligned(cell: _Cell) -> bool:
    """Whether the positions start at multiples of what the hardware asks of the unit.

    A warpgroup starts at a multiple of 128 threads, a warp of 32, and a power of two of
    threads inside a warp at a multiple of itself.
    """
    if cell.unit is None:
        return True
    span = cell.unit * cell.pitch
    step = next((n for n in (128, 32) if span % n == 0), span if 32 % span == 0 else 1)
    align = max(1, step // cell.pitch)
    start = sum(op.offset for op in cell.dim.ops)
    return start % align == 0 and all(
        op.pitch % align == 0 for op in cell.dim.ops if op.count > 1
    )


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
            "C406", "CudaWarps needs a name here: the launch has several warp groups", known
        )
    if name not in names:
        return TilingError(
            "C406",
            f'the launch has no warp group "{name}"',
            f"name one of {known}" if known != '""' else "leave the name out",
        )
    return names[name]


def _group_name(name: str) -> str:
    return f'warp group "{name}"' if name else "the CTA"
