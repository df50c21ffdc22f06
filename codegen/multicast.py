"""The CTAs of a cluster whose mbarriers an Arrive signals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from exogpu.analysis.affine import constant
from exogpu.analysis.threadmap import threads_of
from exogpu.analysis.tiling import iterations
from exogpu.analysis.uses import Use
from exogpu.codegen.errors import unsupported
from exogpu.ir.nodes import Arrive, BarrierAlloc, Point
from exogpu.ir.walk import control_variables, evaluate

MAX_CLUSTER: Final = 8
"""CTAs of a cluster whose masks of targets fit one 64-bit constant."""


def targets(
    alloc: BarrierAlloc, homes: Sequence[Use], dims: Sequence[int]
) -> Mapping[Arrive, tuple[int, ...]]:
    """The CTAs that each Arrive signals, by enumeration of the thread iterators."""
    cluster = homes[0].where.tiling.cluster_dim
    found: dict[Arrive, tuple[int, ...]] = {}
    for use in homes:
        assert isinstance(use.stmt, Arrive)
        owner = {element: cta for cta, element in _home_elements(alloc, use, dims)}
        masks = [0] * cluster
        for element, cta in owner.items():
            for target in use.stmt.targets:
                spans = []
                for d, at in zip(dims, element, strict=True):
                    extent = constant(alloc.shape[d])
                    assert extent is not None
                    point = isinstance(target.coords[d], Point)
                    spans.append((at,) if point else tuple(range(extent)))
                for other in product(*spans):
                    masks[cta] |= 1 << owner[other]
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
    alloc: BarrierAlloc, use: Use, dims: Sequence[int]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each CTA that arrives, and its home's distributed indices."""
    tiling = use.where.tiling
    for env in iterations(tiling):
        element = []
        for d in dims:
            coord = use.access.coords[d]
            assert isinstance(coord, Point)
            if not control_variables(coord.at) <= env.keys():
                raise unsupported(
                    f"an index of {alloc.name} depends on more than the CTA",
                    alloc.span,
                    "index it by cuda_threads iterators alone",
                    "G807",
                )
            element.append(evaluate(coord.at, env))
        yield threads_of(tiling.thread_map(), env)[0] // tiling.block_dim, tuple(element)
