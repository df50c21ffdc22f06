"""The CTAs of a cluster whose mbarriers an Arrive signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

from exogpu.analysis.affine import constant
from exogpu.analysis.ownership import relation
from exogpu.analysis.uses import Declared, Use
from exogpu.codegen.errors import unsupported
from exogpu.ir.nodes import Arrive, BarrierAlloc, Point
from exogpu.ir.walk import control_variables
from exogpu.solvers import isl

MAX_CLUSTER: Final = 8
"""CTAs of a cluster whose masks of targets fit one 64-bit constant."""


def targets(
    declared: Declared, alloc: BarrierAlloc, homes: Sequence[Use], dims: Sequence[int]
) -> Mapping[Arrive, tuple[int, ...]]:
    """The CTAs that each Arrive signals: each that executes it its own, beside others."""
    cluster = homes[0].where.tiling.cluster_dim
    found: dict[Arrive, tuple[int, ...]] = {}
    for use in homes:
        assert isinstance(use.stmt, Arrive)
        owned = _home_elements(declared, alloc, use, dims)
        masks = [1 << cta for cta in range(cluster)]
        for *element, cta in owned:
            signalled = set[tuple[int, ...]]()
            for target in use.stmt.targets:
                spans = []
                for d, at in zip(dims, element, strict=True):
                    extent = constant(alloc.shape[d])
                    assert extent is not None
                    point = isinstance(target.coords[d], Point)
                    spans.append((at,) if point else tuple(range(extent)))
                signalled |= set(product(*spans))
            for *other, owner in owned:
                if other != element and tuple(other) in signalled:
                    masks[cta] |= 1 << owner
        if cluster > MAX_CLUSTER and any(m != 1 << cta for cta, m in enumerate(masks)):
            raise unsupported(
                f"a multicast over more than {MAX_CLUSTER} CTAs of a cluster",
                alloc.span,
                "use smaller clusters",
                "G807",
            )
        found[use.stmt] = tuple(masks)
    return found


def _home_elements(
    declared: Declared, alloc: BarrierAlloc, use: Use, dims: Sequence[int]
) -> Sequence[tuple[int, ...]]:
    """The distributed indices of each home, and the CTA that arrives there, under the conditions
    around the Arrive."""
    inside = {r.iterator for r in use.where.tiling.ranges}
    for d in dims:
        coord = use.access.coords[d]
        assert isinstance(coord, Point)
        if not control_variables(coord.at) <= inside:
            raise unsupported(
                f"an index of {alloc.name} depends on more than the CTA",
                alloc.span,
                "index it by cuda_threads iterators alone",
                "G807",
            )
    size = use.where.tiling.block_dim
    made = relation(use, declared, {f"i{d}": d for d in dims}, "cta", size=size)
    pairs = made.pairs
    for name in made.params:
        pairs = isl.drop_param(pairs, name)
    return isl.points(pairs)
