"""The acceptance conditions on ownership, and what to say where one fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from exogpu.analysis.fragments import is_scalar
from exogpu.analysis.ownership import (
    Relation,
    element,
    instances_collide,
    owners,
    relation,
    unit_names,
)
from exogpu.analysis.uses import Declared, Use
from exogpu.ir.nodes import Alloc
from exogpu.ir.types import Space
from exogpu.result.errors import Diagnostic, Note
from exogpu.solvers import isl


@dataclass(frozen=True, slots=True)
class Owning:
    """The owner of an element of the variable: `size` threads, and in words."""

    size: int
    unit: str
    """`thread`, `warp`, `warpgroup`, `CTA`."""
    place: str
    """Where the variable lives: `CudaRmem`, `an mbarrier`."""
    whole: bool = True
    """Whether a use must be executed by the whole unit (registers), or by any part of it.  Of a
    register tile an element is accessed by the one thread that holds it."""


@dataclass(frozen=True, slots=True)
class _Owned:
    use: Use
    by_unit: Relation


def check_owners(
    declared: Declared, uses: Sequence[Use], dims: Sequence[int], owning: Owning
) -> Iterator[Diagnostic]:
    """Conditions (i) to (iii): owners agree, are disjoint, and are one whole unit each.

    `dims` are the distributed dimensions.  At most one diagnostic: the others would follow.
    """
    if instances_collide(declared, owning.size):
        yield Diagnostic(
            "D514",
            f"{declared.declaration.name} is allocated several times in one {owning.unit}: "
            f"the loops around it give parts of a {owning.unit} one each",
            declared.declaration.span,
            f"allocate it outside of those loops, with one more dimension, or declare it at "
            f"{owning.unit} scope",
        )
        return
    inputs = {f"i{d}": d for d in dims}
    owned = [_Owned(use, relation(use, declared, inputs, "u", size=owning.size)) for use in uses]
    for one in owned:
        found = _one_use(declared, one, dims, inputs, owning)
        if found is not None:
            yield _with_other(declared, found, one, owned, owning)
            return
    total: isl.Map | None = None
    for at, one in enumerate(owned):
        total = one.by_unit.map if total is None else isl.union_map(total, one.by_unit.map)
        # Each use alone is a function: together they are one iff they agree.
        if not isl.is_function(total):
            yield _disagreement(declared, owned[: at + 1], dims, owning)
            return
        if not isl.is_injective(total):
            yield _two_indices(declared, owned[: at + 1], total, dims, owning)
            return


def _shared(declared: Declared, owning: Owning) -> bool:
    """Tests whether the variable is data that could be in memory which all CTAs access."""
    return owning.unit == "CTA" and isinstance(declared.declaration, Alloc)


def _one_use(
    declared: Declared,
    one: _Owned,
    dims: Sequence[int],
    inputs: dict[str, int],
    owning: Owning,
) -> Diagnostic | None:
    own = one.by_unit.map
    tiling = one.use.where.tiling
    if not isl.is_function(own):
        point = _clash(one.by_unit)
        who = owners(one.by_unit, point, owning.size, tiling)
        return Diagnostic(
            "D503",
            f"{element(declared, dims, point)} is accessed by {who}, "
            f"and an element of {owning.place} belongs to one {owning.unit}",
            one.use.span,
            f"give {declared.declaration.name} a dimension over those {owning.unit}s and index "
            "it with the iterator that divides them"
            + (", or declare it @ CudaSmemCluster" if _shared(declared, owning) else ""),
            (Note("allocated here", declared.declaration.span),),
        )
    if owning.whole and owning.size > 1 and not is_scalar(one.use):
        by_thread = relation(one.use, declared, inputs, "u")
        spread = isl.map_of((), ("u",), ("t",), f"u = floor(t / {owning.size})")
        partial = isl.subtract_map(isl.compose(own, spread), by_thread.map)
        if not isl.is_empty(partial):
            point = isl.smallest(isl.domain(partial)) or {}
            point = _named(by_thread, point)
            who = owners(by_thread, point, 1, tiling)
            return Diagnostic(
                "D503",
                f"{element(declared, dims, point)} is accessed by {who}, "
                f"and an element of {owning.place} belongs to one whole {owning.unit}",
                one.use.span,
                f"access it at {owning.unit} scope",
                (Note("allocated here", declared.declaration.span),),
            )
    if not isl.is_injective(own):
        return _two_indices(declared, [one], own, dims, owning)
    return None


def _with_other(
    declared: Declared,
    found: Diagnostic,
    one: _Owned,
    owned: Sequence[_Owned],
    owning: Owning,
) -> Diagnostic:
    """The diagnostic with a note on another statement that uses the variable, and by whom."""
    others = [o for o in owned if o.use.stmt is not one.use.stmt]
    if not others:
        return found
    other = others[0]
    point = isl.smallest(isl.domain(other.by_unit.map))
    if point is None:
        return found
    who = owners(other.by_unit, _named(other.by_unit, point), owning.size, other.use.where.tiling)
    note = Note(f"here {declared.declaration.name} is accessed by {who}", other.use.span)
    return replace(found, notes=(note, *found.notes))


def _disagreement(
    declared: Declared, owned: Sequence[_Owned], dims: Sequence[int], owning: Owning
) -> Diagnostic:
    """Condition (i): the last use and an earlier one give one index different owners."""
    second = owned[-1]
    own = second.by_unit.map
    first, extra = next(
        (earlier, extra)
        for earlier in owned[:-1]
        if not isl.is_empty(
            extra := isl.subtract_map(
                isl.restrict_domain(earlier.by_unit.map, isl.domain(own)), own
            )
        )
    )
    point = _named(first.by_unit, isl.smallest(isl.domain(extra)) or {})
    here = owners(second.by_unit, point, owning.size, second.use.where.tiling)
    there = owners(first.by_unit, point, owning.size, first.use.where.tiling)
    what = element(declared, dims, point)
    remedy = "index it the same way everywhere, or exchange the data between the threads explicitly"
    made = declared.declaration
    shared = isinstance(made, Alloc) and made.memory.space is Space.SHARED
    if shared and "CTA" in here and "CTA" in there:
        remedy += "; @ CudaSmemCluster is shared memory that all CTAs of a cluster access"
    return Diagnostic(
        "D501",
        f"the uses of {declared.declaration.name} disagree on who owns it: {what} belongs to "
        f"{there} in one and to {here} in the other",
        second.use.span,
        remedy,
        (
            Note(f"here {what} is accessed by {there}", first.use.span),
            Note("allocated here", declared.declaration.span),
        ),
    )


def _two_indices(
    declared: Declared,
    owned: Sequence[_Owned],
    own: isl.Map,
    dims: Sequence[int],
    owning: Owning,
) -> Diagnostic:
    """Condition (ii): two indices with one owner, by the last of the uses and those before it."""
    last = owned[-1]
    inverse = isl.inverse(last.by_unit.map)
    notes = [
        Note("the same owner accesses another index here", earlier.use.span)
        for earlier in owned[:-1]
        if not isl.is_function(isl.union_map(inverse, isl.inverse(earlier.by_unit.map)))
    ][:1]
    found = isl.two_outputs(isl.inverse(own))
    assert found is not None
    at, first, second = found
    tiling = last.use.where.tiling
    who = unit_names([list(at.values())[-1]], owning.size, tiling)
    a, b = (
        element(declared, dims, {f"i{d}": n for d, n in zip(dims, index, strict=True)})
        for index in (first, second)
    )
    return Diagnostic(
        "D502",
        f"{who} owns both {a} and {b}: a distributed dimension has one index for each "
        f"{owning.unit}",
        last.use.span,
        f"index the distributed dimensions by what divides the {owning.unit}s, alike everywhere",
        (*notes, Note("allocated here", declared.declaration.span)),
    )


def _clash(found: Relation) -> dict[str, int]:
    """The smallest index with two owners."""
    outputs = [f"{name}_" for name in found.outputs]
    own = found.map
    different = isl.map_of((), found.outputs, outputs, "u < u_")
    twice = isl.intersect_map(isl.compose(own, different), own)
    return _named(found, isl.smallest(isl.domain(twice)) or {})


def _named(found: Relation, point: dict[str, int]) -> dict[str, int]:
    """A point of the relation's domain with its dimensions named."""
    inputs = [name for name in point if name not in found.params]
    renamed = dict(zip(inputs, found.inputs, strict=False))
    return {renamed.get(name, name): value for name, value in point.items()}
