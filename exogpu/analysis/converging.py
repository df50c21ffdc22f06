"""Groups of threads that execute a statement together or not at all, as digits of a thread's index.

The prover asks a solver whether some thread of a group executes an instance and another does not;
`exogpu.analysis.divergence` finds out, before, which statement leaves whom behind.
"""

from __future__ import annotations

import math

from exogpu.analysis.align import TilingError, evaluate_unit
from exogpu.analysis.divergence import Mechanisms, need_of
from exogpu.analysis.threadmap import Digit
from exogpu.analysis.tiling import Tiling
from exogpu.hw.units import cuda_warp, cuda_warpgroup
from exogpu.ir.nodes import CallInstr, Fence, Stmt
from exogpu.ir.types import CollUnit


def converging(stmt: Stmt, tiling: Tiling | None, mechanisms: Mechanisms) -> tuple[Digit, ...]:
    """The groups of which all threads execute the statement, or none; no digits where each thread
    is a group of its own.

    Threads are of one group if each of their digits lies in one block of its size.  Positions that
    fill no block are in no group.
    """
    if tiling is None:
        return ()
    need = need_of(stmt, tiling, mechanisms)
    if need is None:
        # Inside a CTA the hardware synchronises whole warps, or threads of one warp.
        alone = not isinstance(stmt, Fence) or stmt.launches or tiling.threads <= 32
        return () if alone else groups(tiling, cuda_warp)
    unit = need.unit
    if unit is cuda_warpgroup and not isinstance(stmt, CallInstr):
        return _digits(tiling, (tiling.block_dim,), (128,))
    return groups(tiling, unit)


def groups(tiling: Tiling, unit: CollUnit) -> tuple[Digit, ...]:
    """Returns the digits of a unit: as many of its threads as the hardware asks to begin at a
    multiple of their number."""
    evaluated = evaluate_unit(tiling, unit)
    if isinstance(evaluated, TilingError):
        return ()
    domain, box = evaluated
    pitches = [math.prod(domain[at + 1 :]) for at in range(len(domain))]
    triples = zip(pitches, domain, box, strict=True)
    return _digits(tiling, domain, tuple(_aligned(*triple) for triple in triples))


def _digits(tiling: Tiling, domain: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Digit, ...]:
    total = tiling.cluster_dim * tiling.block_dim
    if math.prod(domain) < total:
        domain, sizes = (total // math.prod(domain), *domain), (1, *sizes)
    if math.prod(sizes) == 1:
        return ()
    return tuple(
        Digit(math.prod(domain[at + 1 :]), extent, size)
        for at, (extent, size) in enumerate(zip(domain, sizes, strict=True))
    )


def _aligned(pitch: int, extent: int, box: int | None) -> int:
    """So many positions of a unit begin at a multiple of their number: of a whole dimension all;
    else a warpgroup's, a warp's, or a power of two of threads in a warp."""
    if box is None or box >= extent:
        return 1 if box is None else extent
    span = box * pitch
    step = next((n for n in (128, 32) if span % n == 0), span if 32 % span == 0 else 1)
    size = min(max(1, step // pitch), box)
    return size if box % size == 0 else 1
