"""Obligations on results: what a parameter is left as is the sum of the same terms in both.

A value that is read is the sum of its terms: what the last assignment gave, and what was added
since.  What a mere copy gives are the terms of what it reads; what else is written is a term, and
so is an element of a parameter as it was given.  Terms that are wider than their sum are rounded
after they are added: a sum of such ones that is added to another is no mere copy.  By induction
over time the sets that the witness names are right if

1. each read of which something is said has the last assignment that is named (BEGIN), and what it
   copies is such a read, too (KNOWN);
2. every write since gives terms that the set has, each by that write alone (TERM);
3. every term of the set comes by a write since that gives it (COMES).

So each term is in the sum exactly once.  Both procedures leave the same if a term of each is one of
the other, of the same expression, in the same types, of reads that are sums of the same terms
(MATCH), and what is left in a parameter is, too (LEFT): both maps are each other's inverse there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from exogpu.ir.nodes import BExpr
from exogpu.ir.walk import substitute_bool
from exogpu.symbolic.encode.formulas import FALSE, TRUE, conjunction_of, disjunction_of, opposite
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps import record
from exogpu.symbolic.steps.compared_results import Read, Side, Term
from exogpu.symbolic.steps.same_value import same_value
from exogpu.symbolic.steps.step import Draft, Step, named_instance
from exogpu.symbolic.steps.step_witness import Kept, Reader, Summed

# --- obligations --------------------------------------------------------------------------------


def results(step: Step, summed: Summed) -> Iterator[Draft]:
    """Every obligation of two procedures that are compared by what they leave."""
    old, new = Side("old", step.old, summed.old), Side("new", step.new, summed.new)
    both = _Both(step, old, new, summed)
    yield from _bounds(step)
    for side in (old, new):
        for reader in side.readers():
            yield _begins(step, side, reader)
            yield from _terms(step, side, reader)
            yield from _comes(step, side, reader)
    yield from both.matches()
    yield from both.final_drafts()


def _statements_of(side: Side, reader: Reader) -> tuple[tuple[str, int], ...]:
    return ((side.which, reader[0]),) if isinstance(reader, tuple) else ()


def _bounds(step: Step) -> Iterator[Draft]:
    for number, statement in enumerate(step.new.statements):
        ask = step.question()
        here = ask.instance(step.new, number, "here")
        outside = []
        for access in statement.accesses:
            variable = step.new.by_name[access.cell.variable]
            within = record.lies_in_variable(
                variable, record.element(here, access.cell), here.values
            )
            outside.append(conjunction_of([record.happens(here, access), opposite(within)]))
        claim = f"Every element that {step.describe('new', number)} accesses is in its variable."
        yield Draft("BOUNDS", (("new", number),), claim, ask.expose(outside, claim))


def _begins(step: Step, side: Side, reader: Reader) -> Draft:
    ask = step.question()
    read = side.queried_read(ask, reader)
    pieces = [*side.last_assignments(read)]
    fails = [conjunction_of([read.live, *(opposite(where) for where, _ in pieces)])]
    for where, by in pieces:
        if by is None:
            right: BExpr = TRUE if side.program.by_name[read.variable].is_param else FALSE
        else:
            right = side.reaches(read, by) if by.statement.kind == "=" else FALSE
        fails.append(conjunction_of([read.live, where, opposite(right)]))
    for number, statement in enumerate(side.program.statements):
        if statement.kind == "=" and statement.write.cell.variable == read.variable:
            other = ask.instance(side.program, number, f"other{number}")
            time = record.moment(other, statement.write)
            for where, by in pieces:
                since = (
                    TRUE
                    if by is None
                    else record.earlier(record.moment(by, by.statement.write), time)
                )
                fails.append(conjunction_of([where, since, side.reaches(read, other)]))
    claim = f"The sum that {side.describe_read(reader)} finds begins where it is said to."
    return Draft("BEGIN", _statements_of(side, reader), claim, ask.expose(fails, claim))


def _terms(step: Step, side: Side, reader: Reader) -> Iterator[Draft]:
    name = reader if isinstance(reader, str) else ""
    variable = name or side.program.statements[reader[0]].reads[reader[1]].variable  # type: ignore[index]
    claim = f"What is written since is in the sum of {side.describe_read(reader)} once."
    about = _statements_of(side, reader)
    for number, statement in enumerate(side.program.statements):
        if statement.write.cell.variable != variable:
            continue
        if number in side.copies:
            ask = step.question()
            read = side.queried_read(ask, reader)
            of = ask.instance(side.program, number, "write")
            fails = conjunction_of([side.counts(read, of), side.read_of(of, 0).is_missing])
            copied, wanted = side.describe_statement(number), side.describe_read(reader)
            told = f"Of what {copied} copies for {wanted} the sum is known."
            yield Draft("KNOWN", (*about, (side.which, number)), told, ask.expose([fails], told))
        for source in side.given_by(number):
            ask = step.question()
            read = side.queried_read(ask, reader)
            of = ask.instance(side.program, number, "write")
            atom = source == number and side.is_term(number)
            term = Term(source, of.iterator_values) if atom else side.term(ask, source)
            ways = [
                conjunction_of([where, record.same_element(by.iterator_values, of.iterator_values)])
                for where, by in side.comes(read, term)
                if by is not None and by.number == number
            ]
            known = [side.counts(read, of), side.gives(of, term)]
            fails = conjunction_of(
                [*known, opposite(conjunction_of([side.has(read, term), disjunction_of(ways)]))]
            )
            yield Draft("TERM", (*about, (side.which, number)), claim, ask.expose([fails], claim))
    if side.program.by_name[variable].is_param:
        ask = step.question()
        read = side.queried_read(ask, reader)
        term = Term(variable, read.index)
        ways = [where for where, by in side.comes(read, term) if by is None]
        right = conjunction_of([side.has(read, term), disjunction_of(ways)])
        fails = conjunction_of([read.live, side.was_given(read), opposite(right)])
        yield Draft("TERM", about, claim, ask.expose([fails], claim))


def _comes(step: Step, side: Side, reader: Reader) -> Iterator[Draft]:
    claim = f"What is in the sum of {side.describe_read(reader)} was written since."
    for source in side.sources(reader):
        ask = step.question()
        read = side.queried_read(ask, reader)
        term = side.term(ask, source)
        ways = []
        for where, by in side.comes(read, term):
            if by is None:
                own = term.is_same_term(Term(read.variable, read.index))
                ways.append(conjunction_of([where, side.was_given(read), own]))
            else:
                ways.append(conjunction_of([where, side.counts(read, by), side.gives(by, term)]))
        fails = conjunction_of([side.has(read, term), opposite(disjunction_of(ways))])
        yield Draft("COMES", _statements_of(side, reader), claim, ask.expose([fails], claim))


# --- both ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Both:
    step: Step
    old: Side
    new: Side
    summed: Summed

    def counterparts(self, side: Side, term: Term) -> Iterator[tuple[BExpr, Term]]:
        """The term of the other procedure that a term is, under one of these conditions."""
        if isinstance(term.source, str):
            yield TRUE, term
            return
        pieces = self.pieces(side).get(term.source, ())
        of = record.instance(side.program, term.source, term.at)
        for where, piece in _first_pieces(pieces, of.values):
            other = named_instance(self.opposite_side(side).program, piece.at, of.values)
            yield where, Term(other.number, other.iterator_values)

    def pieces(self, side: Side) -> Mapping[int, tuple[Kept, ...]]:
        return self.summed.forth if side is self.new else self.summed.back

    def opposite_side(self, side: Side) -> Side:
        return self.old if side is self.new else self.new

    def differ(self, ask: record.Question, new: Read, old: Read) -> Iterator[BExpr]:
        """A term of one of two reads is none of the other, or that of two."""
        both = ((self.new, new), (self.old, old))
        for one, other in (both, both[::-1]):
            if self.is_repeated(one[0], one[1].reader):
                yield from self.differ_alone(ask, one, other)
                return
        for (side, mine), (other_, its) in (both, both[::-1]):
            for source in side.sources(mine.reader):
                term = side.term(ask, source)
                ways = []
                for where, there in self.counterparts(side, term):
                    again = [
                        conjunction_of([back, home.is_same_term(term)])
                        for back, home in self.counterparts(other_, there)
                    ]
                    ways.append(
                        conjunction_of([where, other_.has(its, there), disjunction_of(again)])
                    )
                yield conjunction_of([side.has(mine, term), opposite(disjunction_of(ways))])

    def is_repeated(self, side: Side, reader: Reader) -> bool:
        """A term of the read is computed again and again by the other procedure: it has no one
        counterpart, but is the one of each."""
        sources = side.sources(reader)
        return any(isinstance(s, int) and s not in self.pieces(side) for s in sources)

    def differ_alone(
        self, ask: record.Question, one: tuple[Side, Read], other: tuple[Side, Read]
    ) -> Iterator[BExpr]:
        """The other read finds not just the term that its sum begins with, or the first not just
        the counterpart of that."""
        (side, mine), (many, its) = one, other
        begins = [
            (where, Term(by.number, by.iterator_values))
            for where, by in many.last_assignments(its)
            if by is not None and many.is_term(by.number)
        ]
        for source in many.sources(its.reader):
            term = many.term(ask, source)
            first = disjunction_of(
                conjunction_of([where, begin.is_same_term(term)]) for where, begin in begins
            )
            there = disjunction_of(
                conjunction_of([where, side.has(mine, found)])
                for where, found in self.counterparts(many, term)
            )
            yield conjunction_of([many.has(its, term), opposite(conjunction_of([first, there]))])
        for source in side.sources(mine.reader):
            term = side.term(ask, source)
            ways = [
                conjunction_of([where, many.has(its, begin), here, found.is_same_term(term)])
                for where, begin in begins
                for here, found in self.counterparts(many, begin)
            ]
            yield conjunction_of([side.has(mine, term), opposite(disjunction_of(ways))])

    def matches(self) -> Iterator[Draft]:
        """Terms that are each other's counterpart have one value."""
        for number, pieces in self.summed.forth.items():
            for at in range(len(pieces)):
                yield from self.match(self.new, number, at)
        # Else a term that is the counterpart of its counterpart has been compared with that.
        if any(self.is_repeated(self.new, reader) for reader in self.new.readers()):
            for number, pieces in self.summed.back.items():
                for at in range(len(pieces)):
                    yield from self.match(self.old, number, at)

    def match(self, side: Side, number: int, at: int) -> Iterator[Draft]:
        other = self.opposite_side(side)
        if number >= len(side.program.statements):
            raise WitnessError(f"there is no statement {number}")

        def question() -> tuple[record.Question, record.Instance, record.Instance, BExpr]:
            ask = self.step.question()
            here = ask.instance(side.program, number, "here")
            where, piece = [*_first_pieces(self.pieces(side)[number], here.values)][at]
            there = named_instance(other.program, piece.at, here.values)
            return (
                ask,
                here,
                there,
                conjunction_of([where, record.happens(here, here.statement.write)]),
            )

        ask, here, there, known = question()
        terms = side.is_term(number) and other.is_term(there.number)
        same = same_value(other.program, there.statement, side.program, here.statement)
        told, counterpart = side.describe_statement(number), other.describe_statement(there.number)
        if not terms or not same:
            raise WitnessError(f"{told} computes something else than {counterpart}")
        about = ((side.which, number), (other.which, there.number))
        claim = f"{told} is {counterpart}, where it is said to be."
        is_there = conjunction_of(
            [record.exists(there), record.happens(there, there.statement.write)]
        )
        fails = conjunction_of([known, opposite(is_there)])
        yield Draft("MATCH", about, claim, ask.expose([fails], claim))
        for read in range(len(here.statement.reads)):
            ask, here, there, known = question()
            claim = f"Both find the same sum in {side.describe_read((number, read))}."
            mine, its = side.read_of(here, read), other.read_of(there, read)
            new, old = (mine, its) if side is self.new else (its, mine)
            failing = [mine.is_missing, its.is_missing, *self.differ(ask, new, old)]
            fails_ = [conjunction_of([known, one]) for one in failing]
            yield Draft("MATCH", about, claim, ask.expose(fails_, claim))

    def final_drafts(self) -> Iterator[Draft]:
        """A parameter is left as the sum of the same terms."""
        for variable in self.new.program.variables:
            if variable.is_param:
                ask = self.step.question()
                index = ask.element(variable)
                new, old = (
                    self.new.final_element(variable.name, index),
                    self.old.final_element(variable.name, index),
                )
                claim = f"Both leave sums of the same terms in `{variable.name}`."
                fails = [*self.differ(ask, new, old)]
                yield Draft("LEFT", (), claim, ask.expose(fails, claim))


def _first_pieces(pieces: Sequence[Kept], values: record.Values) -> Iterator[tuple[BExpr, Kept]]:
    """Each piece where it is the first that holds."""
    others: list[BExpr] = []
    for piece in pieces:
        where = substitute_bool(piece.where, values)
        yield conjunction_of([*others, where]), piece
        others.append(opposite(where))
