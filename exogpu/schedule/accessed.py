"""The relations of one program that the checker asks: what is accessed, in which order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import TypeAlias

from exogpu.analysis.instances import entry
from exogpu.ir.isltext import cexpr, conjunction, identifier
from exogpu.ir.names import Sym
from exogpu.schedule.events import Event, Place, Program, cell, instances, moment, tuple_of
from exogpu.solvers import isl_unions as un

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
        self._domains: dict[str, un.Points] = {}

    @cached_property
    def cells(self) -> un.Relation:
        """From each event to the element that it accesses."""
        return self.cells_of(lambda *_: True)

    def cells_of(self, choice: Choice) -> un.Relation:
        """The same of some events."""
        variables = self.program.variables
        pieces = [
            f"{tuple_of(place, event)} -> {cell(variables[event.access.name], event.access, {})}"
            for place, event in self.chosen(choice)
        ]
        return un.of_inputs(un.relation(self.params, pieces), self.points_of(choice))

    def chosen(self, choice: Choice) -> Iterator[tuple[Place, Event]]:
        """Some events, each with its statement."""
        for place in self.program.places:
            for event in place.events:
                if event.access.name in self.variables and choice(place, event):
                    yield place, event

    @cached_property
    def events(self) -> un.Points:
        """Every event."""
        return un.inputs(self.cells)

    @cached_property
    def written(self) -> un.Points:
        """The events that write."""
        return self.points_of(writes)

    @cached_property
    def read(self) -> un.Points:
        """The events that read."""
        return self.points_of(touches)

    def points_of(self, choice: Choice) -> un.Points:
        """Some events."""
        clipped: list[str] = []
        plain: dict[str, tuple[Place, list[str]]] = {}
        for place, event in self.chosen(choice):
            if event.within:
                clipped.append(instances(place, event))
            else:
                plain.setdefault(place.name, (place, []))[1].append(event.name)
        found = un.points(self.params, clipped)
        for place, names in plain.values():
            found = un.union(found, un.of_names(self.domain(place), names))
        return found

    def domain(self, place: Place) -> un.Points:
        """The instances of a statement, by the names of all its events."""
        if place.name not in self._domains:
            names = [event.name for event in place.events]
            dims = ", ".join(map(identifier, place.iterators))
            piece = f"S[{dims}] : {place.where}"
            self._domains[place.name] = un.repeated_points(self.params, piece, names)
        return self._domains[place.name]

    def before(self, later: un.Relation, sooner: un.Relation) -> un.Relation:
        """From each event to the sooner ones on the same element."""
        return self.earlier(un.compose(later, un.inverse(sooner)))

    def earlier(self, pairs: un.Relation) -> un.Relation:
        """The pairs of events whose second comes before the first."""
        return self.times.earlier(pairs)

    def not_later(self, pairs: un.Relation) -> un.Relation:
        """The pairs of events whose second does not come after the first."""
        return self.times.not_later(pairs)

    @cached_property
    def times(self) -> un.Schedule:
        """Returns the schedule of all events."""
        of = self.program
        times: dict[str, un.Timed] = {}
        keys: dict[str, str] = {}
        for place in of.places:
            for event in place.events:
                keys[event.name] = f"{place.name} {event.writes}"
                dims = tuple(map(identifier, place.iterators))
                times[keys[event.name]] = un.Timed(dims, moment(of, place, event))
        for edge, value in (("First", "-1"), ("Last", str(1 << 30))):
            for variable in of.variables.values():
                if variable.is_param:
                    rank = len(variable.shape)
                    dims = tuple(f"c{n}" for n in range(rank))
                    vector = (value, *["0"] * (of.depth - 1))
                    name = f"{edge}_{identifier(variable.name)}"
                    keys[name] = f"{edge} {rank}"
                    times[keys[name]] = un.Timed(dims, vector)
        return un.Schedule(self.params, times, keys)

    @cached_property
    def initials(self) -> un.Relation:
        """The parameters as they are given, as writes."""
        return self._edges("First")

    @cached_property
    def finals(self) -> un.Relation:
        """The parameters as they are left, as reads."""
        return self._edges("Last")

    def _edges(self, edge: str) -> un.Relation:
        pieces = []
        context = entry(self.program.proc).constraints
        for variable in self.program.variables.values():
            if variable.is_param and variable.name in self.variables:
                dims = ", ".join(f"c{n}" for n in range(len(variable.shape)))
                bounds = [f"0 <= c{n} < {cexpr(e)}" for n, e in enumerate(variable.shape)]
                name = identifier(variable.name)
                within = conjunction((*context, *bounds))
                pieces.append(f"{edge}_{name}[{dims}] -> {name}[{dims}] : {within}")
        return un.relation(self.params, pieces)
