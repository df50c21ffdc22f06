"""Ownership relations (section Distributed Memory Analysis): `own: index -> owner`.

The owner of an index is the set of units (threads, warps, warpgroups or CTAs) that access it.
A relation is parametric in the iterators in scope where the variable is allocated: each
iteration of them has a variable of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from exogpu.analysis.describe import numbers, thread_names
from exogpu.analysis.tiling import Tiling
from exogpu.analysis.uses import Declared, Use, Where
from exogpu.ir.isltext import cexpr, conjunction, identifier, in_range
from exogpu.ir.names import Sym
from exogpu.ir.nodes import CExpr, Int, Interval, Point
from exogpu.ir.walk import control_variables
from exogpu.solvers import isl


@dataclass(frozen=True, slots=True)
class Relation:
    """`[params] -> { [inputs] -> [outputs] : constraint }`, as text and as an ISL relation."""

    params: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constraint: str

    @property
    def map(self) -> isl.Map:
        """The ISL relation."""
        return _relation(self.params, self.inputs, self.outputs, self.constraint)

    @property
    def pairs(self) -> isl.Set:
        """Its pairs as a set with named dimensions."""
        return isl.set_of(self.params, (*self.inputs, *self.outputs), self.constraint)


@lru_cache(maxsize=1024)
def _relation(
    params: tuple[str, ...], inputs: tuple[str, ...], outputs: tuple[str, ...], constraint: str
) -> isl.Map:
    """Kept: several analyses ask of one use."""
    return isl.map_of(params, inputs, outputs, constraint)


def thread_iterators(use: Where, declared: Declared) -> frozenset[Sym]:
    """The thread iterators between the allocation and the use."""
    outside = {r.iterator for r in declared.where.tiling.ranges}
    return frozenset(r.iterator for r in use.tiling.ranges if r.iterator not in outside)


def relation(
    use: Use,
    declared: Declared,
    inputs: Mapping[str, int],
    thread: str | None,
    outputs: Mapping[str, int] | None = None,
    size: int = 1,
) -> Relation:
    """The relation between coordinates of a use and the units that make it.

    `inputs` and `outputs` name dimensions of the variable; `thread` names the unit, `size`
    threads a unit, as one more output, or as the only input where `outputs` are given.
    """
    outputs = outputs or {}
    dims = {**inputs, **outputs}
    coords = use.access.coords
    equations: list[str] = []
    read: set[Sym] = set()
    for name, d in dims.items():
        match coords[d]:
            case Point(at):
                equations.append(f"{name} = {cexpr(at)}")
                read |= control_variables(at)
            case Interval(lo, hi):
                equations.append(f"{cexpr(lo)} <= {name} and {name} < {cexpr(hi)}")
                read |= control_variables(lo) | control_variables(hi)
    if thread is not None and size == 1:
        equations.append(use.where.tiling.threads_text(thread))
    elif thread is not None:
        executes = use.where.tiling.threads_text("t")
        equations.append(f"(exists t : {thread} = floor(t / {size}) and {executes})")
    domain, seen = _domain(use.where, frozenset(read), thread is not None)
    outside = frozenset(declared.where.iterators)
    inner = [identifier(s) for s in use.where.iterators if s in seen and s not in outside]
    params = sorted(identifier(s) for s in seen if s not in use.where.iterators or s in outside)
    body = conjunction([*equations, domain])
    bound = f"(exists {', '.join(inner)} : {body})" if inner else body
    unit = () if thread is None else (thread,)
    if outputs:
        return Relation(tuple(params), (*inputs, *unit), tuple(outputs), bound)
    return Relation(tuple(params), tuple(inputs), unit, bound)


def _domain(where: Where, read: frozenset[Sym], threads: bool) -> tuple[str, frozenset[Sym]]:
    """Returns the constraints on the iterators that are read, and on those that guard them.

    Guards that concern neither the index nor a thread iterator are left out: they say when
    the access happens, not by whom.
    """
    ranges = {r.iterator: r for r in where.tiling.ranges}
    seen = set(read) | (set(ranges) if threads else set())
    texts: list[str] = []
    waiting = list(where.conditions)
    while chosen := [c for c in waiting if c[0] & seen]:
        waiting = [c for c in waiting if not c[0] & seen]
        for variables, text in chosen:
            texts.append(text)
            seen |= variables
    for iterator in seen & set(ranges):
        r = ranges[iterator]
        texts.append(in_range(iterator, Int(r.lo), Int(r.lo + r.count)))
    return conjunction(texts), frozenset(seen)


# --- which dimensions are distributed -------------------------------------------------------


def distributed_dims(declared: Declared, uses: Sequence[Use], size: int) -> tuple[int, ...]:
    """The dimensions whose index, in some use, is a function of the unit and not constant.

    `size` is the number of threads of a unit.
    """
    rank = len(declared.declaration.shape)
    return tuple(d for d in range(rank) if any(_varies(u, declared, d, size) for u in uses))


def _varies(use: Use, declared: Declared, d: int, size: int) -> bool:
    coord = use.access.coords[d]
    if not isinstance(coord, Point) or not _reads_threads(coord.at, use, declared):
        return False
    of_unit = relation(use, declared, {}, "u", {"e": d}, size).map
    alone = relation(use, declared, {}, None, {"e": d}).map
    return isl.is_function(of_unit) and not isl.is_function(alone)


def depends_on_thread(use: Use, declared: Declared, d: int) -> bool:
    """Tests whether the index of a dimension differs between threads at the same values of the
    other iterators."""
    coord = use.access.coords[d]
    exprs = [coord.at] if isinstance(coord, Point) else [coord.lo, coord.hi]
    return any(_differs_by_thread(e, use, declared) for e in exprs)


def _differs_by_thread(expr: CExpr, use: Use, declared: Declared) -> bool:
    if not _reads_threads(expr, use, declared):
        return False
    threads = thread_iterators(use.where, declared)
    others = sorted(identifier(v) for v in control_variables(expr) - threads)
    domain, seen = _domain(use.where, control_variables(expr), False)
    inner = sorted(identifier(v) for v in seen if identifier(v) not in others)
    text = conjunction([f"e = {cexpr(expr)}", domain])
    return not isl.is_function(
        isl.map_of((), others, ("e",), f"(exists {', '.join(inner)} : {text})")
    )


def _reads_threads(expr: CExpr, use: Use, declared: Declared) -> bool:
    return bool(control_variables(expr) & thread_iterators(use.where, declared))


# --- in words -------------------------------------------------------------------------------


def owners(found: Relation, point: Mapping[str, int], size: int, tiling: Tiling) -> str:
    """The units that own an index, in words."""
    at = {n: v for n, v in point.items() if n in (*found.params, *found.inputs)}
    free = isl.fix(found.pairs, at)
    for name in found.params:
        free = isl.drop_param(free, name)
    units = [u[-1] for u in isl.points(isl.project_onto(free, found.outputs))]
    return unit_names(units, size, tiling)


def unit_names(units: Sequence[int], size: int, tiling: Tiling) -> str:
    """Units of `size` threads, by their numbers, in words."""
    if size == tiling.block_dim and tiling.cluster_dim > 1:
        return f"CTA{'s' if len(units) > 1 else ''} {numbers(units)}"
    threads = [t for u in units for t in range(u * size, (u + 1) * size)]
    return thread_names(threads, tiling.block_dim, tiling.cluster_dim)


def element(declared: Declared, dims: Sequence[int], point: Mapping[str, int]) -> str:
    """An index in words: `D[1, _]`, with `_` for the dimensions that are not distributed."""
    name = declared.declaration.name.name
    rank = len(declared.declaration.shape)
    if rank == 0:
        return name
    shown = [str(point.get(f"i{d}", "_")) if d in dims else "_" for d in range(rank)]
    return f"{name}[{', '.join(shown)}]"


def instances_collide(declared: Declared, size: int) -> bool:
    """Tests whether two iterations that allocate the variable at once share a unit.

    They would share its one allocation.
    """
    tiling = declared.where.tiling
    inner = [r.iterator for r in tiling.ranges]
    if not inner:
        return False
    names = [identifier(s) for s in inner]
    text = (
        f"{tiling.domain_text()} and "
        f"(exists t : u = floor(t / {size}) and {tiling.threads_text('t')})"
    )
    return not isl.is_injective(isl.map_of((), names, ("u",), text))
