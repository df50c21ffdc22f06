"""Distributed memory analysis (paper, section 4.1): all uses of a variable agree on who owns it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.analysis.barriers import check_barrier
from exogpu.analysis.derive_tiling import unit_threads
from exogpu.analysis.divergence import check_solitary, divergent
from exogpu.analysis.facts import Facts
from exogpu.analysis.ownership import (
    Declared,
    Use,
    depends_on_thread,
    distributed_dims,
    instances_collide,
    relation,
)
from exogpu.analysis.ownership_check import Owning, check_owners, is_element, is_scalar, strangers
from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.hw.memories import CudaSmemCluster
from exogpu.ir.affine import constant, difference
from exogpu.ir.nodes import Access, Alloc, CExpr, Coord, Interval, Point
from exogpu.ir.types import Space
from exogpu.solvers import isl

# Shared memory over the CTAs of a cluster: which dimension tells the CTA, and whose part is used.
#
# Of memory that belongs to a CTA the uses tell, and must agree (`distribution`). Memory of a
# whole cluster says it itself: index i of its first dimension lies in CTA i, whoever accesses it.


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


def check(facts: Facts) -> tuple[Diagnostic, ...]:
    """Everything that distributed memory analysis refuses.

    Statements that diverge are left out: `exogpu.analysis.divergence` reports them.
    """
    mechanisms = facts.mechanisms
    found: list[Diagnostic] = []
    variables = tuple(
        replace(
            declared,
            uses=tuple(
                u for u in declared.uses if divergent(u.stmt, facts.collective, mechanisms) is None
            ),
        )
        for declared in facts.variables
    )
    for declared in variables:
        match declared.declaration:
            case Alloc() as alloc if alloc.memory.space is Space.REGISTER:
                found += _check_register(declared, alloc)
            case Alloc() as alloc if alloc.memory.space is Space.SHARED:
                found += (
                    check_parts(declared, alloc)
                    if is_of_cluster(declared)
                    else _check_shared(declared)
                )
            case Alloc():
                pass
            case alloc:
                found += check_barrier(declared, alloc, mechanisms)
    found += check_solitary(variables, mechanisms)
    return tuple(found)


def _check_register(declared: Declared, alloc: Alloc) -> Iterator[Diagnostic]:
    """Registers: the distributed indices have one whole unit of the memory as their owner."""
    memory, tiling = alloc.memory, declared.where.tiling
    assert memory.unit is not None
    size = unit_threads(tiling, memory.unit)
    if size is None:
        yield Diagnostic(
            "D515",
            f"{memory.name} belongs to a {memory.unit.name}, and the launch has "
            f"{tiling.block_dim} threads a CTA",
            alloc.span,
            "launch more threads, or choose another memory",
        )
        return
    bad_tile = _check_tile(alloc)
    if bad_tile is not None:
        yield bad_tile
        return
    leading = len(alloc.shape) - len(memory.tile)
    parts = list(_parts(declared, alloc, leading))
    if parts:
        yield from parts
        return
    dims = tuple(d for d in distributed_dims(declared, declared.uses, size) if d < leading)
    unit = memory.unit.name.removeprefix("cuda_")
    refused = list(check_owners(declared, declared.uses, dims, Owning(size, unit, memory.name)))
    yield from refused
    if not refused:
        yield from _undistributed(declared, dims, leading)
        yield from strangers(declared, alloc)


def _undistributed(declared: Declared, dims: tuple[int, ...], leading: int) -> Iterator[Diagnostic]:
    """Condition (iv): the indices that are not distributed are not functions of the thread, but for
    those of a tile's elements."""
    for use in declared.uses:
        for d in range(leading if is_scalar(use) else len(declared.declaration.shape)):
            if d not in dims and depends_on_thread(use, declared, d):
                yield Diagnostic(
                    "D504",
                    f"index {d} of {declared.declaration.name} is not distributed and depends "
                    "on the thread",
                    use.span,
                    "index registers by constants and sequential iterators, or by a thread "
                    "iterator alone in every use",
                    (Note("allocated here", declared.declaration.span),),
                )
                return


def _check_tile(alloc: Alloc) -> Diagnostic | None:
    """A register tile fills the trailing dimensions of its variable."""
    tile = alloc.memory.tile
    trailing = alloc.shape[len(alloc.shape) - len(tile) :]
    fits = len(alloc.shape) >= len(tile) and all(
        want is None or constant(have) == want for have, want in zip(trailing, tile, strict=True)
    )
    if fits:
        return None
    wanted = ", ".join("_" if n is None else str(n) for n in tile)
    return Diagnostic(
        "D505",
        f"{alloc.name} is @ {alloc.memory.name}, and its trailing extents are not {wanted}",
        alloc.span,
        f"declare it as [..., {wanted}], with the distributed dimensions in front",
    )


def _parts(declared: Declared, alloc: Alloc, leading: int) -> Iterator[Diagnostic]:
    """Windows that cut a tile: an instruction takes the registers of whole ones."""
    for use in declared.uses:
        if is_scalar(use) and is_element(use.access, alloc):
            continue
        cut = [
            d
            for d, coord in enumerate(use.access.coords[leading:], start=leading)
            if not _is_whole(coord, alloc.shape[d])
        ]
        if cut:
            wanted = ", ".join(":" for _ in alloc.memory.tile)
            yield Diagnostic(
                "D517",
                f"a part of a register tile of {alloc.name} in dimension {cut[0]}: instructions "
                "take whole tiles",
                use.span,
                f"pass {alloc.name}[..., {wanted}]; for several parts declare several tiles, with "
                "one more dimension in front",
                (Note("allocated here", alloc.span),),
            )


def _is_whole(coord: Coord, extent: CExpr) -> bool:
    return (
        isinstance(coord, Interval)
        and constant(coord.lo) == 0
        and difference(coord.hi, extent) == 0
    )


def _check_shared(declared: Declared) -> Iterator[Diagnostic]:
    """Shared memory: an element lives in one CTA, and any of its threads may access it."""
    owning = Owning(declared.where.tiling.block_dim, "CTA", "shared memory", whole=False)
    yield from check_owners(declared, declared.uses, over_ctas(declared), owning)
