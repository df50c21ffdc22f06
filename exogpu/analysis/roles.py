"""Phases that several roles share: dimensions of an mbarrier variable with an element a role.

full: barrier[2] @ CudaMbarrier
with CudaWarps(name="a"):
    Arrive(cuda_in_order) >> full[:]           # one phase, for both
with CudaWarps(name="b"):
    Await(full[0], cuda_in_order, ~0)          # each counts for itself
with CudaWarps(name="c"):
    Await(full[1], cuda_in_order, ~0)

The abstract machine has a barrier for each element, and an Arrive or Await of `:` is one of each.
The hardware has one mbarrier for all: decision `shared-phases`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from exogpu.analysis.ownership import Declared, Use
from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.ir import nodes as ir
from exogpu.ir.affine import constant, difference
from exogpu.ir.types import BarrierMechanism, Sym
from exogpu.ir.walk import walk


@dataclass(frozen=True, slots=True)
class Roles:
    """The dimensions of an mbarrier variable that have an element for each role."""

    waiting: frozenset[int] = frozenset()
    """The dimensions of roles that await: every arrival is one for all of them."""
    arriving: frozenset[int] = frozenset()
    """The dimensions of roles that arrive: every Await is one for all of them."""

    @property
    def dims(self) -> frozenset[int]:
        """All of them: the mbarrier is the same along these."""
        return self.waiting | self.arriving


NO_ROLES = Roles()


def roles_of(proc: ir.Proc) -> Mapping[Sym, Roles]:
    """The roles of the mbarrier variables that have some.

    A dimension is of arriving roles if an Await is on all of it, and of waiting ones if an Arrive
    is on all of it in each of its targets, and an Await on one element.
    """
    waiting: dict[Sym, set[int]] = {}
    arriving: dict[Sym, set[int]] = {}
    awaited: dict[Sym, set[int]] = {}
    for stmt in walk(proc.body):
        match stmt:
            case ir.Arrive():
                several = (wide(target) for target in stmt.targets)
                found = frozenset.intersection(*several)
                waiting.setdefault(stmt.targets[0].name, set()).update(found)
            case ir.Await():
                name, everything = stmt.barrier.name, wide(stmt.barrier)
                arriving.setdefault(name, set()).update(everything)
                points = set(range(len(stmt.barrier.coords))) - everything
                awaited.setdefault(name, set()).update(points)
            case _:
                pass
    mechanism = {s.name: s.mechanism for s in walk(proc.body) if isinstance(s, ir.BarrierAlloc)}
    roles = {
        name: Roles(
            frozenset(waiting.get(name, set()) & awaited.get(name, set())),
            frozenset(arriving.get(name, ())),
        )
        for name in waiting.keys() | arriving.keys()
        if mechanism[name] is BarrierMechanism.MBARRIER
    }
    return {name: found for name, found in roles.items() if found.dims}


def wide(access: ir.Access) -> frozenset[int]:
    """The dimensions in which an access of a barrier is of several elements."""
    return frozenset(d for d, coord in enumerate(access.coords) if point_of(coord) is None)


def point_of(coord: ir.Coord) -> ir.Point | None:
    """A coordinate of one element; an interval of extent 1 is one."""
    match coord:
        case ir.Point():
            return coord
        case ir.Interval(ir.Int(lo), ir.Int(hi)) if hi == lo + 1:
            return ir.Point(coord.lo)
        case ir.Interval(lo, hi) if hi == ir.Add(lo, ir.Int(1)):
            return ir.Point(lo)
        case _:
            return None


def access_at(access: ir.Access, index: Mapping[int, int]) -> ir.Access:
    """The access with these points in these dimensions."""
    coords = (ir.Point(ir.Int(index[d])) if d in index else c for d, c in enumerate(access.coords))
    return replace(access, coords=tuple(coords))


def first_element(access: ir.Access, dims: frozenset[int]) -> ir.Access:
    """The access with the first element in these dimensions."""
    return access_at(access, dict.fromkeys(dims, 0))


def elements(dims: frozenset[int], shape: Sequence[ir.CExpr]) -> Iterator[Mapping[int, int]]:
    """The indices of all elements along dimensions of constant extent."""
    along = sorted(dims)
    extents = [constant(shape[d]) for d in along]
    assert None not in extents, "refused by check_roles"
    for index in product(*(range(extent or 0) for extent in extents)):
        yield dict(zip(along, index, strict=True))


def spread(
    stmt: ir.Arrive, roles: Roles, shape: Sequence[ir.CExpr]
) -> Iterator[tuple[ir.Access, ...]]:
    """The targets of an Arrive for each of the roles that wait."""
    for index in elements(roles.waiting, shape):
        yield tuple(access_at(target, index) for target in stmt.targets)


# --- what is refused ------------------------------------------------------------------------


def check_roles(declared: Declared, roles: Roles, of_ctas: frozenset[int]) -> Iterator[Diagnostic]:
    """At most one: all arrivals and Awaits agree on what the elements of a dimension are, and
    they are no CTAs."""
    alloc = declared.declaration
    for use in declared.uses:
        if roles.dims & of_ctas & wide(use.access):
            yield _of_ctas(use, alloc.name)
            return
        for d in sorted(roles.dims):
            wrong = _wrong(use, d, roles, alloc.shape[d])
            if wrong is not None:
                yield Diagnostic(
                    "D520",
                    f"dimension {d} of {alloc.name} has an element for each role that "
                    f"{'awaits it' if d in roles.waiting else 'arrives on it'}, and this {wrong}",
                    use.span,
                    "where roles share a phase, one side is on all elements, as z[:], and the "
                    "other on its own, as z[0] and z[1], in every statement",
                    (Note("allocated here", alloc.span),),
                )
                return


def _of_ctas(use: Use, name: Sym) -> Diagnostic:
    if isinstance(use.stmt, ir.Await):
        return Diagnostic(
            "D520",
            f"this Await on {name} is for several CTAs",
            use.span,
            "await the element of the thread's own CTA",
        )
    return Diagnostic(
        "D507",
        f"this Arrive has no home: no target is a point in every dimension of {name}",
        use.span,
        "index each dimension by a point in at least one target, as in >> z[m, :] >> z[:, n], "
        "whose home is z[m, n]",
    )


def _wrong(use: Use, d: int, roles: Roles, extent: ir.CExpr) -> str | None:
    """Describes a use that its dimension of roles does not allow; None if it is allowed."""
    if constant(extent) is None:
        return "has an extent that is no constant"
    if d in roles.waiting and d in roles.arriving:
        return "is awaited as a whole elsewhere"
    whole = d in (roles.arriving if isinstance(use.stmt, ir.Await) else roles.waiting)
    coord = use.access.coords[d]
    does = "awaits" if isinstance(use.stmt, ir.Await) else "arrives on"
    if not whole:
        return None if point_of(coord) is not None else f"{does} several of them"
    if isinstance(coord, ir.Interval) and constant(coord.lo) == 0 == difference(coord.hi, extent):
        return None
    return f"{does} a part of them"
