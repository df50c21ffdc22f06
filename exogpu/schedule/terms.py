"""Expresses each value that a program reads as a sum of terms.

A value that is read is the sum of what the last assignment before gave and of what was added since.
A term that only copies another value is replaced by the terms of that one, until what is left are
elements of the parameters as they were given, and expressions.  Terms that are zero are left out.
A sum of wider terms, which is rounded as a whole before it is added to another, is a term itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Final

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Apply, Assign, DExpr, Read, Reduce
from exogpu.ir.types import DataType
from exogpu.schedule.accessed import Accessed
from exogpu.schedule.alike import adds_held
from exogpu.schedule.events import Event, Place, Program
from exogpu.schedule.zeros import Zeros
from exogpu.solvers import isl_unions as un

ROUNDS: Final = 16
"""Copies of copies that are followed."""


FEW: Final = 16
"""Relations of so many pieces are compared at once; of more, it may take minutes."""


class Unclear(Exception):
    """A value is no set of terms that could be told apart."""


class Intricate(Exception):
    """A relation has so many pieces that nobody knows how long ISL will take."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The terms of which each of some reads is the sum."""

    given: un.Relation
    """From each to elements of parameters as they were given."""
    made: un.Relation
    """From each to the writes of expressions."""


class Terms:
    """The terms of one program."""

    def __init__(self, program: Program, most: float = inf) -> None:
        self.of = Accessed(program)
        self.most = most
        """Pieces that a relation may have, or Intricate is raised."""
        self.places = {
            place.events[-1].name: place for place in self.of.program.places if place.events
        }
        """By the name of what it writes."""
        self._begun = un.points(self.of.params, [])

    @property
    def finals(self) -> un.Points:
        """The elements of the parameters as they are left, as reads."""
        return un.inputs(self.of.finals)

    def leaves(self, place: Place) -> tuple[Event, ...]:
        """The reads of a statement's value, in order."""
        return tuple(e for e in place.events if not e.writes and not e.reduces)

    @cached_property
    def wanted(self) -> un.Points:
        """The reads but those of `+=` itself."""
        return self.of.points_of(lambda _, event: not event.writes and not event.reduces)

    @cached_property
    def assigned(self) -> un.Points:
        """The writes with which a sum begins."""
        found = un.inputs(self.of.initials)
        chosen = {p.name for p in self.of.program.places if isinstance(p.plain, Assign)}
        if not chosen:
            return found
        begins = self.of.points_of(lambda place, event: event.writes and place.name in chosen)
        return un.union(found, begins)

    # --- one step -------------------------------------------------------------------------

    @cached_property
    def last(self) -> un.Relation:
        """From each read to the writes that it is the sum of."""
        of = self.of
        assigned = self.assigned
        writes = un.union(un.of_inputs(of.cells, of.written), of.initials)
        reads = un.union(un.of_inputs(of.cells, self.wanted), of.finals)
        seen = of.before(reads, writes)
        begun = un.of_outputs(seen, assigned)
        hidden = un.compose(begun, of.before(un.of_inputs(writes, assigned), writes))
        self._begun = un.inputs(begun)
        return un.subtract(seen, hidden)

    def _found_by(self, reads: un.Points) -> un.Relation:
        """From each of these reads to the writes that it is the sum of.  Raises Unclear."""
        found = un.of_inputs(self.last, reads)
        if not un.is_empty(un.without(reads, self._begun)):
            raise Unclear("a variable is read before it is written")
        return found

    @cached_property
    def zero(self) -> un.Points:
        """The writes of zero."""
        zeros = Zeros(self.of)
        found = zeros.none
        for place in self.of.program.places:
            found = un.union(found, zeros.events(place, place.events[-1:]))
        return found

    @cached_property
    def copies(self) -> un.Relation:
        """From each write of a mere copy to its read, of the same type."""
        wide = self._wide_sums
        return self._followed(
            [
                (place.events[-1].name, leaf.name)
                for place, leaf in self._moves
                if isinstance(place.plain, Assign) or leaf.access.name not in wide
            ]
        )

    @cached_property
    def _moves(self) -> list[tuple[Place, Event]]:
        """The statements `x = y` and `x += y` of one type, each with its read."""
        variables, found = self.of.program.variables, []
        for place in self.of.program.places:
            if (leaf := self._read_of(place, place.plain.value)) is not None:
                of = variables[leaf.access.name], variables[place.plain.target.name]
                if of[0].dtype is of[1].dtype:
                    found.append((place, leaf))
        return found

    @cached_property
    def _wide_sums(self) -> frozenset[Sym]:
        """The variables to which terms are added that these do not hold, and what is assigned of
        such."""
        program = self.of.program
        wide = {
            place.plain.target.name
            for place in program.places
            if isinstance(place.plain, Reduce) and not adds_held(place, program.variables)
        }
        taken = [
            (leaf.access.name, place.plain.target.name)
            for place, leaf in self._moves
            if isinstance(place.plain, Assign)
        ]
        while more := {to for of, to in taken if of in wide} - wide:
            wide |= more
        return frozenset(wide)

    @cached_property
    def roundings(self) -> un.Relation:
        """From each write of `tf32(x)` to the read of x."""
        variables, pairs = self.of.program.variables, []
        for place in self.of.program.places:
            value, target = place.plain.value, variables[place.plain.target.name]
            if isinstance(value, Apply) and value.function == "tf32":
                leaf = self._read_of(place, *value.arguments)
                if isinstance(place.plain, Assign) and target.dtype is DataType.F32 and leaf:
                    pairs.append((place.events[-1].name, leaf.name))
        return self._followed(pairs)

    def _read_of(self, place: Place, value: DExpr) -> Event | None:
        """Returns the read of a value that is all read from one element."""
        if not isinstance(value, Read) or value.access.name in place.constants:
            return None
        (leaf,) = self.leaves(place)
        return leaf

    def _followed(self, pairs: list[tuple[str, str]]) -> un.Relation:
        return un.of_inputs(un.alike(self.of.params, self.of.events, pairs), self.of.written)

    # --- all of them ----------------------------------------------------------------------

    def sums(self, reads: un.Points) -> Sums:
        """The terms of some reads.  Raises Unclear and Intricate."""
        found = self._found_by(reads)
        for _ in range(ROUNDS):
            found = un.leaving(found, self.zero)
            copied = un.of_outputs(found, un.inputs(self.copies))
            if un.is_empty(copied):
                break
            rest = un.subtract(found, copied)
            further = un.compose(copied, self.copies)
            more = un.compose(further, self._found_by(un.outputs(further)))
            if un.pieces(more) > self.most:
                raise Intricate
            self._apart(further)
            if not un.is_empty(un.intersect(rest, more)):
                raise Unclear("a value is added to itself")
            found = un.union(rest, more)
        else:
            raise Unclear("a value is copied again and again")
        given = un.of_outputs(found, un.inputs(self.of.initials))
        return Sums(given, un.subtract(found, given))

    def rounded(self, sums: Sums) -> un.Relation | None:
        """From reads that find `tf32` of elements of parameters as they were given, to these; None
        if some find something else, as a sum of two of them."""
        written = un.outputs(sums.made)
        if not (un.is_empty(sums.given) and un.is_empty(un.without(written, self._rounds))):
            return None
        if not un.is_function(sums.made):
            return None
        reads = un.compose(sums.made, self.roundings)
        found = self.sums(un.outputs(reads))
        return un.compose(reads, found.given) if un.is_empty(found.made) else None

    @cached_property
    def _rounds(self) -> un.Points:
        return un.inputs(self.roundings)

    def _apart(self, copied: un.Relation) -> None:
        """Two copies in one sum are of different values."""
        both = un.two_of(copied)
        last = un.leaving(self.last, self.zero)
        common = un.compose(un.of_inputs(last, un.outputs(copied)), un.inverse(last))
        if not un.is_empty(un.intersect(both, common)):
            raise Unclear("a value is added twice")

    def reads_of(self, writes: un.Points, place: Place, leaf: Event) -> un.Relation:
        """From the writes of a statement to one of the reads of its value."""
        pairs = [(place.events[-1].name, leaf.name)]
        return un.of_inputs(un.alike(self.of.params, self.of.events, pairs), writes)
