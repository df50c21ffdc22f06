"""Witnesses of steps as JSON, and back: what is read is data of a closed grammar, and nothing of it
is believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from exogpu.symbolic.certificate.sealing import Json
from exogpu.symbolic.certificate.strict_json import (
    NAME,
    TEXT,
    Shape,
    a_list,
    an_object,
    fields,
    malformed,
    maybe,
    one_of,
    whole,
)
from exogpu.symbolic.encode.witness import element_names
from exogpu.symbolic.steps.record import Program, Record
from exogpu.symbolic.steps.record_json import Texts, condition_text, text
from exogpu.symbolic.steps.witness import (
    At,
    Found,
    Given,
    Kept,
    Reader,
    Source,
    Witness,
    Zero,
)

SCHEMA: Final = 1


# --- to JSON ------------------------------------------------------------------------------------


def to_json(witness: Witness) -> dict[str, Json]:
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


def at_json(at: At) -> dict[str, Json]:
    """An instance of a statement."""
    return {"statement": at.statement, "at": [text(value) for value in at.values]}


def reader_json(reader: Reader) -> dict[str, Json]:
    """A read, or a parameter at the end."""
    if isinstance(reader, str):
        return {"end": reader}
    return {"statement": reader[0], "access": reader[1]}


def found_json(found: Sequence[Found]) -> list[Json]:
    """Returns the last writes as JSON, by cases."""
    return [{"where": condition_text(one.where), "source": _source(one.source)} for one in found]


def _source(source: Source) -> Json:
    match source:
        case At():
            return at_json(source)
        case Given():
            return "given"
        case None:
            return None


# --- shapes -------------------------------------------------------------------------------------

COUNT: Final = whole(0)
TEXTS_SHAPE: Final = a_list(TEXT)
_AT: Final = an_object(statement=COUNT, at=TEXTS_SHAPE)


def _is_source(value: object, where: str) -> None:
    (_AT if isinstance(value, dict) else maybe(one_of(["given"])))(value, where)


FOUND_SHAPE: Final = a_list(an_object(where=TEXT, source=_is_source))


def _is_read(value: object, where: str) -> None:
    if isinstance(value, dict) and "end" in value:
        fields(where, value, end=NAME, by=FOUND_SHAPE)
    else:
        fields(where, value, statement=COUNT, access=COUNT, by=FOUND_SHAPE)


_SHAPE: Final[dict[str, Shape]] = {
    "schema": one_of([SCHEMA]),
    "kept": a_list(
        an_object(old=COUNT, by=a_list(an_object(where=TEXT, statement=COUNT, at=TEXTS_SHAPE)))
    ),
    "overwritten": a_list(an_object(old=COUNT, by=a_list(_AT))),
    "found": a_list(_is_read),
    "zeros": a_list(an_object(statement=COUNT, access=COUNT, where=TEXT, by=FOUND_SHAPE)),
}


# --- from JSON ----------------------------------------------------------------------------------


def witness_of(value: object, record: Record) -> Witness:
    """The witness of a JSON, about a record.  Raises MalformedError."""
    found = fields("", value, **_SHAPE)
    read = _Reader(record)
    return Witness(
        keyed("kept", [read.kept(one) for one in found["kept"]]),
        keyed("overwritten", [read.overwritten(one) for one in found["overwritten"]]),
        keyed("found", [read.found(one) for one in found["found"]]),
        keyed("zeros", [read.zero(one) for one in found["zeros"]]),
    )


def keyed(where: str, pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    """Pairs of distinct keys as a table.  Raises MalformedError."""
    if len({key for key, _ in pairs}) < len(pairs):
        malformed(where, "the same is said twice")
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
        malformed("", f"there is no statement {number}")
    if len(program.statements[number].iterators) != len(one["at"]):
        malformed("", f"statement {number} has another number of iterators")
    return At(number, texts.numbers(one["at"]))


class _Reader:
    """Reads what is said of the statements of a record."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._texts: dict[tuple[str, ...], Texts] = {}

    def kept(self, one: Mapping[str, Any]) -> tuple[int, tuple[Kept, ...]]:
        texts = self._of(self._record.old, one["old"])
        by = [
            Kept(texts.conditions([each["where"]])[0], at_of(each, texts, self._record.new))
            for each in one["by"]
        ]
        return one["old"], tuple(by)

    def overwritten(self, one: Mapping[str, Any]) -> tuple[int, tuple[At, ...]]:
        texts = self._of(self._record.old, one["old"])
        return one["old"], tuple(at_of(each, texts, self._record.old) for each in one["by"])

    def found(self, one: Mapping[str, Any]) -> tuple[Reader, tuple[Found, ...]]:
        if "end" not in one:
            texts = self._read(one)
            return (one["statement"], one["access"]), self._founds(one["by"], texts)
        variable = self._record.new.by_name.get(one["end"])
        if variable is None or not variable.is_param:
            malformed("found", f"{one['end']} is no parameter")
        names = [e.name.name for e in element_names(len(variable.shape))]
        return one["end"], self._founds(one["by"], self._named(names))

    def zero(self, one: Mapping[str, Any]) -> tuple[tuple[int, int], Zero]:
        texts = self._read(one)
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

    def _read(self, one: Mapping[str, Any]) -> Texts:
        """Returns the texts of a read of the new procedure."""
        texts = self._of(self._record.new, one["statement"])
        accesses = self._record.new.statements[one["statement"]].accesses
        if one["access"] >= len(accesses) - 1:
            malformed("", f"statement {one['statement']} has no such read")
        return texts

    def _of(self, program: Program, number: int) -> Texts:
        if number >= len(program.statements):
            malformed("", f"there is no statement {number}")
        return self._named([name.name for name in program.statements[number].iterators])

    def _named(self, names: Sequence[str]) -> Texts:
        key = (*(p.name.name for p in self._record.new.params), *names)
        if key not in self._texts:
            self._texts[key] = Texts(key)
        return self._texts[key]
