"""Expresses each value that a program reads as a sum of terms.

A value that is read is the sum of what the last assignment before gave and of what was added since.
A term that only copies another value is replaced by the terms of that one, until what is left are
elements of the parameters as they were given, and expressions.  Terms that are zero are left out.
A sum of wider terms, which is rounded as a whole before it is added to another, is a term itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Final

from exogpu.ir import nodes as ir
from exogpu.ir import walk
from exogpu.ir.render import identifier
from exogpu.ir.types import DataType, Sym
from exogpu.schedule.checking.relations import Accessed
from exogpu.schedule.checking.statement_model import (
    Event,
    Place,
    Program,
    adds_held,
    happens,
    tuple_of,
)
from exogpu.solvers import isl_unions

# Sums of zero: `x += a * b` changes nothing where a and b are zero, as where tiles are padded.
#
# 0 and -0 are the same number here. A product is zero where both of its sides are: 0 times an
# infinity is none.

ZERO_SUM_ROUNDS: Final = 4
"""Copies of copies of zero that are followed."""


def adding_zero(of: Accessed, live: isl_unions.Points) -> isl_unions.Points | None:
    """The events of sums that stand for nothing and add zero; None if there are none."""

    def is_sum(place: Place, _: Event) -> bool:
        return isinstance(place.plain, ir.Reduce)

    spare = isl_unions.difference(of.points_of(is_sum), live)
    if isl_unions.is_empty(spare):
        return None
    zeros = Zeros(Accessed(of.program))  # zero may come from any variable
    found = zeros.none
    for place in of.program.places:
        if isinstance(place.plain, ir.Reduce):
            found = isl_unions.union(found, zeros.events(place, place.events))
    return isl_unions.intersect(found, spare)


class Zeros:
    """The reads of a program that find zero."""

    def __init__(self, of: Accessed) -> None:
        self.of = of
        self.none = isl_unions.points(of.params, [])
        writes = isl_unions.union(isl_unions.of_inputs(of.cells, of.write_events), of.initials)
        reads = isl_unions.of_inputs(of.cells, of.read_events)
        seen = of.earlier_events(reads, writes)
        last = self.last = isl_unions.subtract(
            seen, isl_unions.compose(seen, of.earlier_events(writes, writes))
        )
        self.reads = self.none
        for _ in range(ZERO_SUM_ROUNDS):
            written = self.none
            for place in of.program.places:
                if isinstance(place.plain, ir.Assign):
                    written = isl_unions.union(written, self.events(place, place.events[-1:]))
            others = isl_unions.difference(isl_unions.outputs(last), written)
            found = isl_unions.inputs(isl_unions.of_outputs(last, written))
            found = isl_unions.difference(
                found, isl_unions.inputs(isl_unions.of_outputs(last, others))
            )
            if isl_unions.is_empty(isl_unions.difference(found, self.reads)):
                break
            self.reads = found

    def events(self, place: Place, events: Iterable[Event]) -> isl_unions.Points:
        """Events of a statement at the instances at which its value is zero."""
        pieces = [
            f"{_instance(place)} -> {tuple_of(place, e)} : {happens(place, e)}" for e in events
        ]
        found, _ = self.zero(place, place.plain.value, 0)
        return isl_unions.image(found, isl_unions.relation(self.of.params, pieces))

    def zero(self, place: Place, expr: ir.DExpr, reads: int) -> tuple[isl_unions.Points, int]:
        """The instances at which an expression is zero, and how many reads stand before its end."""
        everywhere = isl_unions.points(self.of.params, [f"{_instance(place)} : {place.constraint}"])
        match expr:
            case ir.Const():
                return (everywhere if expr.value == 0 else self.none), reads
            case ir.Read() if (known := place.constants.get(expr.access.name)) is not None:
                return (everywhere if known.value == 0 else self.none), reads
            case ir.Read():
                return self.zero_reads(place, place.events[reads], everywhere), reads + 1
            case ir.Negate():
                return self.zero(place, expr.term, reads)
            case ir.Apply(function="tf32"):
                return self.zero(place, expr.arguments[0], reads)
            case ir.BinOp(op="*" | "+" | "-"):
                left, reads = self.zero(place, expr.left, reads)
                right, reads = self.zero(place, expr.right, reads)
                return isl_unions.intersect(left, right), reads
            case _:
                given = [a for a in walk.reads(expr) if a.name not in place.constants]
                return self.none, reads + len(given)

    def zero_reads(
        self, place: Place, event: Event, everywhere: isl_unions.Points
    ) -> isl_unions.Points:
        text = tuple_of(place, event)
        pieces = [f"{text} -> {_instance(place)}"]
        found = isl_unions.image(self.reads, isl_unions.relation(self.of.params, pieces))
        if event.within:
            inside = f"{_instance(place)} : {happens(place, event)}"
            outside = isl_unions.difference(everywhere, isl_unions.points(self.of.params, [inside]))
            found = isl_unions.union(found, outside)
        return found


def _instance(place: Place) -> str:
    return f"{place.name}[{', '.join(map(identifier, place.iterators))}]"


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

    given: isl_unions.Relation
    """From each to elements of parameters as they were given."""
    made: isl_unions.Relation
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
        self._begun = isl_unions.points(self.of.params, [])

    @property
    def finals(self) -> isl_unions.Points:
        """The elements of the parameters as they are left, as reads."""
        return isl_unions.inputs(self.of.finals)

    def leaves(self, place: Place) -> tuple[Event, ...]:
        """The reads of a statement's value, in order."""
        return tuple(e for e in place.events if not e.writes and not e.reduces)

    @cached_property
    def open_reads(self) -> isl_unions.Points:
        """The reads but those of `+=` itself."""
        return self.of.points_of(lambda _, event: not event.writes and not event.reduces)

    @cached_property
    def first_writes(self) -> isl_unions.Points:
        """The writes with which a sum begins."""
        found = isl_unions.inputs(self.of.initials)
        chosen = {p.name for p in self.of.program.places if isinstance(p.plain, ir.Assign)}
        if not chosen:
            return found
        begins = self.of.points_of(lambda place, event: event.writes and place.name in chosen)
        return isl_unions.union(found, begins)

    # --- one step -------------------------------------------------------------------------

    @cached_property
    def last_writes(self) -> isl_unions.Relation:
        """From each read to the writes that it is the sum of."""
        of = self.of
        assigned = self.first_writes
        writes = isl_unions.union(isl_unions.of_inputs(of.cells, of.write_events), of.initials)
        reads = isl_unions.union(isl_unions.of_inputs(of.cells, self.open_reads), of.finals)
        seen = of.earlier_events(reads, writes)
        begun = isl_unions.of_outputs(seen, assigned)
        hidden = isl_unions.compose(
            begun, of.earlier_events(isl_unions.of_inputs(writes, assigned), writes)
        )
        self._begun = isl_unions.inputs(begun)
        return isl_unions.subtract(seen, hidden)

    def _found_by(self, reads: isl_unions.Points) -> isl_unions.Relation:
        """From each of these reads to the writes that it is the sum of.  Raises Unclear."""
        found = isl_unions.of_inputs(self.last_writes, reads)
        if not isl_unions.is_empty(isl_unions.difference(reads, self._begun)):
            raise Unclear("a variable is read before it is written")
        return found

    @cached_property
    def zero(self) -> isl_unions.Points:
        """The writes of zero."""
        zeros = Zeros(self.of)
        found = zeros.none
        for place in self.of.program.places:
            found = isl_unions.union(found, zeros.events(place, place.events[-1:]))
        return found

    @cached_property
    def copies(self) -> isl_unions.Relation:
        """From each write of a mere copy to its read, of the same type."""
        wide = self._wide_sums
        return self._followed(
            [
                (place.events[-1].name, leaf.name)
                for place, leaf in self._moves
                if isinstance(place.plain, ir.Assign) or leaf.access.name not in wide
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
            if isinstance(place.plain, ir.Reduce) and not adds_held(place, program.variables)
        }
        taken = [
            (leaf.access.name, place.plain.target.name)
            for place, leaf in self._moves
            if isinstance(place.plain, ir.Assign)
        ]
        while more := {to for of, to in taken if of in wide} - wide:
            wide |= more
        return frozenset(wide)

    @cached_property
    def roundings(self) -> isl_unions.Relation:
        """From each write of `tf32(x)` to the read of x."""
        variables, pairs = self.of.program.variables, []
        for place in self.of.program.places:
            value, target = place.plain.value, variables[place.plain.target.name]
            if isinstance(value, ir.Apply) and value.function == "tf32":
                leaf = self._read_of(place, *value.arguments)
                if isinstance(place.plain, ir.Assign) and target.dtype is DataType.F32 and leaf:
                    pairs.append((place.events[-1].name, leaf.name))
        return self._followed(pairs)

    def _read_of(self, place: Place, value: ir.DExpr) -> Event | None:
        """Returns the read of a value that is all read from one element."""
        if not isinstance(value, ir.Read) or value.access.name in place.constants:
            return None
        (leaf,) = self.leaves(place)
        return leaf

    def _followed(self, pairs: list[tuple[str, str]]) -> isl_unions.Relation:
        return isl_unions.of_inputs(
            isl_unions.matching_points(self.of.params, self.of.events, pairs), self.of.write_events
        )

    # --- all of them ----------------------------------------------------------------------

    def sums(self, reads: isl_unions.Points) -> Sums:
        """The terms of some reads.  Raises Unclear and Intricate."""
        found = self._found_by(reads)
        for _ in range(ROUNDS):
            found = isl_unions.leaving(found, self.zero)
            copied = isl_unions.of_outputs(found, isl_unions.inputs(self.copies))
            if isl_unions.is_empty(copied):
                break
            rest = isl_unions.subtract(found, copied)
            further = isl_unions.compose(copied, self.copies)
            more = isl_unions.compose(further, self._found_by(isl_unions.outputs(further)))
            if isl_unions.pieces(more) > self.most:
                raise Intricate
            self._check_distinct(further)
            if not isl_unions.is_empty(isl_unions.intersect(rest, more)):
                raise Unclear("a value is added to itself")
            found = isl_unions.union(rest, more)
        else:
            raise Unclear("a value is copied again and again")
        given = isl_unions.of_outputs(found, isl_unions.inputs(self.of.initials))
        return Sums(given, isl_unions.subtract(found, given))

    def rounded(self, sums: Sums) -> isl_unions.Relation | None:
        """From reads that find `tf32` of elements of parameters as they were given, to these; None
        if some find something else, as a sum of two of them."""
        written = isl_unions.outputs(sums.made)
        if not (
            isl_unions.is_empty(sums.given)
            and isl_unions.is_empty(isl_unions.difference(written, self._rounds))
        ):
            return None
        if not isl_unions.is_function(sums.made):
            return None
        reads = isl_unions.compose(sums.made, self.roundings)
        found = self.sums(isl_unions.outputs(reads))
        return isl_unions.compose(reads, found.given) if isl_unions.is_empty(found.made) else None

    @cached_property
    def _rounds(self) -> isl_unions.Points:
        return isl_unions.inputs(self.roundings)

    def _check_distinct(self, copied: isl_unions.Relation) -> None:
        """Two copies in one sum are of different values."""
        both = isl_unions.two_of(copied)
        last = isl_unions.leaving(self.last_writes, self.zero)
        common = isl_unions.compose(
            isl_unions.of_inputs(last, isl_unions.outputs(copied)), isl_unions.inverse(last)
        )
        if not isl_unions.is_empty(isl_unions.intersect(both, common)):
            raise Unclear("a value is added twice")

    def reads_of(self, writes: isl_unions.Points, place: Place, leaf: Event) -> isl_unions.Relation:
        """From the writes of a statement to one of the reads of its value."""
        pairs = [(place.events[-1].name, leaf.name)]
        return isl_unions.of_inputs(
            isl_unions.matching_points(self.of.params, self.of.events, pairs), writes
        )
