"""The operations of an AMIR program with what encloses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from exogpu.amir.nodes import (
    Alloc,
    Arrive,
    Await,
    Block,
    Check,
    CheckBarrier,
    Clear,
    Guard,
    IncTaskID,
    Loop,
    Op,
    Record,
    Release,
    Require,
)
from exogpu.amir.walk import accesses_of, operations
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, BExpr, CExpr, Int, Point
from exogpu.ir.walk import control_variables
from exogpu.result.errors import Span
from exogpu.symbolic.resident import Positions, Residence


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
    op: Op
    loops: tuple[Loop, ...]
    guards: tuple[tuple[int, BExpr], ...]
    """Enclosing conditions, each with the number of loops around it."""
    path: tuple[int, ...]
    """Position within the program, within each enclosing loop's body: one more than loops."""
    task: int | None
    """How many of the loops identify the task; None outside every task."""
    residence: Residence | None = None
    """Of the launch that it stands in, where memory resides there."""

    @property
    def tuple_name(self) -> str:
        return f"S{self.number}"

    @property
    def iterators(self) -> tuple[Sym, ...]:
        return tuple(loop.iterator for loop in self.loops)


def sites(by_position: Positions) -> tuple[Site, ...]:
    """Every operation of the program but loops and guards, in program order; and a loop where it
    binds a slot, as the place where it counts.

    Raises UndecidedError where tasks begin elsewhere than at the start of a loop's body, or one
    loop stands in two places; or where what resides depends on the task.
    """
    found: list[Site] = []
    _flatten(by_position.program.body, (), (), (), None, [0], found)
    places: dict[Loop, tuple[int, ...]] = {}
    for site in found:
        for depth, loop in enumerate(site.loops):
            # Common loops are told by identity.
            if places.setdefault(loop, site.path[: depth + 1]) != site.path[: depth + 1]:
                raise UndecidedError("one loop stands in two places", loop.origin.span)
    return tuple(_by_position(found, by_position) if by_position.residences else found)


def _flatten(
    block: Block,
    loops: tuple[Loop, ...],
    guards: tuple[tuple[int, BExpr], ...],
    prefix: tuple[int, ...],
    task: int | None,
    counter: list[int],
    found: list[Site],
) -> None:
    for op in block:
        counter[0] += 1
        match op:
            case Loop():
                begins = [i for i, inner in enumerate(op.body) if isinstance(inner, IncTaskID)]
                if begins and (begins != [0] or task is not None):
                    raise UndecidedError("a task begins inside another", op.origin.span)
                inner = len(loops) + 1 if begins else task
                around = (*prefix, counter[0])
                if op.slot is not None:
                    _check_slot(op)
                    found.append(Site(len(found), op, loops, guards, around, task))
                _flatten(op.body, (*loops, op), guards, around, inner, [0], found)
            case Guard():
                inside = (*guards, (len(loops), op.condition))
                _flatten(op.body, loops, inside, prefix, task, counter, found)
            case IncTaskID() if task != len(loops) or counter[0] > 1:
                raise UndecidedError("a task begins elsewhere than first in a loop", op.origin.span)
            case _:
                path = (*prefix, counter[0])
                found.append(Site(len(found), op, loops, guards, path, task))


def _check_slot(loop: Loop) -> None:
    """Raises UndecidedError where the loop of a slot is no binding: it counts before anything in
    it happens, and nothing in it counts or is counted."""
    assert loop.slot is not None
    element = all(isinstance(c, Point) and isinstance(c.at, Int) for c in loop.slot.coords)
    ring = loop.lo == Int(0) and isinstance(loop.hi, Int) and loop.hi.value > 0
    inside = operations(loop.body)
    if not element or not ring or not all(isinstance(op, _IN_SLOTS) for op in inside):
        raise UndecidedError("a slot binds other than accesses", loop.origin.span)


_IN_SLOTS: Final = (Loop, Guard, Record, Check, Clear, Require)


def slots_around(site: Site) -> tuple[Loop, ...]:
    """The loops around a site that bind slots, outermost first."""
    return tuple(loop for loop in site.loops if loop.slot is not None)


def reads_slot(site: Site) -> bool:
    """Whether an access depends on a slot."""
    assert isinstance(site.op, Record | Check | Clear)
    read = read_by(site.op.access)
    return any(loop.iterator in read for loop in slots_around(site))


# --- tasks by position --------------------------------------------------------------------------


def _by_position(found: Sequence[Site], by_position: Positions) -> Iterator[Site]:
    """The sites without the loops of tasks that stand at positions, but where they read them."""
    inside = {residence.loop: residence for residence in by_position.residences}
    variables = {variable.name: variable for variable in by_position.program.variables}
    around = {
        site: next((inside[loop] for loop in site.loops if loop in inside), None) for site in found
    }
    told = {
        access.name
        for site, residence in around.items()
        if residence is not None and isinstance(site.op, Record | Check | Clear)
        for access in (site.op.access,)
        if read_by(access) & residence.iterators
    }
    for name in told:
        if variables[name].resident or variables[name].mechanism is not None:
            span = next(s.op.origin.span for s in found if name in variables_of(s.op))
            raise UndecidedError(_DEPENDS.format(f"which element of {name} is accessed"), span)
    for site, residence in around.items():
        if residence is None:
            yield replace(site, residence=(by_position.beside or {}).get(site.op))
            continue
        telling = isinstance(site.op, Require)
        if not telling:
            _independent(site, residence)
            telling = isinstance(site.op, Record | Check | Clear) and site.op.access.name in told
        yield _placed(site, residence, telling)


_DEPENDS: Final = "where memory resides from task to task, {} depends on the task"


def _independent(site: Site, residence: Residence) -> None:
    """Raises UndecidedError where whether, or by whom, an operation is executed depends on the
    task."""
    first = residence.depth + 1 + len(residence.tasks)
    read = {name for _, condition in site.guards for name in control_variables(condition)}
    for loop in site.loops[first:]:
        read |= control_variables(loop.lo) | control_variables(loop.hi)
    threads = site.op.origin.threads
    for axis in () if threads is None else threads.axes:
        read |= control_variables(axis.offset)
    accesses = [] if isinstance(site.op, Check | Clear) else list(accesses_of(site.op))
    if isinstance(site.op, Record):
        accesses = accesses[1:]  # its own, which may tell the task
    for access in accesses:
        read |= read_by(access)
    if read & residence.iterators:
        what = "what is executed, or on which barrier,"
        raise UndecidedError(_DEPENDS.format(what), site.op.origin.span)


def _placed(site: Site, residence: Residence, telling: bool) -> Site:
    """A site in a task at a position; the loops of the tasks come last where it tells them, else
    not at all."""
    at, count = residence.depth + 1, len(residence.tasks)
    path = (*site.path[:at], *site.path[at + count :])
    tasks = residence.tasks if telling else ()
    return replace(
        site,
        loops=(*site.loops[:at], *site.loops[at + count :], *tasks),
        guards=tuple((n - count if n > at else n, b) for n, b in site.guards),
        path=(*path, *path[-1:] * len(tasks)),
        task=at,
        residence=residence,
    )


def of_tasks(site: Site) -> tuple[Loop, ...]:
    """The loops of tasks around a site of which one iteration stands at each position: they are
    its last loops."""
    found = site.residence
    return () if found is None else tuple(loop for loop in site.loops if loop in found.tasks)


def is_position(loop: Loop, site: Site) -> bool:
    """Whether a loop is over the positions of the site's tasks."""
    return site.residence is not None and loop is site.residence.loop


def one_cluster(first: Site, second: Site) -> bool:
    """Whether both stand in a launch in which memory resides, the same: one cluster executes both,
    whatever the tasks, where the loops around the launch agree."""
    return first.residence is not None and first.residence is second.residence


def expressions_of(access: Access) -> Iterator[CExpr]:
    """The expressions of an access."""
    for coord in access.coords:
        yield from (coord.at,) if isinstance(coord, Point) else (coord.lo, coord.hi)


def read_by(access: Access) -> frozenset[Sym]:
    """The control variables of an access."""
    return frozenset[Sym]().union(*map(control_variables, expressions_of(access)))


def variables_of(op: Op) -> Iterator[Sym]:
    """The variables that an operation uses, the one it allocates or releases included."""
    match op:
        case Alloc() | Release() | CheckBarrier():
            yield op.name
        case _:
            for access in accesses_of(op):
                yield access.name


def slot_of(site: Site) -> Access:
    """The element whose Arrives are counted where a slot is bound."""
    assert isinstance(site.op, Loop) and site.op.slot is not None
    return site.op.slot


def home_of(site: Site) -> Access:
    """The home of an Arrive, or of a Record's trailing barrier."""
    op = site.op
    if isinstance(op, Arrive):
        return op.home
    assert isinstance(op, Record) and op.trailing is not None
    return op.trailing.home


def targets_of(site: Site) -> tuple[Access, ...]:
    """The targets of an Arrive, or of a Record's trailing barrier."""
    op = site.op
    if isinstance(op, Arrive):
        return op.targets
    assert isinstance(op, Record) and op.trailing is not None
    return op.trailing.targets


def counted_on(site: Site) -> Access:
    """The element on which an Arrive, Await, trailing barrier or slot counts."""
    if isinstance(site.op, Loop):
        return slot_of(site)
    return site.op.barrier if isinstance(site.op, Await) else home_of(site)
