"""Findings about a step, as data: the new places of old statements, and the writes that each read
finds.

Nothing of it is believed.  Statements are told by their numbers in their program; expressions are
of the iterators of the statement that they are about, and of `element.0` and so on for an element
of a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from exogpu.ir.nodes import BExpr, CExpr, CVar
from exogpu.symbolic.certificate import strict_json
from exogpu.symbolic.encode.witness import element_names, witness_integer
from exogpu.symbolic.steps.record import Program, Record
from exogpu.symbolic.steps.record_json import Texts, condition_text, text

Reader: TypeAlias = tuple[int, int] | str
"""Statement and access of a new procedure, or the parameter that is left at its end."""


@dataclass(frozen=True, slots=True)
class At:
    """An instance of a statement."""

    statement: int
    values: tuple[CExpr, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A parameter as it was given."""


Source: TypeAlias = At | Given | None
"""The last write; None where there is none."""


@dataclass(frozen=True, slots=True)
class Found:
    """A condition, and the last write of an element under it."""

    where: BExpr
    source: Source


@dataclass(frozen=True, slots=True)
class Kept:
    """A condition, and the new instance that an old one becomes under it."""

    where: BExpr
    at: At


@dataclass(frozen=True, slots=True)
class Zero:
    """A condition under which a read finds zero, and the writes of that zero."""

    where: BExpr
    found: tuple[Found, ...]


@dataclass(frozen=True, slots=True)
class Witness:
    """All of it."""

    kept: Mapping[int, tuple[Kept, ...]]
    """By old statement; a statement that has none is gone."""
    overwritten: Mapping[int, tuple[At, ...]]
    """By old statement that is gone somewhere: kept assignments, the next on its element; none
    where nobody writes it again."""
    found: Mapping[Reader, tuple[Found, ...]]
    """By read of the new procedure that stands for something."""
    zeros: Mapping[tuple[int, int], Zero]
    """By read of the new procedure."""


EMPTY = Witness({}, {}, {}, {})


# Accesses that are of one element, for statements that are read as others: data, not believed.

Classes: TypeAlias = tuple[tuple[int, ...], ...]
"""The classes of the whole, then of the parts: of each statement the numbers of the elements that
it reads, in order, and that which it writes."""


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of each law, told apart by numbers."""

    of: tuple[Classes, ...]


# Findings about results, as data: the terms whose sum each read of two procedures is.
#
# Nothing of it is believed. A term is a statement that writes an expression, at values of its
# iterators, or an element of a parameter as it was given; its own values are `term.0` and so on.
# Of several pieces the first counts whose condition holds.

SumSource: TypeAlias = int | str
"""The statement of a term, or the parameter."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one source in the sum that a read finds."""

    where: BExpr
    """The condition on the iterators of the read, and on the term's own values."""
    through: tuple[Found, ...]
    """By which write each came."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The reads of one procedure."""

    wanted: Mapping[Reader, BExpr]
    """The instances of a read of which something is said; of parameters at the end, all."""
    begins: Mapping[Reader, tuple[Found, ...]]
    """The last assignment before each; the sum is of what it gave and what was added since."""
    terms: Mapping[Reader, Mapping[SumSource, Terms]]


@dataclass(frozen=True, slots=True)
class Summed:
    """Two procedures, and which terms of them are one."""

    old: Sums
    new: Sums
    forth: Mapping[int, tuple[Kept, ...]]
    """By new statement, the old instance of which each is the counterpart."""
    back: Mapping[int, tuple[Kept, ...]]
    """By old statement, the new one."""


def term_names(rank: int) -> tuple[CVar, ...]:
    """The integers that stand for a term."""
    return tuple(witness_integer(f"term.{at}") for at in range(rank))


# Witnesses of steps as JSON, and back: what is read is data of a closed grammar, and nothing of
# it is believed.

SCHEMA: Final = 1


# --- to JSON ------------------------------------------------------------------------------------


def to_json(witness: Witness) -> dict[str, strict_json.Json]:
    """The witness as plain lists and dicts."""
    return {
        "schema": SCHEMA,
        "kept": [
            {
                "old": old,
                "by": [{"where": condition_text(one.where), **at_json(one.at)} for one in kept],
            }
            for old, kept in witness.kept.items()
        ],
        "overwritten": [
            {"old": old, "by": [at_json(one) for one in by]}
            for old, by in witness.overwritten.items()
        ],
        "found": [
            {**reader_json(reader), "by": found_json(found)}
            for reader, found in witness.found.items()
        ],
        "zeros": [
            {
                "statement": statement,
                "access": access,
                "where": condition_text(zero.where),
                "by": found_json(zero.found),
            }
            for (statement, access), zero in witness.zeros.items()
        ],
    }


def at_json(at: At) -> dict[str, strict_json.Json]:
    """An instance of a statement."""
    return {"statement": at.statement, "at": [text(value) for value in at.values]}


def reader_json(reader: Reader) -> dict[str, strict_json.Json]:
    """A read, or a parameter at the end."""
    if isinstance(reader, str):
        return {"end": reader}
    return {"statement": reader[0], "access": reader[1]}


def found_json(found: Sequence[Found]) -> list[strict_json.Json]:
    """Returns the last writes as JSON, by cases."""
    return [{"where": condition_text(one.where), "source": _source(one.source)} for one in found]


def _source(source: Source) -> strict_json.Json:
    match source:
        case At():
            return at_json(source)
        case Given():
            return "given"
        case None:
            return None


# --- shapes -------------------------------------------------------------------------------------

COUNT: Final = strict_json.integer_between(0)
TEXTS_SHAPE: Final = strict_json.a_list(strict_json.TEXT)
_AT: Final = strict_json.an_object(statement=COUNT, at=TEXTS_SHAPE)


def _is_source(value: object, where: str) -> None:
    (_AT if isinstance(value, dict) else strict_json.maybe(strict_json.one_of(["given"])))(
        value, where
    )


FOUND_SHAPE: Final = strict_json.a_list(
    strict_json.an_object(where=strict_json.TEXT, source=_is_source)
)


def _is_read(value: object, where: str) -> None:
    if isinstance(value, dict) and "end" in value:
        strict_json.fields(where, value, end=strict_json.NAME, by=FOUND_SHAPE)
    else:
        strict_json.fields(where, value, statement=COUNT, access=COUNT, by=FOUND_SHAPE)


_SHAPE: Final[dict[str, strict_json.Shape]] = {
    "schema": strict_json.one_of([SCHEMA]),
    "kept": strict_json.a_list(
        strict_json.an_object(
            old=COUNT,
            by=strict_json.a_list(
                strict_json.an_object(where=strict_json.TEXT, statement=COUNT, at=TEXTS_SHAPE)
            ),
        )
    ),
    "overwritten": strict_json.a_list(strict_json.an_object(old=COUNT, by=strict_json.a_list(_AT))),
    "found": strict_json.a_list(_is_read),
    "zeros": strict_json.a_list(
        strict_json.an_object(statement=COUNT, access=COUNT, where=strict_json.TEXT, by=FOUND_SHAPE)
    ),
}


# --- from JSON ----------------------------------------------------------------------------------


def witness_of(value: object, record: Record) -> Witness:
    """The witness of a JSON, about a record.  Raises MalformedError."""
    found = strict_json.fields("", value, **_SHAPE)
    read = _Reader(record)
    return Witness(
        keyed("kept", [read.read_kept(one) for one in found["kept"]]),
        keyed("overwritten", [read.read_overwritten(one) for one in found["overwritten"]]),
        keyed("found", [read.read_found(one) for one in found["found"]]),
        keyed("zeros", [read.zero(one) for one in found["zeros"]]),
    )


def keyed(where: str, pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    """Pairs of distinct keys as a table.  Raises MalformedError."""
    if len({key for key, _ in pairs}) < len(pairs):
        strict_json.malformed(where, "the same is said twice")
    return dict(pairs)


def source_of(source: Mapping[str, Any] | str | None, texts: Texts, program: Program) -> Source:
    """Reads the source of the last write. Raises MalformedError."""
    if source is None or isinstance(source, str):
        return None if source is None else Given()
    return at_of(source, texts, program)


def at_of(one: Mapping[str, Any], texts: Texts, program: Program) -> At:
    """An instance of a statement of a program.  Raises MalformedError."""
    number = one["statement"]
    if number >= len(program.statements):
        strict_json.malformed("", f"there is no statement {number}")
    if len(program.statements[number].iterators) != len(one["at"]):
        strict_json.malformed("", f"statement {number} has another number of iterators")
    return At(number, texts.numbers(one["at"]))


class _Reader:
    """Reads what is said of the statements of a record."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._texts: dict[tuple[str, ...], Texts] = {}

    def read_kept(self, one: Mapping[str, Any]) -> tuple[int, tuple[Kept, ...]]:
        texts = self._texts_of(self._record.old, one["old"])
        by = [
            Kept(texts.conditions([each["where"]])[0], at_of(each, texts, self._record.new))
            for each in one["by"]
        ]
        return one["old"], tuple(by)

    def read_overwritten(self, one: Mapping[str, Any]) -> tuple[int, tuple[At, ...]]:
        texts = self._texts_of(self._record.old, one["old"])
        return one["old"], tuple(at_of(each, texts, self._record.old) for each in one["by"])

    def read_found(self, one: Mapping[str, Any]) -> tuple[Reader, tuple[Found, ...]]:
        if "end" not in one:
            texts = self._read_texts(one)
            return (one["statement"], one["access"]), self._founds(one["by"], texts)
        variable = self._record.new.by_name.get(one["end"])
        if variable is None or not variable.is_param:
            strict_json.malformed("found", f"{one['end']} is no parameter")
        names = [e.name.name for e in element_names(len(variable.shape))]
        return one["end"], self._founds(one["by"], self._texts_named(names))

    def zero(self, one: Mapping[str, Any]) -> tuple[tuple[int, int], Zero]:
        texts = self._read_texts(one)
        zero = Zero(texts.conditions([one["where"]])[0], self._founds(one["by"], texts))
        return (one["statement"], one["access"]), zero

    def _founds(self, found: Sequence[Mapping[str, Any]], texts: Texts) -> tuple[Found, ...]:
        return tuple(
            Found(
                texts.conditions([one["where"]])[0],
                source_of(one["source"], texts, self._record.new),
            )
            for one in found
        )

    def _read_texts(self, one: Mapping[str, Any]) -> Texts:
        """Returns the texts of a read of the new procedure."""
        texts = self._texts_of(self._record.new, one["statement"])
        accesses = self._record.new.statements[one["statement"]].accesses
        if one["access"] >= len(accesses) - 1:
            strict_json.malformed("", f"statement {one['statement']} has no such read")
        return texts

    def _texts_of(self, program: Program, number: int) -> Texts:
        if number >= len(program.statements):
            strict_json.malformed("", f"there is no statement {number}")
        return self._texts_named([name.name for name in program.statements[number].iterators])

    def _texts_named(self, names: Sequence[str]) -> Texts:
        key = (*(p.name.name for p in self._record.new.params), *names)
        if key not in self._texts:
            self._texts[key] = Texts(key)
        return self._texts[key]
