"""The operations of an AMIR program with what encloses them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from exogpu.amir import nodes as amir
from exogpu.amir.walk import accesses_of
from exogpu.diagnostics.errors import Span
from exogpu.ir.nodes import Access, BExpr, CExpr, Point
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.symbolic.tasks_by_position import Residence


class UndecidedError(Exception):
    """A statement lies outside what the prover can express; it carries reason and place."""

    def __init__(self, reason: str, span: Span) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """An operation and what encloses it."""

    number: int
    """Place in the program text; its instances are tuples `S<number>`."""
    op: amir.Op
    loops: tuple[amir.Loop, ...]
    guards: tuple[tuple[int, BExpr], ...]
    """Enclosing conditions, each with the number of loops around it."""
    path: tuple[int, ...]
    """Position within the program, within each enclosing loop's body: one more than loops."""
    task: int | None
    """The number of loops that identify the task; None outside every task."""
    residence: Residence | None = None
    """The residence of its launch, where memory resides there."""
    iterators: tuple[Sym, ...] = field(init=False)
    """The iterators of its loops."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterators", tuple(loop.iterator for loop in self.loops))

    @property
    def tuple_name(self) -> str:
        return f"S{self.number}"


def order_of(first: Site, second: Site) -> tuple[int, bool]:
    """The number of common loops, and whether the first stands above the second in them."""
    common = 0
    for one, other in zip(first.loops, second.loops, strict=False):
        if one is not other:
            break
        common += 1
    return common, first.path[common] < second.path[common]


def where_begun(
    site: Site, loops: Sequence[amir.Loop], counted: Iterable[Site], least: int
) -> int | None:
    """In how many of these loops, which are around all that is counted, a slot is bound before all
    of it; None where it is bound elsewhere, or in fewer than the least."""
    common = 0
    for one, other in zip(site.loops, loops, strict=False):
        if one is not other:
            break
        common += 1
    if not least <= common < len(loops) or not isinstance(site.op, amir.Loop):
        return None
    first = all(site.path[common] < other.path[common] for other in counted)
    return common if first else None


def loads_around(site: Site) -> tuple[amir.Loop, ...]:
    """The loads whose values a site reads, outermost first."""
    return tuple(loop for loop in site.loops if loop.source is not None)


def is_decided_by_loads(site: Site) -> bool:
    """Tests whether a guard of a site reads a value from memory."""
    loaded = {load.iterator for load in loads_around(site)}
    return any(control_variables(condition) & loaded for _, condition in site.guards)


def loaded_from(site: Site) -> frozenset[Access]:
    """The elements that have the values that a site reads."""
    return frozenset(loop.source for loop in site.loops if loop.source is not None)


def read_by_source(load: amir.Loop) -> frozenset[Sym]:
    """Returns the variables that the element of a load reads."""
    assert load.source is not None
    return read_by(load.source)


def read_by_load(load: amir.Loop) -> frozenset[Sym]:
    """Returns the variables that the element of a load, and its range, read."""
    return read_by_source(load) | control_variables(load.lo) | control_variables(load.hi)


def read_through(site: Site, read: frozenset[Sym]) -> frozenset[Sym]:
    """The names, and those that tell the values from memory among them."""
    for load in reversed(loads_around(site)):
        if load.iterator in read:
            read |= read_by_load(load)
    return read


def slots_around(site: Site) -> tuple[amir.Loop, ...]:
    """The loops around a site that bind slots, outermost first."""
    return tuple(loop for loop in site.loops if loop.slot is not None)


def reads_slot(site: Site) -> bool:
    """Tests whether an access depends on a slot."""
    assert isinstance(site.op, amir.OnWindow)
    read = read_by(site.op.access)
    return any(loop.iterator in read for loop in slots_around(site))


def of_tasks(site: Site) -> tuple[amir.Loop, ...]:
    """The loops of tasks around a site of which one iteration stands at each position: they are
    its last loops."""
    found = site.residence
    return () if found is None else tuple(loop for loop in site.loops if loop in found.tasks)


def is_position(loop: amir.Loop, site: Site) -> bool:
    """Tests whether a loop is over the positions of the site's tasks."""
    return site.residence is not None and loop is site.residence.loop


def one_cluster(first: Site, second: Site) -> bool:
    """Tests whether both stand in the same launch with resident memory: one cluster executes both,
    whatever the tasks, if the loops around the launch agree."""
    return first.residence is not None and first.residence is second.residence


def expressions_of(access: Access) -> Iterator[CExpr]:
    """The expressions of an access."""
    for coord in access.coords:
        yield from (coord.at,) if isinstance(coord, Point) else (coord.lo, coord.hi)


def read_by(access: Access) -> frozenset[Sym]:
    """The control variables of an access."""
    return frozenset[Sym]().union(*map(control_variables, expressions_of(access)))


def variables_of(op: amir.Op) -> Iterator[Sym]:
    """The variables that an operation uses, the one it allocates or releases included."""
    match op:
        case amir.Alloc() | amir.Release() | amir.CheckBarrier():
            yield op.name
        case _:
            for access in accesses_of(op):
                yield access.name


def slot_of(site: Site) -> Access:
    """The element whose Arrives are counted where a slot is bound."""
    assert isinstance(site.op, amir.Loop) and site.op.slot is not None
    return site.op.slot


def home_of(site: Site) -> Access:
    """The home of an Arrive, or of a Record's trailing barrier."""
    op = site.op
    if isinstance(op, amir.Arrive):
        return op.home
    assert isinstance(op, amir.Record) and op.trailing is not None
    return op.trailing.home


def targets_of(site: Site) -> tuple[Access, ...]:
    """The targets of an Arrive, or of a Record's trailing barrier."""
    op = site.op
    if isinstance(op, amir.Arrive):
        return op.targets
    assert isinstance(op, amir.Record) and op.trailing is not None
    return op.trailing.targets


def counted_on(site: Site) -> Access:
    """The element on which an Arrive, Await, trailing barrier or slot counts."""
    if isinstance(site.op, amir.Loop):
        return slot_of(site)
    return site.op.barrier if isinstance(site.op, amir.Await) else home_of(site)
