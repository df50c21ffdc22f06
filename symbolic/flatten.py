"""The operations of a program as sites: loops, guards and loads around each, tasks by position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from exogpu.amir import nodes as amir
from exogpu.amir.walk import accesses_of, operations
from exogpu.ir.affine import from_cexpr
from exogpu.ir.nodes import Access, BExpr, Compare, Int, Point, Sub
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.symbolic import sites as symbolic_sites
from exogpu.symbolic.tasks_by_position import Positions, Residence


def sites(by_position: Positions) -> tuple[symbolic_sites.Site, ...]:
    """Every operation of the program but loops and guards, in program order; and a loop where it
    binds a slot, as the place where it counts, or a value from memory, as where it is loaded.

    A load has one iteration, and where it is reached its value is in its range (decision
    `loaded-values`): it is the last of the loops of a site that reads it, and not around others.

    Raises UndecidedError where tasks begin elsewhere than at the start of a loop's body, or one
    loop stands in two places; or where what resides depends on the task.
    """
    found: list[symbolic_sites.Site] = []
    _flatten(by_position.program.body, _Context(), [0], found)
    told: _Told = frozenset()
    if by_position.residences:
        told = _variables_of_task(found, by_position)
        found = [_at_each_position(site, by_position, told) for site in found]
    found = _counted_alike(found)
    places: dict[amir.Loop, tuple[int, ...]] = {}
    for site in found:
        for depth, loop in enumerate(site.loops):
            # Common loops are told by identity.
            place = site.path[: depth + 1]
            if loop.source is None and places.setdefault(loop, place) != place:
                raise symbolic_sites.UndecidedError(
                    "one loop stands in two places", loop.origin.span
                )
    return tuple(_by_position(found, by_position, told) if by_position.residences else found)


@dataclass(frozen=True, slots=True)
class _Context:
    """The loops, guards and loads around a block."""

    loops: tuple[amir.Loop, ...] = ()
    guards: tuple[tuple[int, BExpr], ...] = ()
    prefix: tuple[int, ...] = ()
    task: int | None = None
    loads: tuple[amir.Loop, ...] = ()

    def site(self, op: amir.Op, number: int, place: int) -> symbolic_sites.Site:
        """An operation in the block, with the loads that it reads."""
        path = (*self.prefix, place)
        plain = symbolic_sites.Site(number, op, self.loops, self.guards, path, self.task)
        loads = tuple(_read_of(self.loads, _reads(plain)))
        path = (*path, *path[-1:] * len(loads))
        return replace(plain, loops=(*self.loops, *loads), path=path)


def _flatten(
    block: amir.Block, around: _Context, counter: list[int], found: list[symbolic_sites.Site]
) -> None:
    task, loops = around.task, around.loops
    for op in block:
        counter[0] += 1
        match op:
            case amir.Loop(source=Access()):
                _check_load(op)
                found.append(around.site(op, len(found), counter[0]))
                known = (*around.guards, *((len(loops), one) for one in _in_some_range(op, around)))
                inside = replace(around, loads=(*around.loads, op), guards=known)
                _flatten(op.body, inside, counter, found)
            case amir.Loop():
                begins = [i for i, inner in enumerate(op.body) if isinstance(inner, amir.IncTaskID)]
                if begins and (begins != [0] or task is not None):
                    raise symbolic_sites.UndecidedError(
                        "a task begins inside another", op.origin.span
                    )
                if op.slot is not None:
                    _check_slot(op)
                    found.append(around.site(op, len(found), counter[0]))
                inside = replace(
                    around,
                    loops=(*loops, op),
                    prefix=(*around.prefix, counter[0]),
                    task=len(loops) + 1 if begins else task,
                )
                _flatten(op.body, inside, [0], found)
            case amir.Guard():
                guards = (*around.guards, (len(loops), op.condition))
                _flatten(op.body, replace(around, guards=guards), counter, found)
            case amir.IncTaskID() if task != len(loops) or counter[0] > 1:
                raise symbolic_sites.UndecidedError(
                    "a task begins elsewhere than first in a loop", op.origin.span
                )
            case _:
                found.append(around.site(op, len(found), counter[0]))


# --- values from memory -------------------------------------------------------------------------


def _in_some_range(load: amir.Loop, around: _Context) -> Iterator[BExpr]:
    """Yields the condition that a load's range is not empty, for statements that follow it.

    It is said where sizes alone tell it, and may tell otherwise.
    """
    inside = {loop.iterator for loop in (*around.loops, *around.loads)}
    if (control_variables(load.lo) | control_variables(load.hi)) & inside:
        return
    extent = from_cexpr(Sub(load.hi, load.lo), {}, {})
    growing = all(count > 0 and isinstance(atom, Sym) for atom, count in extent.terms)
    least = 0 if extent.terms else 1  # Sizes are at least 1.
    if not growing or extent.constant < least:
        yield Compare("<", load.lo, load.hi)


def _reads(site: symbolic_sites.Site) -> frozenset[Sym]:
    """The iterators that a site is made of: its loops, guards, threads and accesses."""
    op = site.op
    found = [control_variables(condition) for _, condition in site.guards]
    found += [control_variables(end) for loop in site.loops for end in (loop.lo, loop.hi)]
    found += [symbolic_sites.read_by(access) for access in accesses_of(op)]
    threads = op.origin.threads
    found += [control_variables(axis.offset) for axis in (threads.axes if threads else ())]
    if isinstance(op, amir.Loop):
        found += [control_variables(op.lo), control_variables(op.hi)]
    if isinstance(op, amir.Require):
        found += [control_variables(condition) for condition in op.conditions]
        found += [control_variables(end) for one in op.each for end in (one.lo, one.hi)]
    return frozenset[Sym]().union(*found)


def _read_of(loads: Sequence[amir.Loop], read: frozenset[Sym]) -> Sequence[amir.Loop]:
    """Selects the loads, in their order, whose values are read by these names or by another
    selected load."""
    found: list[amir.Loop] = []
    for load in reversed(loads):
        if load.iterator in read:
            found.append(load)
            read |= symbolic_sites.read_by_load(load)
    return found[::-1]


def _counted_alike(found: list[symbolic_sites.Site]) -> list[symbolic_sites.Site]:
    """The sites, where all that counts on a barrier reads the loads that some of it reads, as far
    as these are reached wherever it is: as many times as one loop of it goes, the others do."""
    places = {site.op: site for site in found if isinstance(site.op, amir.Loop) and site.op.source}
    if not places:
        return found
    read: dict[Sym, dict[amir.Loop, None]] = {}
    for site in found:
        if isinstance(site.op, _COUNTED):
            for name in symbolic_sites.variables_of(site.op):
                read.setdefault(name, {}).update(dict.fromkeys(_loads_counted(site)))
    made: list[symbolic_sites.Site] = []
    for site in found:
        more = [
            load
            for name in (
                symbolic_sites.variables_of(site.op) if isinstance(site.op, _COUNTED) else ()
            )
            for load in read.get(name, ())
            if load.iterator not in site.iterators and _reached_with(places[load], site)
        ]
        loads = (*symbolic_sites.loads_around(site), *dict.fromkeys(more))
        plain = len(site.loops) - len(symbolic_sites.loads_around(site))
        path = (*site.path[: plain + 1], *site.path[plain : plain + 1] * len(loads))
        made.append(replace(site, loops=(*site.loops[:plain], *loads), path=path))
    return made


def _loads_counted(site: symbolic_sites.Site) -> Iterator[amir.Loop]:
    """Yields the loads that may tell how often something counts on a barrier: Awaits with n >= 0
    are not counted themselves, so that only the bounds of loops around them matter."""
    bounds = frozenset[Sym]()
    for loop in site.loops:
        bounds |= control_variables(loop.lo) | control_variables(loop.hi)
    through = symbolic_sites.read_through(site, bounds)
    uncounted = isinstance(site.op, amir.Await) and site.op.n >= 0
    for load in symbolic_sites.loads_around(site):
        if not uncounted or load.iterator in through:
            yield load


_COUNTED: Final = (amir.Arrive, amir.Await, amir.CheckBarrier)


def _reached_with(load: symbolic_sites.Site, site: symbolic_sites.Site) -> bool:
    """Tests whether a load is reached in every iteration in which a site may be, and read only by
    what the site has, too."""
    around = [loop for loop in load.loops if loop.source is None]
    others = [loop for loop in load.loops if loop.source is not None]
    inside = list(site.loops[: len(around)]) == around
    guarded = site.guards[: len(load.guards)] == load.guards
    return inside and guarded and all(loop in site.loops for loop in others)


def _check_load(load: amir.Loop) -> None:
    """Raises UndecidedError where what is loaded is no single element."""
    assert load.source is not None
    if not all(isinstance(coord, Point) for coord in load.source.coords):
        raise symbolic_sites.UndecidedError("a window is loaded as one value", load.origin.span)


# --- slots --------------------------------------------------------------------------------------


def _check_slot(loop: amir.Loop) -> None:
    """Raises UndecidedError where the loop of a slot is no binding: it counts before anything in
    it happens, and nothing in it counts or is counted."""
    assert loop.slot is not None
    element = all(isinstance(c, Point) and isinstance(c.at, Int) for c in loop.slot.coords)
    ring = loop.lo == Int(0) and isinstance(loop.hi, Int) and loop.hi.value > 0
    inside = operations(loop.body)
    if not element or not ring or not all(isinstance(op, _IN_SLOTS) for op in inside):
        raise symbolic_sites.UndecidedError("a slot binds other than accesses", loop.origin.span)


_IN_SLOTS: Final = (amir.Loop, amir.Guard, amir.OnWindow, amir.Require)


# --- tasks by position --------------------------------------------------------------------------


def _launch_of(site: symbolic_sites.Site, by_position: Positions) -> Residence | None:
    """The launch in which memory resides in one of whose tasks a site stands."""
    return next((one for one in by_position.residences if one.loop in site.loops), None)


_Told: TypeAlias = frozenset[tuple[Sym, bool]]
"""Variables, each with whether it is about what has been written of it, or its records."""


def _initialises(op: amir.Op) -> bool:
    return isinstance(op, amir.Initialise | amir.CheckInitialised)


def _variables_of_task(found: Sequence[symbolic_sites.Site], by_position: Positions) -> _Told:
    """The variables of which the task tells whether, or where, they are accessed: what chooses the
    tasks tells it of arrays that are not the launch's own.  What has been written of these is told
    by the task in any case: each is executed by some cluster.  Raises UndecidedError where one of
    them resides, or synchronises."""
    variables = {variable.name: variable for variable in by_position.program.variables}
    allocated = {
        site.op.name
        for site in found
        if isinstance(site.op, amir.Alloc)
        and (variables[site.op.name].resident or _launch_of(site, by_position))
    }
    told = set[tuple[Sym, bool]]()
    for site in found:
        residence = _launch_of(site, by_position)
        if residence is None or not isinstance(site.op, amir.OnWindow):
            continue
        name, initialises = site.op.access.name, _initialises(site.op)
        chosen = residence.chosen if name in allocated else ()
        read = symbolic_sites.read_by(site.op.access) | _guarding(site, chosen)
        if symbolic_sites.read_through(site, read) & residence.iterators or (
            initialises and name not in allocated
        ):
            told.add((name, initialises))
    for name, _ in told:
        if variables[name].resident or variables[name].mechanism is not None:
            span = next(
                s.op.origin.span for s in found if name in symbolic_sites.variables_of(s.op)
            )
            raise symbolic_sites.UndecidedError(
                _DEPENDS.format(f"whether, or where, {name} is accessed"), span
            )
    return frozenset(told)


def _at_each_position(
    site: symbolic_sites.Site, by_position: Positions, told: _Told
) -> symbolic_sites.Site:
    """A site without the conditions that choose the tasks, which hold at each position: where they
    are not what tells its task.  Those on sizes alone stay, and cost nothing."""
    residence = _launch_of(site, by_position)
    if residence is None or _tells(site, told) or isinstance(site.op, amir.Require):
        return site
    tasks = residence.iterators
    op = site.op
    if (
        isinstance(op, amir.Loop)
        and op.source
        and symbolic_sites.read_through(site, symbolic_sites.read_by_load(op)) & tasks
    ):
        return site
    loads = symbolic_sites.loads_around(site)
    varying = tasks | {load.iterator for load in loads}
    guards = tuple(
        (n, b)
        for n, b in site.guards
        if not any(b is one for one in residence.chosen) or not control_variables(b) & varying
    )
    plain = len(site.loops) - len(loads)
    bare = replace(site, guards=guards, loops=site.loops[:plain], path=site.path[: plain + 1])
    kept = tuple(_read_of(loads, _reads(bare)))
    path = (*bare.path, *bare.path[-1:] * len(kept))
    return replace(bare, loops=(*bare.loops, *kept), path=path)


def _tells(site: symbolic_sites.Site, told: _Told) -> bool:
    """Tests whether a site is an access of a variable that the task tells."""
    op = site.op
    return isinstance(op, amir.OnWindow) and (op.access.name, _initialises(op)) in told


def _by_position(
    found: Sequence[symbolic_sites.Site], by_position: Positions, told: _Told
) -> Iterator[symbolic_sites.Site]:
    """The sites without the loops of tasks that stand at positions, but where they read them."""
    for site in found:
        residence = _launch_of(site, by_position)
        if residence is None:
            yield replace(site, residence=(by_position.beside or {}).get(site.op))
            continue
        telling = isinstance(site.op, amir.Require)
        if isinstance(site.op, amir.Loop) and site.op.source is not None:
            telling = bool(symbolic_sites.read_through(site, _reads(site)) & residence.iterators)
        elif not telling:
            _independent(site, residence)
            telling = _tells(site, told)
        yield _place_site(site, residence, telling)


_DEPENDS: Final = "where memory resides from task to task, {} depends on the task"


def _guarding(site: symbolic_sites.Site, chosen: Sequence[BExpr]) -> frozenset[Sym]:
    """The control variables of the conditions around a site, but those that choose the tasks."""
    others = (one for _, one in site.guards if not any(one is choice for choice in chosen))
    return frozenset[Sym]().union(*map(control_variables, others))


def _independent(site: symbolic_sites.Site, residence: Residence) -> None:
    """Raises UndecidedError where whether an operation synchronises, or by whom it is executed,
    depends on the task."""
    first = residence.depth + 1 + len(residence.tasks)
    plain = isinstance(site.op, amir.OnWindow) and (
        not isinstance(site.op, amir.Record) or site.op.trailing is None
    )
    read = set[Sym]() if plain else set(_guarding(site, residence.chosen))
    for loop in site.loops[first:]:
        if loop.source is None:
            read |= control_variables(loop.lo) | control_variables(loop.hi)
    threads = site.op.origin.threads
    for axis in () if threads is None else threads.axes:
        read |= control_variables(axis.offset)
    accesses = list(accesses_of(site.op))
    if isinstance(site.op, amir.OnWindow):
        accesses = accesses[1:]  # its own, which may tell the task
    for access in accesses:
        read |= symbolic_sites.read_by(access)
    if symbolic_sites.read_through(site, frozenset(read)) & residence.iterators:
        what = "what is executed, or on which barrier,"
        raise symbolic_sites.UndecidedError(_DEPENDS.format(what), site.op.origin.span)


def _place_site(
    site: symbolic_sites.Site, residence: Residence, telling: bool
) -> symbolic_sites.Site:
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
