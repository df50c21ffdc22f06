"""Obligations on what reads find: the last write of an element stands for what the read does.

A read of the new procedure that stands for an element of the old one, and a parameter at the end,
is given the last write of what it reads, in pieces.  That write is earlier, of the same element,
and stands for the same old one; nothing writes in between; and no image has written the old element
since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exogpu.ir.nodes import BExpr, CExpr
from exogpu.ir.walk import substitute_bool
from exogpu.symbolic.encode.formulas import FALSE, TRUE, conjunction_of, disjunction_of, opposite
from exogpu.symbolic.encode.witness import element_names
from exogpu.symbolic.steps import record
from exogpu.symbolic.steps.step import Draft, Stands, Step, named_instance
from exogpu.symbolic.steps.step_witness import At, Found, Given, Reader, Source


@dataclass(frozen=True)
class _Read:
    """A read under question: None for the time is the end."""

    ask: record.Question
    variable: str
    index: tuple[CExpr, ...]
    stands: tuple[Stands, ...]
    time: tuple[CExpr, ...] | None
    values: record.Values
    """The values of the names in its witness."""

    def is_after(self, time: Sequence[CExpr]) -> BExpr:
        """The moment comes before it."""
        return TRUE if self.time is None else record.earlier(time, self.time)


def flows(step: Step) -> Iterator[Draft]:
    """For each read, that the pieces cover it, and for each piece what it claims."""
    for reader, told in _readers(step):
        about = (("new", reader[0]),) if isinstance(reader, tuple) else ()
        pieces = step.witness.found.get(reader, ())
        read = _queried_read(step, reader)
        claim = f"Of {told}, it is said what wrote last, wherever it reads what counts."
        here = [substitute_bool(piece.where, read.values) for piece in pieces]
        live = disjunction_of(one.where for one in read.stands)
        if TRUE not in here:
            script = read.ask.expose([conjunction_of([live, *map(opposite, here)])], claim)
            yield Draft("FLOW", about, claim, script)
        for piece in pieces:
            for part, words in (
                (_source_conditions, "finds what it stands for"),
                (_overwrites_between, "finds the last write of its element"),
                (_stale, "finds what is not out of date"),
            ):
                read = _queried_read(step, reader)
                where = substitute_bool(piece.where, read.values)
                fails = [conjunction_of([where, one]) for one in part(step, read, piece.source)]
                fails = [one for one in fails if one != FALSE]
                if fails:
                    claim = (
                        f"{told[0].upper()}{told[1:]} {words}{_source_text(step, piece.source)}."
                    )
                    yield Draft("FLOW", about, claim, read.ask.expose(fails, claim))


def _source_text(step: Step, source: Source) -> str:
    match source:
        case At():
            return f", of {step.describe('new', source.statement)}"
        case Given():
            return ", which was given"
        case None:
            return ", which nobody wrote"


def _readers(step: Step) -> Iterator[tuple[Reader, str]]:
    """Each read that may stand for something, in words."""
    for number, access in step.new.accesses():
        if access.writes or not step.counts(access):
            continue
        if number in step.copies or number in step.recomputed or step.by_new[number]:
            said = step.describe("new", number)
            yield (number, access.number), f"read {access.number} of {said}"
    for variable in step.new.variables:
        if variable.is_param and variable.name in step.changed_variables:
            yield variable.name, f"`{variable.name}` at the end"


def _queried_read(step: Step, reader: Reader) -> _Read:
    ask = step.question()
    if isinstance(reader, str):
        index = ask.element(step.new.by_name[reader])
        names = (name.name for name in element_names(len(index)))
        values = dict(zip(names, index, strict=True))
        return _Read(ask, reader, index, (Stands(TRUE, reader, index),), None, values)
    number, at = reader
    here = ask.instance(step.new, number, "read")
    access = here.statement.accesses[at]
    index = record.element(here, access.cell)
    stands = step.stands(here, access)
    return _Read(ask, access.cell.variable, index, stands, record.moment(here, access), here.values)


# --- what is claimed ----------------------------------------------------------------------------


def _source_conditions(step: Step, read: _Read, source: Source) -> Iterator[BExpr]:
    """The write is none, or of another element, or stands for another."""
    match source:
        case None:
            return
        case Given():
            is_param = step.new.by_name[read.variable].is_param
            for one in read.stands:
                same = is_param and one.variable == read.variable
                alike = record.same_element(one.cell, read.index) if same else FALSE
                yield conjunction_of([one.where, opposite(alike)])
        case At():
            by = named_instance(step.new, source, read.values)
            write = by.statement.write
            if write.cell.variable != read.variable:
                yield from (one.where for one in read.stands)
                return
            parts = [
                record.happens(by, write),
                record.same_element(record.element(by, write.cell), read.index),
                read.is_after(record.moment(by, write)),
            ]
            for one in read.stands:
                ways = [_stand_for_one(one, other) for other in step.stands(by, write)]
                yield conjunction_of(
                    [one.where, opposite(conjunction_of([*parts, disjunction_of(ways)]))]
                )


def _stand_for_one(one: Stands, other: Stands) -> BExpr:
    if one.variable != other.variable:
        return FALSE
    return conjunction_of([other.where, record.same_element(one.cell, other.cell)])


def _overwrites_between(step: Step, read: _Read, source: Source) -> Iterator[BExpr]:
    """Another write of the element comes after that one, and before the read."""
    live = disjunction_of(one.where for one in read.stands)
    if source is None and step.new.by_name[read.variable].is_param:
        yield live
    for number, statement in enumerate(step.new.statements):
        write = statement.write
        if write.cell.variable != read.variable:
            continue
        other = read.ask.instance(step.new, number, f"other{number}")
        time = record.moment(other, write)
        parts = [
            live,
            _after_source(step, read, source, time),
            read.is_after(time),
            record.happens(other, write),
            record.same_element(record.element(other, write.cell), read.index),
            opposite(step.idle(other)),
        ]
        yield conjunction_of(parts)


def _stale(step: Step, read: _Read, source: Source) -> Iterator[BExpr]:
    """An image writes what the read stands for after that write, and before the read."""
    for one in read.stands:
        if source is None and _is_param(step, one.variable):
            yield one.where
        for number, image, write in step.originals(one.variable):
            other = read.ask.instance(step.new, number, f"other{number}")
            time = record.moment(other, write)
            was = record.original(step.old, image, other)
            cell = record.was_access(step.old, image, write).cell
            parts = [
                one.where,
                _after_source(step, read, source, time),
                read.is_after(time),
                record.is_same_access(step.old, image, other, write),
                record.same_element(record.element(was, cell), one.cell),
            ]
            yield conjunction_of(parts)


def _is_param(step: Step, variable: str) -> bool:
    known = step.old.by_name.get(variable)
    return known is not None and known.is_param


def _after_source(step: Step, read: _Read, source: Source, time: Sequence[CExpr]) -> BExpr:
    """The moment comes after the write."""
    if not isinstance(source, At):
        return TRUE
    by = named_instance(step.new, source, read.values)
    return record.earlier(record.moment(by, by.statement.write), time)


# --- zero ---------------------------------------------------------------------------------------


def zeros(step: Step) -> Iterator[Draft]:
    """Drafts the obligation that the last write before a read said to find zero assigns zero.

    By induction over time: that one's own reads come earlier.
    """
    for (number, at), zero in step.witness.zeros.items():
        access = step.new.statements[number].accesses[at]
        for piece in (None, *zero.found):
            ask = step.question()
            here = ask.instance(step.new, number, "read")
            index = record.element(here, access.cell)
            read = _Read(
                ask, access.cell.variable, index, (), record.moment(here, access), here.values
            )
            known = [record.happens(here, access), substitute_bool(zero.where, here.values)]
            fails = list(_not_zero(step, read, zero.found, piece))
            fails = [conjunction_of([*known, one]) for one in fails]
            claim = f"Read {at} of {step.describe('new', number)} finds zero where it is said to."
            yield Draft("ZERO", (("new", number),), claim, ask.expose(fails, claim))


def _not_zero(
    step: Step, read: _Read, found: Sequence[Found], piece: Found | None
) -> Iterator[BExpr]:
    if piece is None:
        yield conjunction_of(opposite(substitute_bool(one.where, read.values)) for one in found)
        return
    where = substitute_bool(piece.where, read.values)
    if not isinstance(piece.source, At):
        yield where
        return
    by = named_instance(step.new, piece.source, read.values)
    write = by.statement.write
    if by.statement.kind != "=" or write.cell.variable != read.variable:
        yield where
        return
    parts = [
        record.happens(by, write),
        record.same_element(record.element(by, write.cell), read.index),
        read.is_after(record.moment(by, write)),
        step.is_zero(by, by.statement.value),
    ]
    yield conjunction_of([where, opposite(conjunction_of(parts))])
    for number, statement in enumerate(step.new.statements):
        other = read.ask.instance(step.new, number, f"other{number}")
        if statement.write.cell.variable == read.variable:
            time = record.moment(other, statement.write)
            yield conjunction_of(
                [
                    where,
                    record.happens(other, statement.write),
                    record.same_element(record.element(other, statement.write.cell), read.index),
                    record.earlier(record.moment(by, write), time),
                    read.is_after(time),
                ]
            )
