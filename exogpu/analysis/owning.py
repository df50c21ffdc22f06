"""The acceptance conditions on ownership, and what to say where one fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from exogpu.analysis.ownership import (
    Relation,
    element,
    instances_collide,
    owners,
    relation,
)
from exogpu.analysis.uses import Declared, Use
from exogpu.errors import Diagnostic, Note
from exogpu.solvers import isl


@dataclass(frozen=True, slots=True)
class Owning:
    """What an element of the variable belongs to: `size` threads, and in words."""

    size: int
    unit: str
    """`thread`, `warp`, `warpgroup`, `CTA`."""
    place: str
    """Where the variable lives: `CudaRmem`, `an mbarrier`."""
    whole: bool = True
    """Whether a use must be executed by the whole unit (registers), or by any part of it."""


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
    owned = [
        _Owned(use, relation(use, declared, inputs, "u", size=owning.size)) for use in uses
    ]
    for one in owned:
        found = _one_use(declared, one, dims, inputs, owning)
        if found is not None:
            yield _with_other(declared, found, one, owned, owning)
            return
    for first, second in pairwise(owned):
        found = _two_uses(declared, first, second, dims, owning)
        if found is not None:
            yield found
            return
    total: isl.Map | None = None
    for at, one in enumerate(owned):
        total = one.by_unit.map if total is None else isl.union_map(total, one.by_unit.map)
        if not isl.is_injective(total):
            yield _shared_between(declared, owned[: at + 1], dims, owning)
            return


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
            "it with the iterator that divides them",
            (Note("allocated here", declared.declaration.span),),
        )
    if owning.whole and owning.size > 1:
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
        return Diagnostic(
            "D502",
            f"one {owning.unit} owns several elements of {declared.declaration.name} along its "
            "distributed dimensions",
            one.use.span,
            f"index the distributed dimensions so that each {owning.unit} has one index",
            (Note("allocated here", declared.declaration.span),),
        )
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
    who = owners(
        other.by_unit, _named(other.by_unit, point), owning.size, other.use.where.tiling
    )
    note = Note(f"here {declared.declaration.name} is accessed by {who}", other.use.span)
    return replace(found, notes=(note, *found.notes))


def _two_uses(
    declared: Declared, first: _Owned, second: _Owned, dims: Sequence[int], owning: Owning
) -> Diagnostic | None:
    """Condition (i): equal owners on the indices that both access."""
    a, b = first.by_unit.map, second.by_unit.map
    a_common = isl.restrict_domain(a, isl.domain(b))
    b_common = isl.restrict_domain(b, isl.domain(a))
    if isl.is_equal_map(a_common, b_common):
        return None
    extra = isl.subtract_map(a_common, b_common)
    if isl.is_empty(extra):
        extra = isl.subtract_map(b_common, a_common)
    point = _named(first.by_unit, isl.smallest(isl.domain(extra)) or {})
    here = owners(second.by_unit, point, owning.size, second.use.where.tiling)
    there = owners(first.by_unit, point, owning.size, first.use.where.tiling)
    what = element(declared, dims, point)
    return Diagnostic(
        "D501",
        f"the uses of {declared.declaration.name} disagree on who owns it: {what} belongs to "
        f"{there} in one and to {here} in the other",
        second.use.span,
        "index it the same way everywhere, or exchange the data between the threads explicitly",
        (
            Note(f"here {what} is accessed by {there}", first.use.span),
            Note("allocated here", declared.declaration.span),
        ),
    )


def _shared_between(
    declared: Declared, owned: Sequence[_Owned], dims: Sequence[int], owning: Owning
) -> Diagnostic:
    """Condition (ii) across uses: two indices with one owner."""
    last = owned[-1]
    inverse = isl.inverse(last.by_unit.map)
    clashing = [
        Note("the same owner accesses another index here", earlier.use.span)
        for earlier in owned[:-1]
        if not isl.is_function(isl.union_map(inverse, isl.inverse(earlier.by_unit.map)))
    ]
    return Diagnostic(
        "D502",
        f"one {owning.unit} owns several elements of {declared.declaration.name} along its "
        "distributed dimensions",
        last.use.span,
        f"index the distributed dimensions so that each {owning.unit} has one index",
        (*clashing[:1], Note("allocated here", declared.declaration.span)),
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
