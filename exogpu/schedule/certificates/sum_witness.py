"""The witness of a step that is compared by results: what each read is the sum of, by cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exogpu.analysis.domain import controls
from exogpu.ir.nodes import BExpr, CExpr
from exogpu.ir.render import identifier
from exogpu.schedule.certificates.recording import Names
from exogpu.schedule.checking.equivalence import Comparison
from exogpu.schedule.checking.statement_model import Place, Program
from exogpu.schedule.checking.stored_terms import ROUNDS
from exogpu.schedule.checking.stored_terms import Terms as FoundTerms
from exogpu.solvers import isl_piecewise, isl_unions
from exogpu.symbolic.encode.formulas import conjunction_of, disjunction_of
from exogpu.symbolic.encode.witness import element_names
from exogpu.symbolic.search.quasi_affine import constraint, expression
from exogpu.symbolic.steps import step_witness
from exogpu.symbolic.steps.step_witness import At, Found, Given, Kept, Reader


def summed(old: Program, new: Program, names: Names) -> step_witness.Summed:
    """Finds the matching of the results of two procedures that have the same parameters.

    Raises Differ or Unclear where they are not seen to be the same, SeveralError where what is
    found is no function, and IslGaveUpError.
    """
    comparison = Comparison(FoundTerms(old), FoundTerms(new), rounded=True)
    comparison.compare()
    first, second = _Side(comparison.first, names), _Side(comparison.second, names)
    pairs = comparison.fitted
    return step_witness.Summed(
        first.sums(),
        second.sums(),
        _match_instances(isl_unions.inverse(pairs), second, first),
        _match_instances(pairs, first, second),
    )


@dataclass(frozen=True, slots=True)
class _Event:
    """An access, of which ISL knows the name; `reader` also of a parameter's end."""

    reader: Reader
    place: Place | None
    inputs: tuple[CExpr, ...]


class _Side:
    def __init__(self, terms: FoundTerms, names: Names) -> None:
        self.terms = terms
        of = terms.of.program
        self._params: dict[str, CExpr] = {
            identifier(p.name): names[p.name] for p in controls(of.proc)
        }
        self._events: dict[str, _Event] = {}
        for number, place in enumerate(of.places):
            inputs = tuple(names[s] for s in place.iterators)
            for access, event in enumerate(place.events):
                self._events[event.name] = _Event((number, access), place, inputs)
        for variable in of.variables.values():
            if variable.is_param:
                inputs = element_names(len(variable.shape))
                for edge in ("First", "Last"):
                    event_ = _Event(names.variable_of(variable.name).name, None, inputs)
                    self._events[f"{edge}_{identifier(variable.name)}"] = event_

    # --- expressions ------------------------------------------------------------------------

    def statement(self, name: str) -> int:
        """The number of the statement of an event."""
        reader = self._events[name].reader
        assert isinstance(reader, tuple)
        return reader[0]

    def source(self, name: str) -> step_witness.SumSource:
        """The source of a term: a write, or what a parameter was given."""
        reader = self._events[name].reader
        return reader[0] if isinstance(reader, tuple) else reader

    def inputs(self, name: str, term: str = "") -> Sequence[CExpr]:
        """Returns the expressions that stand for the dimensions of a tuple, and for those of a
        term."""
        more = step_witness.term_names(len(self._events[term].inputs)) if term else ()
        return (*self._events[name].inputs, *more)

    def case_condition(self, inputs: Sequence[CExpr], told: isl_piecewise.Cases) -> BExpr:
        """Cases as a condition."""
        return disjunction_of(
            conjunction_of(constraint(c, inputs, self._params) for c in one) for one in told
        )

    def values(self, inputs: Sequence[CExpr], branch: isl_piecewise.Branch) -> tuple[CExpr, ...]:
        """The values of a branch."""
        return tuple(expression(value, inputs, self._params) for value in branch.values)

    def _found_branch(
        self, inputs: Sequence[CExpr], by: str, branch: isl_piecewise.Branch
    ) -> Found:
        where = self.case_condition(inputs, branch.where)
        if self._events[by].place is None:
            return Found(where, Given())
        return Found(where, At(self.statement(by), self.values(inputs, branch)))

    # --- sums -------------------------------------------------------------------------------

    def sums(self) -> step_witness.Sums:
        """Returns the sums of a procedure's reads."""
        terms, reads = self.terms, self._open_reads()
        wanted: dict[Reader, BExpr] = {}
        for name, told in isl_piecewise.cases(reads, terms.open_reads):
            if isinstance(reader := self._events[name].reader, tuple):
                wanted[reader] = self.case_condition(self.inputs(name), told)
        begins: dict[Reader, list[Found]] = {}
        firsts = isl_unions.of_outputs(
            isl_unions.of_inputs(terms.last_writes, reads), terms.first_writes
        )
        for name, by, branches in isl_piecewise.functions(firsts, reads):
            for branch in branches:
                one = self._found_branch(self.inputs(name), by, branch)
                begins.setdefault(self._events[name].reader, []).append(one)
        pairs = self._pairs(reads)
        sets: dict[Reader, dict[step_witness.SumSource, BExpr]] = {}
        for name, term, told in isl_piecewise.related(pairs, reads):
            where = self.case_condition(self.inputs(name, term), told)
            sets.setdefault(self._events[name].reader, {})[self.source(term)] = where
        ways: dict[tuple[Reader, step_witness.SumSource], list[Found]] = {}
        for name, term, by, branches in isl_piecewise.compose_branches(self._ways(pairs), pairs):
            for branch in branches:
                one = self._found_branch(self.inputs(name, term), by, branch)
                key = self._events[name].reader, self.source(term)
                ways.setdefault(key, []).append(one)
        return step_witness.Sums(
            {reader: wanted[reader] for reader in sorted(wanted, key=_key)},
            {reader: tuple(begins[reader]) for reader in sorted(begins, key=_key)},
            {
                reader: {
                    source: step_witness.Terms(
                        sets[reader][source], (*ways.get((reader, source), ()),)
                    )
                    for source in sorted(sets[reader], key=_key)
                }
                for reader in sorted(sets, key=_key)
            },
        )

    def _open_reads(self) -> isl_unions.Points:
        """The reads on which what is left in the parameters rests."""
        terms = self.terms
        found = todo = terms.finals
        for _ in range(2 * ROUNDS):
            writes = isl_unions.outputs(isl_unions.of_inputs(terms.last_writes, todo))
            more = isl_unions.identity_on(terms.finals)
            for name in isl_unions.names(writes):
                if (place := terms.places.get(name)) is not None:
                    for leaf in terms.leaves(place):
                        more = isl_unions.union(
                            more,
                            isl_unions.identity_on(
                                isl_unions.outputs(terms.reads_of(writes, place, leaf))
                            ),
                        )
            todo = isl_unions.difference(isl_unions.outputs(more), found)
            if isl_unions.is_empty(todo):
                return found
            found = isl_unions.union(found, todo)
        return isl_unions.union(terms.open_reads, terms.finals)

    def _pairs(self, reads: isl_unions.Points) -> isl_unions.Relation:
        """From each read to its terms: first of those that copy nothing, then of those that copy
        these."""
        terms = self.terms
        last = isl_unions.of_inputs(terms.last_writes, reads)
        nothing = isl_unions.union(isl_unions.inputs(terms.copies), terms.zero)
        found = isl_unions.relation(terms.of.params, [])
        todo = {name: isl_unions.of_names(reads, [name]) for name in isl_unions.names(reads)}
        rests = {
            name: {
                *isl_unions.names(
                    isl_unions.outputs(
                        isl_unions.compose(isl_unions.of_inputs(last, one), terms.copies)
                    )
                )
            }
            for name, one in todo.items()
        }
        while todo:
            ready = [name for name in todo if not rests[name] & todo.keys()]
            if not ready:
                rest = terms.sums(isl_unions.of_names(reads, todo))
                return isl_unions.union(found, isl_unions.union(rest.given, rest.made))
            for name in ready:
                mine = isl_unions.of_inputs(last, todo.pop(name))
                own = isl_unions.leaving(mine, nothing)
                more = isl_unions.compose(isl_unions.compose(mine, terms.copies), found)
                found = isl_unions.union(found, isl_unions.union(own, more))
        return found

    def _ways(self, pairs: isl_unions.Relation) -> isl_unions.Relation:
        """From each pair of a read and a term to the write by which that came."""
        terms = self.terms
        last = isl_unions.of_inputs(terms.last_writes, isl_unions.inputs(pairs))
        nothing = isl_unions.union(isl_unions.inputs(terms.copies), terms.zero)
        own = isl_unions.identity_on(isl_unions.difference(isl_unions.outputs(last), nothing))
        gives = isl_unions.union(own, isl_unions.compose(terms.copies, pairs))
        return isl_unions.joined(last, isl_unions.inverse(gives))


def _match_instances(
    pairs: isl_unions.Relation, of: _Side, other: _Side
) -> dict[int, tuple[Kept, ...]]:
    """By statement, the one counterpart of each instance; of none that has several."""
    found: dict[int, list[Kept]] = {}
    for source in isl_unions.names(isl_unions.inputs(pairs)):
        try:
            told = [
                *isl_piecewise.functions(
                    isl_unions.of_inputs(
                        pairs, isl_unions.of_names(isl_unions.inputs(pairs), [source])
                    ),
                    of.terms.of.write_events,
                )
            ]
        except isl_piecewise.SeveralError:
            continue
        for name, by, branches in told:
            for branch in branches:
                inputs = of.inputs(name)
                at = At(other.statement(by), of.values(inputs, branch))
                found.setdefault(of.statement(name), []).append(
                    Kept(of.case_condition(inputs, branch.where), at)
                )
    return {number: tuple(found[number]) for number in sorted(found)}


def _key(one: Reader | int) -> tuple[int, int, str]:
    """Statements in order, then parameters."""
    if isinstance(one, str):
        return (1 << 30, 0, one)
    return (one, 0, "") if isinstance(one, int) else (*one, "")
