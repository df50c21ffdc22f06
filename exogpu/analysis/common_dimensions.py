"""Steps 1 and 2 of deriving a tiling: scope and unit over common dimensions.

The unit is evaluated for the launch, its domain completed to the cluster, and both sides split
wherever a thread pitch of one falls inside a dimension of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from exogpu.analysis.tiling import Dimension, DimOp, Tiling
from exogpu.ir.nodes import Add, FloorDiv, Int, Mod
from exogpu.ir.types import CollUnit, Extent


@dataclass(frozen=True, slots=True)
class TilingError:
    """A reason why no tiling can be derived: a diagnostic without its place."""

    code: str
    message: str
    help: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One dimension after alignment; `unit` None is agnostic."""

    pitch: int
    dim: Dimension
    unit: int | None
    whole_ctas: bool
    """The figure gives this entry of the unit's box in whole CTAs."""


# --- step 1: the unit in this launch --------------------------------------------------------


def evaluate_unit(
    tiling: Tiling, unit: CollUnit
) -> tuple[tuple[int, ...], tuple[int | None, ...]] | TilingError:
    """Domain and box of the unit in this launch; a box entry None is agnostic."""

    def entry_value(entry: Extent | None) -> int | None:
        if entry is None:
            return None
        value = entry.evaluate(tiling.cluster_dim, tiling.block_dim)
        return int(value) if value.denominator == 1 and value > 0 else -1

    domain = tuple(entry_value(entry) or 0 for entry in unit.domain)
    box = tuple(map(entry_value, unit.box))
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


def align(tiling: Tiling, unit: CollUnit) -> tuple[Cell, ...] | TilingError:
    """Both sides over common dimensions; no dimension of extent 1 is left."""
    evaluated = evaluate_unit(tiling, unit)
    if isinstance(evaluated, TilingError):
        return evaluated
    domain, box = evaluated
    total = tiling.cluster_dim * tiling.block_dim
    mismatch = TilingError(
        "C403",
        f"unit {unit.name} with domain {domain} and box {show_box(box)} does not divide the scope "
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
        Cell(pitch, dim, size, all_of_it)
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
            cut = _split_operator(op, factor)
            if cut is None:
                return None
            outer.append(cut[0])
            inner.append(cut[1])
        before = op.box
    return Dimension(dim.extent // factor, tuple(outer)), Dimension(factor, tuple(inner))


def _split_operator(op: DimOp, factor: int) -> tuple[DimOp, DimOp] | None:
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


def show_box(box: Sequence[int | None]) -> str:
    """A box as a tuple, `_` for an agnostic entry."""
    entries = ", ".join("_" if n is None else str(n) for n in box)
    return f"({entries},)" if len(box) == 1 else f"({entries})"
