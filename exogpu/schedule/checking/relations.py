"""The relations of one program that the checker asks: what is accessed, in which order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

from exogpu.analysis.domain import entry, never
from exogpu.analysis.overlap import common_element
from exogpu.ir.nodes import CallProc, Proc
from exogpu.ir.render import conjunction, identifier, isl_expr
from exogpu.ir.types import Sym
from exogpu.schedule.checking import opened_procedure
from exogpu.schedule.checking.statement_model import (
    Event,
    Place,
    Program,
    Time,
    cell,
    instances,
    moment,
    tuple_of,
)
from exogpu.schedule.rewrite import Copy, Image
from exogpu.solvers import isl_unions

Choice: TypeAlias = Callable[[Place, Event], bool]


def writes(_: Place, event: Event) -> bool:
    """Tests whether an event writes."""
    return event.writes


def touches(_: Place, event: Event) -> bool:
    """Tests whether an event reads."""
    return not event.writes


class Accessed:
    """The accesses of a program as relations, each made once; of some variables, if given."""

    def __init__(self, program: Program, variables: Collection[Sym] | None = None) -> None:
        self.program = program
        self.variables = program.variables.keys() if variables is None else variables
        self.params = program.params
        self._domains: dict[str, isl_unions.Points] = {}

    @cached_property
    def cells(self) -> isl_unions.Relation:
        """From each event to the element that it accesses."""
        return self.cells_of(lambda *_: True)

    def cells_of(self, choice: Choice) -> isl_unions.Relation:
        """The same of some events."""
        variables = self.program.variables
        pieces = [
            f"{tuple_of(place, event)} -> {cell(variables[event.access.name], event.access, {})}"
            for place, event in self.select_events(choice)
        ]
        return isl_unions.of_inputs(
            isl_unions.relation(self.params, pieces), self.points_of(choice)
        )

    def select_events(self, choice: Choice) -> Iterator[tuple[Place, Event]]:
        """Some events, each with its statement."""
        for place in self.program.places:
            for event in place.events:
                if event.access.name in self.variables and choice(place, event):
                    yield place, event

    @cached_property
    def events(self) -> isl_unions.Points:
        """Every event."""
        return isl_unions.inputs(self.cells)

    @cached_property
    def write_events(self) -> isl_unions.Points:
        """The events that write."""
        return self.points_of(writes)

    @cached_property
    def read_events(self) -> isl_unions.Points:
        """The events that read."""
        return self.points_of(touches)

    def points_of(self, choice: Choice) -> isl_unions.Points:
        """Some events."""
        clipped: list[str] = []
        plain: dict[str, tuple[Place, list[str]]] = {}
        for place, event in self.select_events(choice):
            if event.within:
                clipped.append(instances(place, event))
            else:
                plain.setdefault(place.name, (place, []))[1].append(event.name)
        found = isl_unions.points(self.params, clipped)
        for place, names in plain.values():
            found = isl_unions.union(found, isl_unions.of_names(self.domain(place), names))
        return found

    def domain(self, place: Place) -> isl_unions.Points:
        """The instances of a statement, by the names of all its events."""
        if place.name not in self._domains:
            names = [event.name for event in place.events]
            dims = ", ".join(map(identifier, place.iterators))
            piece = f"S[{dims}] : {place.constraint}"
            self._domains[place.name] = isl_unions.repeated_points(self.params, piece, names)
        return self._domains[place.name]

    def earlier_events(
        self, later: isl_unions.Relation, sooner: isl_unions.Relation
    ) -> isl_unions.Relation:
        """From each event to the sooner ones on the same element."""
        return self.earlier(isl_unions.compose(later, isl_unions.inverse(sooner)))

    def earlier(self, pairs: isl_unions.Relation) -> isl_unions.Relation:
        """The pairs of events whose second comes before the first."""
        return self.times.earlier(pairs)

    def not_later(self, pairs: isl_unions.Relation) -> isl_unions.Relation:
        """The pairs of events whose second does not come after the first."""
        return self.times.not_later(pairs)

    @cached_property
    def times(self) -> isl_unions.Schedule:
        """Returns the schedule of all events."""
        of = self.program
        times: dict[str, isl_unions.Timed] = {}
        keys: dict[str, str] = {}
        for place in of.places:
            for event in place.events:
                keys[event.name] = f"{place.name} {event.writes}"
                dims = tuple(map(identifier, place.iterators))
                times[keys[event.name]] = isl_unions.Timed(dims, moment(of, place, event))
        for edge, value in (("First", "-1"), ("Last", str(1 << 30))):
            for variable in of.variables.values():
                if variable.is_param:
                    rank = len(variable.shape)
                    dims = tuple(f"c{n}" for n in range(rank))
                    vector = (value, *["0"] * (of.depth - 1))
                    name = f"{edge}_{identifier(variable.name)}"
                    keys[name] = f"{edge} {rank}"
                    times[keys[name]] = isl_unions.Timed(dims, vector)
        return isl_unions.Schedule(self.params, times, keys)

    @cached_property
    def initials(self) -> isl_unions.Relation:
        """The parameters as they are given, as writes."""
        return self._edges("First")

    @cached_property
    def finals(self) -> isl_unions.Relation:
        """The parameters as they are left, as reads."""
        return self._edges("Last")

    def _edges(self, edge: str) -> isl_unions.Relation:
        pieces = []
        context = entry(self.program.proc).constraints
        for variable in self.program.variables.values():
            if variable.is_param and variable.name in self.variables:
                dims = ", ".join(f"c{n}" for n in range(len(variable.shape)))
                bounds = [f"0 <= c{n} < {isl_expr(e)}" for n, e in enumerate(variable.shape)]
                name = identifier(variable.name)
                within = conjunction((*context, *bounds))
                pieces.append(f"{edge}_{name}[{dims}] -> {name}[{dims}] : {within}")
        return isl_unions.relation(self.params, pieces)


# Finds the variables that a rewriting is about: of the others nothing has changed.
#
# A variable is untouched if the same statements access it, each as itself, at the same instances
# and elements, and in the same order among each other, and if no other statement stands for its
# elements.


def affected_variables(
    old: Program,
    new: Program,
    pairs: Iterable[tuple[Place, Place, Image]],
    copies: Iterable[tuple[Place, Copy]],
) -> frozenset[Sym]:
    """The variables of which anything may have changed; `pairs` are new and old statements."""
    found: set[Sym] = set()
    itself: set[str] = set()
    for place, was, image in pairs:
        if place.site == was.site and image == Image(image.old, inside=image.inside):
            itself.add(place.name)
        else:
            found |= {e.access.name for e in (*place.events, *was.events)}
    for place, copy in copies:
        found |= {copy.element.name, *(e.access.name for e in place.events)}
    for place in new.places:
        if place.name not in itself:
            found |= {e.access.name for e in place.events}
    before, after = _by_variable(old), _by_variable(new)
    for name in (old.variables.keys() | new.variables.keys()) - found:
        a, b = before.get(name, []), after.get(name, [])
        same = old.variables.get(name) == new.variables.get(name)
        if not same or _described(a, name) != _described(b, name):
            found.add(name)
    return frozenset(found)


def _by_variable(program: Program) -> dict[Sym, list[Place]]:
    found: dict[Sym, list[Place]] = {}
    for place in program.places:
        for name in dict.fromkeys(e.access.name for e in place.events):
            found.setdefault(name, []).append(place)
    return found


def _described(places: Sequence[Place], name: Sym) -> list[object]:
    """All that counts of the accesses of a variable."""
    times = _compressed([place.time for place in places])
    return [
        (
            place.site,
            place.domain,
            time,
            [(n, e.access, e.within) for n, e in enumerate(place.events) if e.access.name == name],
        )
        for place, time in zip(places, times, strict=True)
    ]


def _compressed(times: Sequence[Time]) -> list[Time]:
    """Times in the same order, without what all have, and with small numbers."""
    depth = max(map(len, times), default=0)
    padded = [(*time, *["0"] * (depth - len(time))) for time in times]
    columns: list[list[str]] = []
    for column in zip(*padded, strict=True):
        numbers = sorted({int(c) for c in column if c.isdigit()})
        ranks = {str(number): str(rank) for rank, number in enumerate(numbers)}
        if len(numbers) > 1 or not all(c.isdigit() for c in column):
            columns.append([ranks.get(c, c) for c in column])
    return [tuple(row) for row in zip(*columns, strict=True)] if columns else [()] * len(times)


# Calls whose operands have elements in common, which steps of the procedure called leave out.
#
# A procedure is rewritten as one whose parameters are arrays apart. Where a call gives it windows
# of one variable that overlap, of which it writes one, what was derived from it may do another
# thing.


def sharing(new: Program, called: Mapping[CallProc, Proc]) -> Iterator[tuple[CallProc, str]]:
    """Such calls, of those in whose place another procedure is read, and what they share."""
    for call in new.calls:
        if not isinstance(call.stmt, CallProc) or call.stmt not in called:
            continue
        written = _written_variables(call.stmt.proc) | _written_variables(called[call.stmt])
        for (one, first), (other, second) in combinations(call.operands.items(), 2):
            if first.name is not second.name or not written & {one, other}:
                continue
            shape = new.variables[first.name].shape
            domain, _, both = common_element(call.domain, shape, first, second)
            if not never(domain, [conjunction(both)]):
                shared = f"{one.name} and {other.name} have elements of {first.name.name} in common"
                yield call.stmt, f"{shared}, and the steps between the procedures took them apart"


def _written_variables(proc: Proc) -> frozenset[Sym]:
    """The variables that a procedure writes, parameters by their names."""
    events = (
        event for place in opened_procedure.program(proc, "W").places for event in place.events
    )
    return frozenset(event.access.name for event in events if event.writes)
