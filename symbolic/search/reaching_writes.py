"""Finds the writes before a read, element by element, and what no write has reached.

The rule is decision `initialised`.
A write in the loops of the read, above it and of the same elements is seen without ISL.  Of others
those come first that are executed whatever the sizes: a loop that may have no iteration and a guard
leave something over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exogpu.amir.nodes import CheckInitialised, Initialise
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import Access, CExpr, CVar, Int, Interval, Point
from exogpu.ir.render import identifier
from exogpu.ir.types import Sym
from exogpu.solvers import isl, isl_functions
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.model import Placed
from exogpu.symbolic.search.dependences import Finding
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.inversion import ELEMENT, writer_of
from exogpu.symbolic.search.load_relations import same_loads
from exogpu.symbolic.search.rank_comparisons import SlotPairs
from exogpu.symbolic.sites import Site, loads_around, one_cluster, order_of


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Elements of reads that a write has written before."""

    write: Site
    by: isl.Map | None = None
    """`[read -> element] -> write`; None where `at` says it."""
    at: tuple[CExpr, ...] = ()
    """The write's iterators, of the read's iterators and the indices ELEMENT."""


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """The elements that a statement reads, by the writes that have written them."""

    read: Site
    frame: Frame
    written: tuple[Written, ...]
    left: Finding | None
    """The elements that no write has reached."""


def reads(slots: SlotPairs, name: Sym) -> Iterator[Reached]:
    """Yields each read of a variable within a frame."""
    frame = slots.frame
    writes = [s for s in frame.sites if isinstance(s.op, Initialise) and s.op.access.name == name]
    for site in frame.sites:
        if isinstance(site.op, CheckInitialised) and site.op.access.name == name:
            yield _reaching(slots, name, writes, site, site.op.access)


def _reaching(
    slots: SlotPairs, name: Sym, writes: Sequence[Site], read: Site, access: Access
) -> Reached:
    frame = slots.frame
    for write in writes:
        if _covers(frame.model, write, read, access):
            own = tuple(CVar(name) for name in write.iterators)
            return Reached(read, frame, (Written(write, at=own),), None)
    left = frame.cells(read, access)
    written: list[Written] = []
    for write in sorted(writes, key=lambda one: _rank(one, read)):
        if isl.is_empty(left):
            break
        by = _written_by(slots, name, write, read)
        if by is None:
            continue
        at = writer_of(write, read)
        if at is not None:
            there = isl.intersect_map(by, _instances_at(frame, read, write, at))
            met = isl.intersect_map(left, isl_functions.inputs_of(there))
            if not isl.is_empty(met):
                written.append(Written(write, at=at))
                left = rel.coalesce(isl.subtract_map(left, met))
        met = isl.intersect_map(left, isl_functions.inputs_of(by))
        if not isl.is_empty(met):
            written.append(Written(write, isl_functions.among(by, met)))
            left = rel.coalesce(isl.subtract_map(left, met))
    left = rel.restrict_parameters(left, frame.context())
    if isl.is_empty(left):
        return Reached(read, frame, tuple(written), None)
    finding = Finding(HazardKind.UNINIT, frame, name, read, None, left)
    return Reached(read, frame, tuple(written), finding)


def _written_by(slots: SlotPairs, name: Sym, write: Site, read: Site) -> isl.Map | None:
    """Maps `[read -> element]` to writes that are surely executed before; None if there are
    none."""
    op, frame = write.op, slots.frame
    assert isinstance(op, Initialise)
    known = {load.source for load in loads_around(read)}
    if not all(load.source in known for load in loads_around(write)):
        return None  # Memory may hold other values, and then the write does not happen.
    order = _with_same_values(frame, frame.earlier(write, read, name), write, read)
    if rel.is_plainly_empty(order):
        return None
    cells = frame.cells(write, op.access)
    residence = write.residence
    if (
        residence is not None
        and write.task is not None
        and not frame.model.variables[name].resident
    ):
        if one_cluster(write, read) and read.task is not None:
            order = frame.within_task(order, write, read)
        elif residence.depth >= frame.depth:
            # Each task is executed, at some position of some cluster: one stands for all.
            count = identifier(residence.count.name)
            order, cells = isl.drop_param(order, count), isl.drop_param(cells, count)
            order = rel.fix_input(order, residence.depth - frame.depth, 0)
    order = slots.meet(order, write, read)
    if isl.is_empty(order):
        return None
    return isl_functions.joined(isl.inverse(order), isl.inverse(cells))


def _with_same_values(frame: Frame, order: isl.Map, write: Site, read: Site) -> isl.Map:
    """Keeps the pairs in which each value from memory of the write is one that the read knows."""
    for same in same_loads(frame, write, read):
        order = rel.equal_dims(order, same.read)
        order = rel.equal_dims(order, [pair for pair in same.values if min(pair) >= 0])
    return order


def _instances_at(frame: Frame, read: Site, write: Site, at: Sequence[CExpr]) -> isl.Map:
    """`[read -> element] -> write`, by the write's iterators as expressions of the read's and of
    ELEMENT."""
    assert isinstance(write.op, Initialise)
    name, inner, expr = write.op.access.name, at[frame.depth :], frame.model.expr
    head = frame.head_of(frame.read | (frame.model.read_by(*inner) - {*ELEMENT}))
    element = ", ".join(map(identifier, ELEMENT[: len(frame.model.variables[name].shape)]))
    dims = ", ".join(frame.dimensions(read))
    return isl.parse_map(
        f"{head}{{ [{read.tuple_name}[{dims}] -> V{name.number}[{element}]]"
        f" -> {write.tuple_name}[{', '.join(map(expr, inner))}] }}"
    )


def _rank(write: Site, read: Site) -> tuple[int, bool, int, int]:
    """Orders writes: those come first that are more surely executed, then the nearer ones."""
    common, above = order_of(write, read)
    own = write.loops[common:]
    perhaps = sum(not isinstance(end, Int) for loop in own for end in (loop.lo, loop.hi))
    perhaps += sum(guard not in read.guards for guard in write.guards)
    return perhaps, not above, -common, -write.number if above else write.number


# --- without ISL --------------------------------------------------------------------------------


def _covers(placed: Placed, write: Site, read: Site, access: Access) -> bool:
    """Tests whether a write above a read is executed in each of its iterations, with all of it."""
    op = write.op
    assert isinstance(op, Initialise)
    common, above = order_of(write, read)
    if common < len(write.loops) or not above:
        return False
    if write.residence is not read.residence or write.task != read.task:
        return False
    if not all(guard in read.guards for guard in write.guards):
        return False
    extents = placed.variables[access.name].shape
    return all(
        _holds(one, other, extent)
        for one, other, extent in zip(op.access.coords, access.coords, extents, strict=True)
    )


def _holds(outer: Point | Interval, inner: Point | Interval, extent: CExpr) -> bool:
    """Tests whether a coordinate holds all of another, inside the variable."""
    match outer, inner:
        case Interval(Int(0), hi), _ if hi == extent:
            return True
        case Interval(Int(lo), Int(hi)), Point(Int(at)):
            return lo <= at < hi
        case Interval(Int(lo), Int(hi)), Interval(Int(first), Int(end)):
            return lo <= first and end <= hi
        case _:
            return outer == inner
