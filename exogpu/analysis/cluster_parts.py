"""Shared memory over the CTAs of a cluster: which dimension tells the CTA, and whose part is used.

Of memory that belongs to a CTA the uses tell, and must agree (`distribution`).  Memory of a whole
cluster says it itself: index i of its first dimension lies in CTA i, whoever accesses it.
"""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.analysis.affine import constant
from exogpu.analysis.ownership import distributed_dims, instances_collide, relation
from exogpu.analysis.uses import Declared, Use
from exogpu.hw.memories import CudaSmemCluster
from exogpu.ir.nodes import Access, Alloc, Point
from exogpu.result.errors import Diagnostic, Note
from exogpu.solvers import isl


def is_of_cluster(declared: Declared) -> bool:
    """Tests whether threads of any CTA of the cluster may access the variable."""
    alloc = declared.declaration
    return isinstance(alloc, Alloc) and alloc.memory == CudaSmemCluster


def over_ctas(declared: Declared) -> tuple[int, ...]:
    """The dimensions of a shared variable that are distributed over the CTAs of a cluster."""
    if is_of_cluster(declared):
        return (0,)
    tiling = declared.where.tiling
    if tiling.cluster_dim == 1:
        return ()
    return distributed_dims(declared, declared.uses, tiling.block_dim)


def own_parts(declared: Declared) -> frozenset[Access]:
    """The accesses of memory of a cluster that each CTA makes of its own part alone."""
    accesses = {use.access for use in declared.uses}
    others = {use.access for use in declared.uses if not _is_own(use, declared)}
    return frozenset(accesses - others)


def _is_own(use: Use, declared: Declared) -> bool:
    made = relation(use, declared, {"i": 0}, "u", size=declared.where.tiling.block_dim)
    return isl.is_subset_map(made.map, isl.map_of(made.params, ("i",), ("u",), "u = i"))


def check_parts(declared: Declared, alloc: Alloc) -> Iterator[Diagnostic]:
    """Checks a variable in memory of a cluster: a part for each CTA, one at a time."""
    tiling = declared.where.tiling
    parts = constant(alloc.shape[0]) if alloc.shape else None
    if parts != tiling.cluster_dim:
        several = "s" if tiling.cluster_dim > 1 else ""
        yield Diagnostic(
            "D526",
            f"{alloc.name} is @ {alloc.memory.name}, and its first extent is not the "
            f"{tiling.cluster_dim} CTA{several} of a cluster",
            alloc.span,
            f"declare it as [{tiling.cluster_dim}, ...]: {alloc.name}[i, ...] lies in CTA i",
        )
        return
    if instances_collide(declared, tiling.cluster_dim * tiling.block_dim):
        yield Diagnostic(
            "D514",
            f"{alloc.name} is allocated several times in one cluster: the loops around it give "
            "parts of a cluster one each",
            alloc.span,
            "allocate it outside of those loops, with one more dimension",
        )
        return
    for use in declared.uses:
        if not isinstance(use.access.coords[0], Point):
            yield Diagnostic(
                "D527",
                f"a window of {alloc.name} over the parts of several CTAs, which do not lie next "
                "to each other",
                use.span,
                "give the first dimension one index: a window of one CTA's part",
                (Note("allocated here", alloc.span),),
            )
            return
