"""One of two procedures that are compared by results: its reads, and the terms of their sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from exogpu.ir.nodes import BExpr, CExpr, CVar
from exogpu.ir.types import Sym
from exogpu.ir.walk import substitute_bool
from exogpu.symbolic.encode.formulas import FALSE, TRUE, conjunction_of, disjunction_of, opposite
from exogpu.symbolic.encode.witness import WitnessError, element_names
from exogpu.symbolic.steps import record
from exogpu.symbolic.steps.same_value import is_zero_text, passed_on
from exogpu.symbolic.steps.step import named_instance
from exogpu.symbolic.steps.step_witness import At, Given, Reader, Sums, SumSource, term_names

Which: TypeAlias = Literal["old", "new"]


@dataclass(frozen=True, slots=True)
class Term:
    """A term: its source, and its values."""

    source: SumSource
    at: tuple[CExpr, ...]

    @property
    def values(self) -> record.Values:
        """By the names of a term's values in a witness."""
        return values_of(term_names(len(self.at)), self.at)

    def is_same_term(self, other: Term) -> BExpr:
        """Both are one term."""
        return record.same_element(self.at, other.at) if self.source == other.source else FALSE


@dataclass(frozen=True, slots=True)
class Read:
    """A read under question: None for the time is the end."""

    reader: Reader
    variable: str
    index: tuple[CExpr, ...]
    happens: BExpr
    wanted: BExpr
    """Something is said of it."""
    time: tuple[CExpr, ...] | None
    values: record.Values

    @property
    def live(self) -> BExpr:
        """It happens, and something is said of it."""
        return conjunction_of([self.happens, self.wanted])

    @property
    def is_missing(self) -> BExpr:
        """It happens, and nothing is said of it."""
        return conjunction_of([self.happens, opposite(self.wanted)])


@dataclass(frozen=True)
class Side:
    """One of both procedures, with what is said of its sums."""

    which: Which
    program: record.Program
    sums: Sums

    # --- reads and terms --------------------------------------------------------------------

    def readers(self) -> Iterator[Reader]:
        """Every read but those of `+=` itself; and every parameter at the end."""
        for number, statement in enumerate(self.program.statements):
            yield from ((number, at) for at in range(len(statement.reads)))
        yield from (v.name for v in self.program.variables if v.is_param)

    def read_of(self, of: record.Instance, at: int) -> Read:
        """A read of an instance."""
        access = of.statement.accesses[at]
        return Read(
            (of.number, at),
            access.cell.variable,
            record.element(of, access.cell),
            record.happens(of, access),
            substitute_bool(self.sums.wanted.get((of.number, at), FALSE), of.values),
            record.moment(of, access),
            of.values,
        )

    def final_element(self, name: str, index: tuple[CExpr, ...]) -> Read:
        """An element of a parameter at the end."""
        values = values_of(element_names(len(index)), index)
        return Read(name, name, index, TRUE, TRUE, None, values)

    def queried_read(self, ask: record.Question, reader: Reader) -> Read:
        """Some instance of a read."""
        if isinstance(reader, str):
            return self.final_element(reader, ask.element(self.program.by_name[reader]))
        return self.read_of(ask.instance(self.program, reader[0], "read"), reader[1])

    def term(self, ask: record.Question, source: SumSource) -> Term:
        """Some term of a source."""
        if isinstance(source, str):
            rank = len(self.program.by_name[source].shape)
            return Term(source, ask.numbers("given", rank))
        return Term(source, ask.instance(self.program, source, "term").iterator_values)

    def describe_read(self, reader: Reader) -> str:
        """A read in words."""
        if isinstance(reader, str):
            return f"`{reader}` at the end ({self.which})"
        return f"read {reader[1]} of {self.describe_statement(reader[0])}"

    def describe_statement(self, number: int) -> str:
        """A statement in words."""
        return f"`{self.program.statements[number].text}` (statement {number}, {self.which})"

    # --- statements -------------------------------------------------------------------------

    @cached_property
    def copies(self) -> frozenset[int]:
        """The statements that only pass on the terms of what they read."""
        return passed_on(self.program)

    def is_term(self, number: int) -> bool:
        """Tests whether a statement writes an expression."""
        return not is_nothing(self.program.statements[number]) and number not in self.copies

    # --- sets -------------------------------------------------------------------------------

    def sources(self, reader: Reader) -> Iterator[SumSource]:
        """Yields the possible sources of the terms of a read."""
        yield from self.sums.terms.get(reader, {})

    def has(self, read: Read, term: Term) -> BExpr:
        """The set of a read has a term."""
        told = self.sums.terms.get(read.reader, {}).get(term.source)
        if told is None:
            return FALSE
        return conjunction_of(
            [read.live, substitute_bool(told.where, {**read.values, **term.values})]
        )

    def comes(self, read: Read, term: Term) -> Iterator[tuple[BExpr, record.Instance | None]]:
        """By which write a term came: under one of these conditions; None if it was given."""
        told = self.sums.terms.get(read.reader, {}).get(term.source)
        values = {**read.values, **term.values}
        others: list[BExpr] = []
        for piece in () if told is None else told.through:
            where = substitute_bool(piece.where, values)
            here = conjunction_of([*others, where])
            others.append(opposite(where))
            match piece.source:
                case At():
                    yield here, named_instance(self.program, piece.source, values)
                case Given():
                    yield here, None
                case None:
                    raise WitnessError("a term came by no write")

    def gives(self, of: record.Instance, term: Term) -> BExpr:
        """Returns the condition that the value an instance writes has a term."""
        statement = of.statement
        if is_nothing(statement):
            return FALSE
        if of.number in self.copies:
            return self.has(self.read_of(of, 0), term)
        return term.is_same_term(Term(of.number, of.iterator_values))

    def given_by(self, number: int) -> tuple[SumSource, ...]:
        """Returns the possible sources of the terms of a write."""
        statement = self.program.statements[number]
        if is_nothing(statement):
            return ()
        if number in self.copies:
            return tuple(self.sources((number, 0)))
        return (number,)

    # --- writes before a read ---------------------------------------------------------------

    def last_assignments(self, read: Read) -> Iterator[tuple[BExpr, record.Instance | None]]:
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

    def was_given(self, read: Read) -> BExpr:
        """Its sum begins with what a parameter was given."""
        return disjunction_of(where for where, by in self.last_assignments(read) if by is None)

    def reaches(self, read: Read, of: record.Instance) -> BExpr:
        """An instance writes the element before the read."""
        write = of.statement.write
        if write.cell.variable != read.variable:
            return FALSE
        time = record.moment(of, write)
        return conjunction_of(
            [
                read.live,
                record.happens(of, write),
                record.same_element(record.element(of, write.cell), read.index),
                TRUE if read.time is None else record.earlier(time, read.time),
            ]
        )

    def counts(self, read: Read, of: record.Instance) -> BExpr:
        """It does, and not before the last assignment."""
        time = record.moment(of, of.statement.write)
        since = [
            where
            if by is None
            else conjunction_of(
                [where, record.earlier(record.moment(by, by.statement.write), time, or_same=True)]
            )
            for where, by in self.last_assignments(read)
        ]
        return conjunction_of([self.reaches(read, of), disjunction_of(since)])


def values_of(names: Sequence[CVar], at: Sequence[CExpr]) -> dict[Sym, CExpr]:
    """Values by name."""
    return {name.name: value for name, value in zip(names, at, strict=True)}


def is_nothing(statement: record.Statement) -> bool:
    """Tests whether a statement writes the number zero."""
    return isinstance(statement.value, record.Number) and is_zero_text(statement.value.text)
