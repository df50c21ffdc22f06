"""Ownership of distributed variables: which index lives where."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from exogpu.amir.lower_args import statement_text
from exogpu.analysis.affine import constant
from exogpu.analysis.cluster_parts import is_of_cluster
from exogpu.analysis.derive import unit_threads
from exogpu.analysis.facts import Facts
from exogpu.analysis.ownership import distributed_dims, element, owners, relation
from exogpu.analysis.uses import Declared
from exogpu.ir.nodes import Alloc
from exogpu.ir.types import Space
from exogpu.report.model import Owned

SHOWN: Final = 8
"""Elements of a variable that are listed."""

_UNITS: Final = {1: "a thread", 32: "a warp", 128: "a warpgroup"}


def owned(facts: Facts) -> tuple[Owned, ...]:
    """The variables that are spread over several owners, in program order."""
    return tuple(
        found
        for declared in facts.variables
        if isinstance(declared.declaration, Alloc) and declared.uses
        for found in _owned(declared, declared.declaration)
    )


def _owned(declared: Declared, alloc: Alloc) -> Iterator[Owned]:
    tiling = declared.where.tiling
    match alloc.memory.space:
        case Space.REGISTER:
            assert alloc.memory.unit is not None
            size = unit_threads(tiling, alloc.memory.unit)
        case Space.SHARED if is_of_cluster(declared):
            return  # each index says itself whose it is
        case Space.SHARED if tiling.cluster_dim > 1:
            size = tiling.block_dim
        case _:
            size = None
    dims = () if size is None else distributed_dims(declared, declared.uses, size)
    extents = [constant(alloc.shape[d]) for d in dims]
    if size is None or not dims or None in extents:
        return
    use = next(u for u in declared.uses if distributed_dims(declared, [u], size) == dims)
    found = relation(use, declared, {f"i{d}": d for d in dims}, "u", None, size)
    indices = list(product(*(range(n) for n in extents if n is not None)))
    rows = []
    for index in indices[:SHOWN]:
        point = {f"i{d}": value for d, value in zip(dims, index, strict=True)}
        point |= {name: 0 for name in found.params}
        rows.append((element(declared, dims, point), owners(found, point, size, tiling)))
    owner = "a CTA" if size == tiling.block_dim else _UNITS.get(size, f"{size} threads")
    yield Owned(
        alloc.name.name,
        statement_text(alloc),
        alloc.span.line,
        owner,
        tuple(rows),
        len(indices) - len(rows),
    )
