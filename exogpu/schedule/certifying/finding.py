"""The witness of a step: what ISL's relations say, as quasi-affine expressions by cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from exogpu.analysis.instances import controls
from exogpu.ir.isltext import identifier
from exogpu.ir.nodes import BExpr, CExpr
from exogpu.schedule.accessed import Accessed
from exogpu.schedule.certifying.recording import Names
from exogpu.schedule.checker import Checker
from exogpu.schedule.events import Place
from exogpu.schedule.zeros import Zeros
from exogpu.solvers import isl_unions as un
from exogpu.solvers.isl_branches import Branch, Cases, cases, functions
from exogpu.symbolic.encode.formulas import every, some
from exogpu.symbolic.encode.witness import element_names
from exogpu.symbolic.find.expressions import constraint, expression
from exogpu.symbolic.steps.witness import At, Found, Given, Kept, Reader, Source, Witness, Zero


@dataclass(frozen=True, slots=True)
class _Event:
    """An access, of which ISL knows the name."""

    statement: int
    access: int
    place: Place


def witness(checker: Checker, names: Names) -> Witness:
    """Finds the witness of a step. Raises IslGaveUpError."""
    found = _Finder(checker, names)
    return Witness(found.kept(), found.overwritten(), found.found(), found.zeros())


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

    def _where(self, name: str, told: Cases) -> BExpr:
        inputs = self._inputs(name)
        return some(every(constraint(c, inputs, self._params) for c in one) for one in told)

    def _at(self, name: str, other: str, branch: Branch) -> At:
        inputs = self._inputs(name)
        values = tuple(expression(value, inputs, self._params) for value in branch.values)
        return At(self._events[other].statement, values)

    def _source(self, name: str, other: str, branch: Branch) -> Source:
        return Given() if other in self._edges else self._at(name, other, branch)

    def _reader(self, name: str) -> Reader:
        if name in self._edges:
            known = self._names[self._edges[name].name]
            return str(known.name)  # type: ignore[union-attr]
        return self._events[name].statement, self._events[name].access

    # --- instances --------------------------------------------------------------------------

    @cached_property
    def _images(self) -> un.Relation:
        """From old writes to what they are now."""
        checker = self._checker
        return un.of_inputs(un.inverse(checker.images), checker.was.written)

    def kept(self) -> dict[int, tuple[Kept, ...]]:
        """Finds the new places of old statements."""
        found: dict[int, list[Kept]] = {}
        for old, new, branches in functions(self._images, self._checker.was.written):
            kept = found.setdefault(self._events[old].statement, [])
            for branch in branches:
                kept.append(Kept(self._where(old, branch.where), self._at(old, new, branch)))
        return {old: tuple(kept) for old, kept in sorted(found.items())}

    def overwritten(self) -> dict[int, tuple[At, ...]]:
        """Finds, for each lost old write, the next writes of its element that are kept."""
        checker, was = self._checker, self._checker.was
        lost = un.without(was.written, checker.kept)
        if un.is_empty(lost):
            return {}
        over = un.of_inputs(checker.overwriting, checker.kept)
        dropped = un.of_inputs(was.cells, lost)
        later = was.before(over, dropped)
        first = un.subtract(later, un.compose(was.before(over, over), later))
        found: dict[int, dict[At, None]] = {self._events[n].statement: {} for n in un.names(lost)}
        for old, by, branches in functions(un.inverse(first), lost):
            ways = found[self._events[old].statement]
            ways.update(dict.fromkeys(self._at(old, by, branch) for branch in branches))
        return {old: tuple(ways) for old, ways in sorted(found.items())}

    # --- what reads find --------------------------------------------------------------------

    def found(self) -> dict[Reader, tuple[Found, ...]]:
        """The last write of what each read finds that stands for something."""
        flow = self._checker.found
        readers = un.inputs(flow.reads)
        found: dict[Reader, list[Found]] = {}
        for name, one in self._sources(flow.last, readers):
            found.setdefault(self._reader(name), []).append(one)
        for name, told in cases(un.without(readers, un.inputs(flow.seen)), readers):
            found.setdefault(self._reader(name), []).append(Found(self._where(name, told), None))
        return {reader: tuple(pieces) for reader, pieces in sorted(found.items(), key=_key)}

    def _sources(self, last: un.Relation, readers: un.Points) -> Iterator[tuple[str, Found]]:
        for name, other, branches in functions(last, readers):
            for branch in branches:
                source = self._source(name, other, branch)
                yield name, Found(self._where(name, branch.where), source)

    def zeros(self) -> dict[tuple[int, int], Zero]:
        """The reads that find zero, and whose zero a sum adds that stands for nothing."""
        idle = self._checker.found.idle
        if idle is None or un.is_empty(idle):
            return {}
        of = Accessed(self._checker.new)
        known = Zeros(of)
        told = dict(cases(known.reads, of.read))
        wrote: dict[str, list[Found]] = {}
        for name, one in self._sources(un.of_inputs(known.last, known.reads), known.reads):
            wrote.setdefault(name, []).append(one)
        found: dict[tuple[int, int], Zero] = {}
        rest = {self._events[name].statement for name in un.names(idle)}
        while rest:
            place = self._checker.new.places[rest.pop()]
            for name in (e.name for e in place.events if not (e.writes or e.reduces)):
                event = self._events[name]
                key = event.statement, event.access
                if name in told and key not in found:
                    by = tuple(wrote.get(name, ()))
                    found[key] = Zero(self._where(name, told[name]), by)
                    rest |= {one.source.statement for one in by if isinstance(one.source, At)}
        return dict(sorted(found.items()))


def _key(one: tuple[Reader, object]) -> tuple[int, int, str]:
    """Statements in order, then parameters."""
    reader = one[0]
    return (1 << 30, 0, reader) if isinstance(reader, str) else (*reader, "")
