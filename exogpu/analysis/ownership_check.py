"""The acceptance conditions on ownership, and what to say where one fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from exogpu.analysis import ownership
from exogpu.analysis.thread_names import thread_names
from exogpu.analysis.tiling import Tiling
from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.hw.register_tiles import Fragment, fragment
from exogpu.ir import nodes as ir
from exogpu.ir.affine import constant
from exogpu.ir.render import conjunction, identifier, in_range, isl_cond, numbered
from exogpu.ir.types import Space
from exogpu.ir.walk import control_variables, evaluate
from exogpu.solvers import isl

# Elements of register tiles: a thread accesses those alone that it holds.


def tile_of(declared: ir.Alloc | ir.DataParam) -> Fragment | None:
    """The map of a variable's register tiles; None where it has none."""
    rank = len(declared.memory.tile)
    if not rank:
        return None
    shape = [constant(n) for n in declared.shape[len(declared.shape) - rank :]]
    return fragment(declared.memory, declared.dtype, shape)


def is_element(access: ir.Access, declared: ir.Alloc | ir.DataParam) -> bool:
    """Tests whether an access is of one element of a register tile, not of a whole one."""
    rank = len(declared.memory.tile)
    return bool(rank) and all(isinstance(c, ir.Point) for c in access.coords[-rank:])


def is_scalar(use: ownership.Use) -> bool:
    """Tests whether a use is a scalar statement's: a thread accesses one element."""
    return isinstance(use.stmt, ir.Assign | ir.Reduce)


def held_by_its_thread(access: ir.Access, found: Fragment, tiling: Tiling) -> ir.BExpr:
    """The condition that the thread that executes a scope holds the element of its tile."""
    rank = len(found.shape)
    index = [c.at for c in access.coords[-rank:] if isinstance(c, ir.Point)]
    thread: ir.CExpr = ir.Int(0)
    for axis in tiling.thread_map().axes:
        term = axis.offset if axis.pitch == 1 else ir.Mul(axis.pitch, axis.offset)
        thread = term if thread == ir.Int(0) else ir.Add(thread, term)
    return ir.Compare("==", ir.Mod(thread, found.threads), found.thread(index))


def strangers(declared: ownership.Declared, alloc: ir.Alloc) -> Iterator[Diagnostic]:
    """Accesses of elements by threads that do not hold them; at most one diagnostic."""
    for use in declared.uses:
        if not is_scalar(use) or not is_element(use.access, alloc):
            continue
        found = tile_of(alloc)
        if found is None:
            yield _unknown(use, alloc)
            return
        point = _stranger(use, found)
        if point is not None:
            yield _ownership_diagnostic(use, alloc, found, point)
            return


def _stranger(use: ownership.Use, found: Fragment) -> dict[str, int] | None:
    """Values of the iterators around a use at which another thread holds the element."""
    where = use.where
    if where.tiling.threads != 1:
        return None  # a scalar statement at a larger scope is refused as such
    condition = held_by_its_thread(use.access, found, where.tiling)
    seen = set(control_variables(condition))
    texts: list[str] = []
    waiting = list(where.conditions)
    while chosen := [c for c in waiting if c[0] & seen]:
        waiting = [c for c in waiting if not c[0] & seen]
        for variables, text in chosen:
            texts.append(text)
            seen |= variables
    for r in where.tiling.ranges:
        if r.iterator in seen:
            texts.append(in_range(r.iterator, ir.Int(r.lo), ir.Int(r.lo + r.count)))
    names = sorted(identifier(s) for s in seen)
    wrong = conjunction([isl_cond(ir.Not(condition)), *texts])
    point = _smallest(len(names), numbered(names, wrong))
    return None if point is None else dict(zip(names, point, strict=True))


@lru_cache(maxsize=1024)
def _smallest(count: int, condition: str) -> tuple[int, ...] | None:
    """The smallest `v0, v1, ...` that satisfy a condition; kept, since many uses are alike."""
    found = isl.smallest(isl.set_of((), (f"v{at}" for at in range(count)), condition))
    return None if found is None else tuple(found.values())


def _ownership_diagnostic(
    use: ownership.Use, alloc: ir.Alloc, found: Fragment, point: dict[str, int]
) -> Diagnostic:
    rank = len(found.shape)
    coords = [c.at for c in use.access.coords[-rank:] if isinstance(c, ir.Point)]
    env = {
        s: point[identifier(s)]
        for c in coords
        for s in control_variables(c)
        if identifier(s) in point
    }
    index = [ir.Int(evaluate(c, env)) for c in coords]
    holder = evaluate(found.thread(index), {})
    unit = f"{found.threads} threads" if found.threads > 32 else "warp"
    shown = ", ".join(str(n.value) for n in index)
    return Diagnostic(
        "D518",
        f"element [{shown}] of a tile of {alloc.name} is held by "
        f"{thread_names([holder], found.threads, 1)} of its {unit}, and another accesses it",
        use.span,
        f"loop over the tile: for m, n in fragment({alloc.name}[...]), and index it by m and n",
        (Note("allocated here", alloc.span),),
    )


def _unknown(use: ownership.Use, alloc: ir.Alloc) -> Diagnostic:
    return Diagnostic(
        "D518",
        f"{alloc.name} has no known fragment: who holds an element of {alloc.memory.name} with "
        f"elements of {alloc.dtype.value} is not known",
        use.span,
        "access it by instructions",
        (Note("allocated here", alloc.span),),
    )


@dataclass(frozen=True, slots=True)
class Owning:
    """The owner of an element of the variable: `size` threads, and in words."""

    size: int
    unit: str
    """`thread`, `warp`, `warpgroup`, `CTA`."""
    place: str
    """Where the variable lives: `CudaRmem`, `an mbarrier`."""
    whole: bool = True
    """A use must be executed by the whole unit (registers), or by any part of it. An element of a
    register tile is accessed by the one thread that holds it."""


@dataclass(frozen=True, slots=True)
class _Owned:
    use: ownership.Use
    by_unit: ownership.Relation


def check_owners(
    declared: ownership.Declared, uses: Sequence[ownership.Use], dims: Sequence[int], owning: Owning
) -> Iterator[Diagnostic]:
    """Conditions (i) to (iii): owners agree, are disjoint, and are one whole unit each.

    `dims` are the distributed dimensions.  At most one diagnostic: the others would follow.
    """
    if ownership.instances_collide(declared, owning.size):
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
        _Owned(use, ownership.relation(use, declared, inputs, "u", size=owning.size))
        for use in uses
    ]
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


def _is_shared_by_ctas(declared: ownership.Declared, owning: Owning) -> bool:
    """Tests whether the variable is data that could be in memory which all CTAs access."""
    return owning.unit == "CTA" and isinstance(declared.declaration, ir.Alloc)


def _one_use(
    declared: ownership.Declared,
    one: _Owned,
    dims: Sequence[int],
    inputs: dict[str, int],
    owning: Owning,
) -> Diagnostic | None:
    own = one.by_unit.map
    tiling = one.use.where.tiling
    if not isl.is_function(own):
        point = _clash(one.by_unit)
        who = ownership.owners(one.by_unit, point, owning.size, tiling)
        return Diagnostic(
            "D503",
            f"{ownership.element(declared, dims, point)} is accessed by {who}, "
            f"and an element of {owning.place} belongs to one {owning.unit}",
            one.use.span,
            f"give {declared.declaration.name} a dimension over those {owning.unit}s and index "
            "it with the iterator that divides them"
            + (", or declare it @ CudaSmemCluster" if _is_shared_by_ctas(declared, owning) else ""),
            (Note("allocated here", declared.declaration.span),),
        )
    if owning.whole and owning.size > 1 and not is_scalar(one.use):
        by_thread = ownership.relation(one.use, declared, inputs, "u")
        spread = isl.map_of((), ("u",), ("t",), f"u = floor(t / {owning.size})")
        partial = isl.subtract_map(isl.compose(own, spread), by_thread.map)
        if not isl.is_empty(partial):
            point = isl.smallest(isl.domain(partial)) or {}
            point = _name_dimensions(by_thread, point)
            who = ownership.owners(by_thread, point, 1, tiling)
            return Diagnostic(
                "D503",
                f"{ownership.element(declared, dims, point)} is accessed by {who}, "
                f"and an element of {owning.place} belongs to one whole {owning.unit}",
                one.use.span,
                f"access it at {owning.unit} scope",
                (Note("allocated here", declared.declaration.span),),
            )
    if not isl.is_injective(own):
        return _two_indices(declared, [one], own, dims, owning)
    return None


def _with_other(
    declared: ownership.Declared,
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
    who = ownership.owners(
        other.by_unit, _name_dimensions(other.by_unit, point), owning.size, other.use.where.tiling
    )
    note = Note(f"here {declared.declaration.name} is accessed by {who}", other.use.span)
    return replace(found, notes=(note, *found.notes))


def _disagreement(
    declared: ownership.Declared, owned: Sequence[_Owned], dims: Sequence[int], owning: Owning
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
    point = _name_dimensions(first.by_unit, isl.smallest(isl.domain(extra)) or {})
    here = ownership.owners(second.by_unit, point, owning.size, second.use.where.tiling)
    there = ownership.owners(first.by_unit, point, owning.size, first.use.where.tiling)
    what = ownership.element(declared, dims, point)
    remedy = "index it the same way everywhere, or exchange the data between the threads explicitly"
    made = declared.declaration
    shared = isinstance(made, ir.Alloc) and made.memory.space is Space.SHARED
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
    declared: ownership.Declared,
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
    who = ownership.unit_names([list(at.values())[-1]], owning.size, tiling)
    a, b = (
        ownership.element(declared, dims, {f"i{d}": n for d, n in zip(dims, index, strict=True)})
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


def _clash(found: ownership.Relation) -> dict[str, int]:
    """The smallest index with two owners."""
    outputs = [f"{name}_" for name in found.outputs]
    own = found.map
    different = isl.map_of((), found.outputs, outputs, "u < u_")
    twice = isl.intersect_map(isl.compose(own, different), own)
    return _name_dimensions(found, isl.smallest(isl.domain(twice)) or {})


def _name_dimensions(found: ownership.Relation, point: dict[str, int]) -> dict[str, int]:
    """A point of the relation's domain with its dimensions named."""
    inputs = [name for name in point if name not in found.params]
    renamed = dict(zip(inputs, found.inputs, strict=False))
    return {renamed.get(name, name): value for name, value in point.items()}
