"""Obligations on results: what a parameter is left as is the sum of the same terms in both.

A value that is read is the sum of its terms: what the last assignment gave, and what was added
since.  What a mere copy gives are the terms of what it reads; what else is written is a term, and so
is an element of a parameter as it was given.  By induction over time the sets that the witness
names are right if

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
from typing import Literal

from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, CExpr
from exogpu.ir.walk import substitute_bool
from exogpu.symbolic.encode.formulas import FALSE, TRUE, every, opposite, some
from exogpu.symbolic.encode.witness import WitnessError, element_names
from exogpu.symbolic.steps.alike import is_copy, is_zero_text, same_value
from exogpu.symbolic.steps.instances import (
    Instance,
    Question,
    Values,
    earlier,
    element,
    exists,
    happens,
    inside,
    instance,
    moment,
    same_element,
)
from exogpu.symbolic.steps.record import Number, Program, Statement
from exogpu.symbolic.steps.step import Draft, Step, named_instance
from exogpu.symbolic.steps.summed import Source, Summed, Sums, term_names
from exogpu.symbolic.steps.witness import At, Given, Kept, Reader

_Which = Literal["old", "new"]


@dataclass(frozen=True, slots=True)
class _Term:
    """A term: its source, and its values."""

    source: Source
    at: tuple[CExpr, ...]

    @property
    def values(self) -> Values:
        return _values(term_names(len(self.at)), self.at)

    def same(self, other: _Term) -> BExpr:
        return same_element(self.at, other.at) if self.source == other.source else FALSE


@dataclass(frozen=True, slots=True)
class _Read:
    """A read under question: None for the time is the end."""

    reader: Reader
    variable: str
    index: tuple[CExpr, ...]
    happens: BExpr
    wanted: BExpr
    """Something is said of it."""
    time: tuple[CExpr, ...] | None
    values: Values

    @property
    def live(self) -> BExpr:
        """It happens, and something is said of it."""
        return every([self.happens, self.wanted])

    @property
    def missing(self) -> BExpr:
        """It happens, and nothing is said of it."""
        return every([self.happens, opposite(self.wanted)])


@dataclass(frozen=True, slots=True)
class _Side:
    """One of both procedures, with what is said of its sums."""

    which: _Which
    program: Program
    sums: Sums

    # --- reads and terms --------------------------------------------------------------------

    def readers(self) -> Iterator[Reader]:
        """Every read but those of `+=` itself; and every parameter at the end."""
        for number, statement in enumerate(self.program.statements):
            yield from ((number, at) for at in range(len(statement.reads)))
        yield from (v.name for v in self.program.variables if v.is_param)

    def read(self, of: Instance, at: int) -> _Read:
        """A read of an instance."""
        access = of.statement.accesses[at]
        return _Read(
            (of.number, at),
            access.cell.variable,
            element(of, access.cell),
            happens(of, access),
            substitute_bool(self.sums.wanted.get((of.number, at), FALSE), of.values),
            moment(of, access),
            of.values,
        )

    def left(self, name: str, index: tuple[CExpr, ...]) -> _Read:
        """An element of a parameter at the end."""
        values = _values(element_names(len(index)), index)
        return _Read(name, name, index, TRUE, TRUE, None, values)

    def asked(self, ask: Question, reader: Reader) -> _Read:
        """Some instance of a read."""
        if isinstance(reader, str):
            return self.left(reader, ask.element(self.program.by_name[reader]))
        return self.read(ask.instance(self.program, reader[0], "read"), reader[1])

    def term(self, ask: Question, source: Source) -> _Term:
        """Some term of a source."""
        if isinstance(source, str):
            rank = len(self.program.by_name[source].shape)
            return _Term(source, ask.numbers("given", rank))
        return _Term(source, ask.instance(self.program, source, "term").at)

    def said(self, reader: Reader) -> str:
        """A read in words."""
        if isinstance(reader, str):
            return f"`{reader}` at the end ({self.which})"
        return f"read {reader[1]} of {self.told(reader[0])}"

    def told(self, number: int) -> str:
        """A statement in words."""
        return f"`{self.program.statements[number].text}` (statement {number}, {self.which})"

    # --- sets -------------------------------------------------------------------------------

    def sources(self, reader: Reader) -> Iterator[Source]:
        """Of what the terms of a read may be."""
        yield from self.sums.terms.get(reader, {})

    def has(self, read: _Read, term: _Term) -> BExpr:
        """The set of a read has a term."""
        told = self.sums.terms.get(read.reader, {}).get(term.source)
        if told is None:
            return FALSE
        return every([read.live, substitute_bool(told.where, {**read.values, **term.values})])

    def comes(self, read: _Read, term: _Term) -> Iterator[tuple[BExpr, Instance | None]]:
        """By which write a term came: under one of these conditions; None if it was given."""
        told = self.sums.terms.get(read.reader, {}).get(term.source)
        values = {**read.values, **term.values}
        others: list[BExpr] = []
        for piece in () if told is None else told.through:
            where = substitute_bool(piece.where, values)
            here = every([*others, where])
            others.append(opposite(where))
            match piece.source:
                case At():
                    yield here, named_instance(self.program, piece.source, values)
                case Given():
                    yield here, None
                case None:
                    raise WitnessError("a term came by no write")

    def gives(self, of: Instance, term: _Term) -> BExpr:
        """What an instance writes has a term."""
        statement = of.statement
        if is_nothing(statement):
            return FALSE
        if is_copy(self.program, statement, any_kind=True):
            return self.has(self.read(of, 0), term)
        return term.same(_Term(of.number, of.at))

    def given_by(self, number: int) -> tuple[Source, ...]:
        """Of what the terms of a write may be."""
        statement = self.program.statements[number]
        if is_nothing(statement):
            return ()
        if is_copy(self.program, statement, any_kind=True):
            return tuple(self.sources((number, 0)))
        return (number,)

    # --- writes before a read ---------------------------------------------------------------

    def begun(self, read: _Read) -> Iterator[tuple[BExpr, Instance | None]]:
        """The last assignment, in pieces; None for a parameter as it was given."""
        for piece in self.sums.begins.get(read.reader, ()):
            where = substitute_bool(piece.where, read.values)
            match piece.source:
                case At():
                    yield where, named_instance(self.program, piece.source, read.values)
                case Given():
                    yield where, None
                case None:
                    raise WitnessError("a sum begins with nothing")

    def was_given(self, read: _Read) -> BExpr:
        """Its sum begins with what a parameter was given."""
        return some(where for where, by in self.begun(read) if by is None)

    def reaches(self, read: _Read, of: Instance) -> BExpr:
        """An instance writes the element before the read."""
        write = of.statement.write
        if write.cell.variable != read.variable:
            return FALSE
        time = moment(of, write)
        return every(
            [
                read.live,
                happens(of, write),
                same_element(element(of, write.cell), read.index),
                TRUE if read.time is None else earlier(time, read.time),
            ]
        )

    def counts(self, read: _Read, of: Instance) -> BExpr:
        """It does, and not before the last assignment."""
        time = moment(of, of.statement.write)
        since = [
            where
            if by is None
            else every([where, earlier(moment(by, by.statement.write), time, or_same=True)])
            for where, by in self.begun(read)
        ]
        return every([self.reaches(read, of), some(since)])


def _values(names: Sequence[CExpr], at: Sequence[CExpr]) -> dict[Sym, CExpr]:
    return {name.name: value for name, value in zip(names, at, strict=True)}  # type: ignore[attr-defined]


def is_nothing(statement: Statement) -> bool:
    """Whether zero is written, as such."""
    return isinstance(statement.value, Number) and is_zero_text(statement.value.text)


def _is_term(program: Program, number: int) -> bool:
    statement = program.statements[number]
    return not is_nothing(statement) and not is_copy(program, statement, any_kind=True)


# --- obligations --------------------------------------------------------------------------------


def results(step: Step, summed: Summed) -> Iterator[Draft]:
    """Every obligation of two procedures that are compared by what they leave."""
    old, new = _Side("old", step.old, summed.old), _Side("new", step.new, summed.new)
    both = _Both(step, old, new, summed)
    yield from _bounds(step)
    for side in (old, new):
        for reader in side.readers():
            yield _begins(step, side, reader)
            yield from _terms(step, side, reader)
            yield from _comes(step, side, reader)
    yield from both.matches()
    yield from both.left()


def _about(side: _Side, reader: Reader) -> tuple[tuple[str, int], ...]:
    return ((side.which, reader[0]),) if isinstance(reader, tuple) else ()


def _bounds(step: Step) -> Iterator[Draft]:
    for number, statement in enumerate(step.new.statements):
        ask = step.question()
        here = ask.instance(step.new, number, "here")
        outside = []
        for access in statement.accesses:
            variable = step.new.by_name[access.cell.variable]
            within = inside(variable, element(here, access.cell), here.values)
            outside.append(every([happens(here, access), opposite(within)]))
        claim = f"Every element that {step.said('new', number)} accesses is in its variable."
        yield Draft("BOUNDS", (("new", number),), claim, ask.expose(outside, claim))


def _begins(step: Step, side: _Side, reader: Reader) -> Draft:
    ask = step.question()
    read = side.asked(ask, reader)
    pieces = [*side.begun(read)]
    fails = [every([read.live, *(opposite(where) for where, _ in pieces)])]
    for where, by in pieces:
        if by is None:
            right = TRUE if side.program.by_name[read.variable].is_param else FALSE
        else:
            right = side.reaches(read, by) if by.statement.kind == "=" else FALSE
        fails.append(every([read.live, where, opposite(right)]))
    for number, statement in enumerate(side.program.statements):
        if statement.kind == "=" and statement.write.cell.variable == read.variable:
            other = ask.instance(side.program, number, f"other{number}")
            time = moment(other, statement.write)
            for where, by in pieces:
                since = TRUE if by is None else earlier(moment(by, by.statement.write), time)
                fails.append(every([where, since, side.reaches(read, other)]))
    claim = f"The sum that {side.said(reader)} finds begins where it is said to."
    return Draft("BEGIN", _about(side, reader), claim, ask.expose(fails, claim))


def _terms(step: Step, side: _Side, reader: Reader) -> Iterator[Draft]:
    name = reader if isinstance(reader, str) else ""
    variable = name or side.program.statements[reader[0]].reads[reader[1]].variable  # type: ignore[index,misc]
    claim = f"What is written since is in the sum of {side.said(reader)} once."
    about = _about(side, reader)
    for number, statement in enumerate(side.program.statements):
        if statement.write.cell.variable != variable:
            continue
        if is_copy(side.program, statement, any_kind=True):
            ask = step.question()
            read = side.asked(ask, reader)
            of = ask.instance(side.program, number, "write")
            fails = every([side.counts(read, of), side.read(of, 0).missing])
            told = f"Of what {side.told(number)} copies for {side.said(reader)} the sum is known."
            yield Draft("KNOWN", (*about, (side.which, number)), told, ask.expose([fails], told))
        for source in side.given_by(number):
            ask = step.question()
            read = side.asked(ask, reader)
            of = ask.instance(side.program, number, "write")
            atom = source == number and _is_term(side.program, number)
            term = _Term(source, of.at) if atom else side.term(ask, source)
            ways = [
                every([where, same_element(by.at, of.at)])
                for where, by in side.comes(read, term)
                if by is not None and by.number == number
            ]
            known = [side.counts(read, of), side.gives(of, term)]
            fails = every([*known, opposite(every([side.has(read, term), some(ways)]))])
            yield Draft("TERM", (*about, (side.which, number)), claim, ask.expose([fails], claim))
    if side.program.by_name[variable].is_param:
        ask = step.question()
        read = side.asked(ask, reader)
        term = _Term(variable, read.index)
        ways = [where for where, by in side.comes(read, term) if by is None]
        right = every([side.has(read, term), some(ways)])
        fails = every([read.live, side.was_given(read), opposite(right)])
        yield Draft("TERM", about, claim, ask.expose([fails], claim))


def _comes(step: Step, side: _Side, reader: Reader) -> Iterator[Draft]:
    claim = f"What is in the sum of {side.said(reader)} was written since."
    for source in side.sources(reader):
        ask = step.question()
        read = side.asked(ask, reader)
        term = side.term(ask, source)
        ways = []
        for where, by in side.comes(read, term):
            if by is None:
                own = term.same(_Term(read.variable, read.index))
                ways.append(every([where, side.was_given(read), own]))
            else:
                ways.append(every([where, side.counts(read, by), side.gives(by, term)]))
        fails = every([side.has(read, term), opposite(some(ways))])
        yield Draft("COMES", _about(side, reader), claim, ask.expose([fails], claim))


# --- both ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Both:
    step: Step
    old: _Side
    new: _Side
    summed: Summed

    def counterparts(self, side: _Side, term: _Term) -> Iterator[tuple[BExpr, _Term]]:
        """The term of the other procedure that a term is, under one of these conditions."""
        if isinstance(term.source, str):
            yield TRUE, term
            return
        pieces = self.pieces(side).get(term.source, ())
        of = instance(side.program, term.source, term.at)
        for where, piece in _first(pieces, of.values):
            other = named_instance(self.other(side).program, piece.at, of.values)
            yield where, _Term(other.number, other.at)

    def pieces(self, side: _Side) -> Mapping[int, tuple[Kept, ...]]:
        return self.summed.forth if side is self.new else self.summed.back

    def other(self, side: _Side) -> _Side:
        return self.old if side is self.new else self.new

    def differ(self, ask: Question, new: _Read, old: _Read) -> Iterator[BExpr]:
        """A term of one of two reads is none of the other, or that of two."""
        for side, mine, its in ((self.new, new, old), (self.old, old, new)):
            other = self.other(side)
            for source in side.sources(mine.reader):
                term = side.term(ask, source)
                ways = []
                for where, there in self.counterparts(side, term):
                    again = [
                        every([back, home.same(term)])
                        for back, home in self.counterparts(other, there)
                    ]
                    ways.append(every([where, other.has(its, there), some(again)]))
                yield every([side.has(mine, term), opposite(some(ways))])

    def matches(self) -> Iterator[Draft]:
        """Terms that are each other's counterpart have one value."""
        for number, pieces in self.summed.forth.items():
            if number >= len(self.new.program.statements):
                raise WitnessError(f"there is no statement {number}")
            for at in range(len(pieces)):
                yield from self.match(number, at)

    def match(self, number: int, at: int) -> Iterator[Draft]:
        def asked() -> tuple[Question, Instance, Instance, BExpr]:
            ask = self.step.question()
            now = ask.instance(self.new.program, number, "here")
            where, piece = [*_first(self.summed.forth[number], now.values)][at]
            was = named_instance(self.old.program, piece.at, now.values)
            return ask, now, was, every([where, happens(now, now.statement.write)])

        ask, now, was, known = asked()
        programs = self.old.program, self.new.program
        terms = _is_term(programs[0], was.number) and _is_term(programs[1], number)
        if not terms or not same_value(programs[0], was.statement, programs[1], now.statement):
            raise WitnessError(
                f"{self.new.told(number)} computes something else than {self.old.told(was.number)}"
            )
        about = (("new", number), ("old", was.number))
        claim = f"{self.new.told(number)} is {self.old.told(was.number)}, where it is said to be."
        is_there = every([exists(was), happens(was, was.statement.write)])
        fails = every([known, opposite(is_there)])
        yield Draft("MATCH", about, claim, ask.expose([fails], claim))
        for read in range(len(now.statement.reads)):
            ask, now, was, known = asked()
            claim = f"Both find the same sum in {self.new.said((number, read))}."
            mine, its = self.new.read(now, read), self.old.read(was, read)
            failing = [mine.missing, its.missing, *self.differ(ask, mine, its)]
            fails_ = [every([known, one]) for one in failing]
            yield Draft("MATCH", about, claim, ask.expose(fails_, claim))

    def left(self) -> Iterator[Draft]:
        """A parameter is left as the sum of the same terms."""
        for variable in self.new.program.variables:
            if variable.is_param:
                ask = self.step.question()
                index = ask.element(variable)
                new, old = self.new.left(variable.name, index), self.old.left(variable.name, index)
                claim = f"Both leave sums of the same terms in `{variable.name}`."
                fails = [*self.differ(ask, new, old)]
                yield Draft("LEFT", (), claim, ask.expose(fails, claim))


def _first(pieces: Sequence[Kept], values: Values) -> Iterator[tuple[BExpr, Kept]]:
    """Each piece where it is the first that holds."""
    others: list[BExpr] = []
    for piece in pieces:
        where = substitute_bool(piece.where, values)
        yield every([*others, where]), piece
        others.append(opposite(where))
