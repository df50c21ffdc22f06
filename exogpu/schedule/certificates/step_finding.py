"""The witness of a step: what ISL's relations say, as quasi-affine expressions by cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from exogpu.analysis.domain import controls
from exogpu.ir.nodes import Access, BExpr, CExpr
from exogpu.ir.render import identifier
from exogpu.schedule.certificates.recording import Names, Recorder
from exogpu.schedule.checking.checker import Checker
from exogpu.schedule.checking.laws import Elements as Told
from exogpu.schedule.checking.relations import Accessed
from exogpu.schedule.checking.statement_model import Place, Program
from exogpu.schedule.checking.stored_terms import Zeros
from exogpu.solvers import isl_unions
from exogpu.solvers.isl_piecewise import Branch, Cases, cases, functions
from exogpu.symbolic.encode.formulas import conjunction_of, disjunction_of
from exogpu.symbolic.encode.witness import element_names
from exogpu.symbolic.search.quasi_affine import constraint, expression
from exogpu.symbolic.steps import step_witness
from exogpu.symbolic.steps.record import Compared, Law, Record
from exogpu.symbolic.steps.step_certificate import UnlikeError
from exogpu.symbolic.steps.step_obligations import unlike


@dataclass(frozen=True, slots=True)
class _Event:
    """An access, of which ISL knows the name."""

    statement: int
    access: int
    place: Place


def witness(checker: Checker, names: Names) -> step_witness.Witness:
    """Finds the witness of a step. Raises IslGaveUpError."""
    found = _Finder(checker, names)
    return step_witness.Witness(
        found.kept_places(), found.next_writes(), found.last_writes(), found.zeros()
    )


class _Finder:
    def __init__(self, checker: Checker, names: Names) -> None:
        self._checker = checker
        self._names = names
        self._params: dict[str, CExpr] = {
            identifier(p.name): names[p.name] for p in controls(checker.new.proc)
        }
        self._events = {
            event.name: _Event(number, access, place)
            for program in (checker.old, checker.new)
            for number, place in enumerate(program.places)
            for access, event in enumerate(place.events)
        }
        self._edges = {
            f"{edge}_{identifier(variable.name)}": variable
            for edge in ("First", "Last")
            for variable in checker.new.variables.values()
            if variable.is_param
        }

    # --- expressions ------------------------------------------------------------------------

    def _inputs(self, name: str) -> Sequence[CExpr]:
        """Returns the expressions that stand for the dimensions of a tuple."""
        if name in self._edges:
            return element_names(len(self._edges[name].shape))
        return [self._names[s] for s in self._events[name].place.iterators]

    def _condition(self, name: str, told: Cases) -> BExpr:
        inputs = self._inputs(name)
        return disjunction_of(
            conjunction_of(constraint(c, inputs, self._params) for c in one) for one in told
        )

    def _write_at(self, name: str, other: str, branch: Branch) -> step_witness.At:
        inputs = self._inputs(name)
        values = tuple(expression(value, inputs, self._params) for value in branch.values)
        return step_witness.At(self._events[other].statement, values)

    def _source(self, name: str, other: str, branch: Branch) -> step_witness.Source:
        return step_witness.Given() if other in self._edges else self._write_at(name, other, branch)

    def _reader(self, name: str) -> step_witness.Reader:
        if name in self._edges:
            known = self._names[self._edges[name].name]
            return str(known.name)  # type: ignore[union-attr]
        return self._events[name].statement, self._events[name].access

    # --- instances --------------------------------------------------------------------------

    @cached_property
    def _images(self) -> isl_unions.Relation:
        """From old writes to what they are now."""
        checker = self._checker
        return isl_unions.of_inputs(isl_unions.inverse(checker.images), checker.was.write_events)

    def kept_places(self) -> dict[int, tuple[step_witness.Kept, ...]]:
        """Finds the new places of old statements."""
        found: dict[int, list[step_witness.Kept]] = {}
        for old, new, branches in functions(self._images, self._checker.was.write_events):
            kept = found.setdefault(self._events[old].statement, [])
            for branch in branches:
                kept.append(
                    step_witness.Kept(
                        self._condition(old, branch.where), self._write_at(old, new, branch)
                    )
                )
        return {old: tuple(kept) for old, kept in sorted(found.items())}

    def next_writes(self) -> dict[int, tuple[step_witness.At, ...]]:
        """Finds, for each lost old write, the next writes of its element that are kept."""
        checker, was = self._checker, self._checker.was
        lost = isl_unions.difference(was.write_events, checker.kept_events)
        if isl_unions.is_empty(lost):
            return {}
        over = isl_unions.of_inputs(checker.overwriting, checker.kept_events)
        dropped = isl_unions.of_inputs(was.cells, lost)
        later = was.earlier_events(over, dropped)
        first = isl_unions.subtract(
            later, isl_unions.compose(was.earlier_events(over, over), later)
        )
        found: dict[int, dict[step_witness.At, None]] = {
            self._events[n].statement: {} for n in isl_unions.names(lost)
        }
        for old, by, branches in functions(isl_unions.inverse(first), lost):
            ways = found[self._events[old].statement]
            ways.update(dict.fromkeys(self._write_at(old, by, branch) for branch in branches))
        return {old: tuple(ways) for old, ways in sorted(found.items())}

    # --- what reads find --------------------------------------------------------------------

    def last_writes(self) -> dict[step_witness.Reader, tuple[step_witness.Found, ...]]:
        """The last write of what each read finds that stands for something."""
        flow = self._checker.read_flow
        readers = isl_unions.inputs(flow.reads)
        found: dict[step_witness.Reader, list[step_witness.Found]] = {}
        for name, one in self._sources(flow.last, readers):
            found.setdefault(self._reader(name), []).append(one)
        for name, told in cases(
            isl_unions.difference(readers, isl_unions.inputs(flow.seen)), readers
        ):
            found.setdefault(self._reader(name), []).append(
                step_witness.Found(self._condition(name, told), None)
            )
        return {reader: tuple(pieces) for reader, pieces in sorted(found.items(), key=_key)}

    def _sources(
        self, last: isl_unions.Relation, readers: isl_unions.Points
    ) -> Iterator[tuple[str, step_witness.Found]]:
        for name, other, branches in functions(last, readers):
            for branch in branches:
                source = self._source(name, other, branch)
                yield name, step_witness.Found(self._condition(name, branch.where), source)

    def zeros(self) -> dict[tuple[int, int], step_witness.Zero]:
        """The reads that find zero, and whose zero a sum adds that stands for nothing."""
        idle = self._checker.read_flow.idle
        if idle is None or isl_unions.is_empty(idle):
            return {}
        of = Accessed(self._checker.new)
        known = Zeros(of)
        told = dict(cases(known.reads, of.read_events))
        wrote: dict[str, list[step_witness.Found]] = {}
        for name, one in self._sources(isl_unions.of_inputs(known.last, known.reads), known.reads):
            wrote.setdefault(name, []).append(one)
        found: dict[tuple[int, int], step_witness.Zero] = {}
        rest = {self._events[name].statement for name in isl_unions.names(idle)}
        while rest:
            place = self._checker.new.places[rest.pop()]
            for name in (e.name for e in place.events if not (e.writes or e.reduces)):
                event = self._events[name]
                key = event.statement, event.access
                if name in told and key not in found:
                    by = tuple(wrote.get(name, ()))
                    found[key] = step_witness.Zero(self._condition(name, told[name]), by)
                    rest |= {
                        one.source.statement
                        for one in by
                        if isinstance(one.source, step_witness.At)
                    }
        return dict(sorted(found.items()))


def _key(one: tuple[step_witness.Reader, object]) -> tuple[int, int, str]:
    """Statements in order, then parameters."""
    reader = one[0]
    return (1 << 30, 0, reader) if isinstance(reader, str) else (*reader, "")


# The record and witness of statements that are read as others.


def read_as(
    plain: Program, read: Program, compared: Compared, recorder: Recorder
) -> tuple[Record, step_witness.Elements]:
    """A procedure, and the same with statements read as others: as data.

    `compared` says which of them comes first.  Raises UnlikeError.
    """
    wholes = {place.site: number for number, place in enumerate(plain.places)}
    parts = {place.name: number for number, place in enumerate(read.places)}
    laws: list[Law] = []
    found: list[step_witness.Classes] = []
    for said in read.readings:
        if not all(place.site in wholes for place in said.whole):
            raise UnlikeError("what is read as others stands in no procedure")
        laws.append(
            Law(
                tuple(wholes[place.site] for place in said.whole),
                tuple(parts[place.name] for place in said.parts),
            )
        )
        found.append(_classes(said.whole, said.parts))
    sides = (plain, read) if compared == "whole to parts" else (read, plain)
    old, new = (recorder.program(side) for side in sides)
    record = Record(old, new, (), (), compared=compared, laws=tuple(laws))
    if (why := unlike(record)) is not None:
        raise UnlikeError(why)
    return record, step_witness.Elements(tuple(found))


def _classes(whole: Sequence[Place], parts: Sequence[Place]) -> step_witness.Classes:
    """Accesses of one element, as ISL sees it, have one number; nothing is said of three."""
    if len(whole) != 1:
        return ((),) * (len(whole) + len(parts))
    elements = Told(whole[0].domain, [])
    return tuple(
        tuple(elements.number(access) for access in _accesses(place)) for place in (*whole, *parts)
    )


def _accesses(place: Place) -> list[Access]:
    """Returns the reads of a statement, in order, and its write."""
    reads = [e.access for e in place.events if not e.writes and not e.reduces]
    return [*reads, place.plain.target]
