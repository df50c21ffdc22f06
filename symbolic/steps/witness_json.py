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
                "by": [{"where": condition_text(one.where), **_at(one.at)} for one in kept],
            }
            for old, kept in witness.kept.items()
        ],
        "overwritten": [
            {"old": old, "by": [_at(one) for one in by]} for old, by in witness.overwritten.items()
        ],
        "found": [
            {**_reader(reader), "by": _found(found)} for reader, found in witness.found.items()
        ],
        "zeros": [
            {
                "statement": statement,
                "access": access,
                "where": condition_text(zero.where),
                "by": _found(zero.found),
            }
            for (statement, access), zero in witness.zeros.items()
        ],
    }


def _at(at: At) -> dict[str, Json]:
    return {"statement": at.statement, "at": [text(value) for value in at.values]}


def _reader(reader: Reader) -> dict[str, Json]:
    if isinstance(reader, str):
        return {"end": reader}
    return {"statement": reader[0], "access": reader[1]}


def _found(found: Sequence[Found]) -> list[Json]:
    return [{"where": condition_text(one.where), "source": _source(one.source)} for one in found]


def _source(source: Source) -> Json:
    match source:
        case At():
            return _at(source)
        case Given():
            return "given"
        case None:
            return None


# --- shapes -------------------------------------------------------------------------------------

_COUNT: Final = whole(0)
_TEXTS: Final = a_list(TEXT)
_AT: Final = an_object(statement=_COUNT, at=_TEXTS)


def _is_source(value: object, where: str) -> None:
    (_AT if isinstance(value, dict) else maybe(one_of(["given"])))(value, where)


_FOUND: Final = a_list(an_object(where=TEXT, source=_is_source))


def _is_read(value: object, where: str) -> None:
    if isinstance(value, dict) and "end" in value:
        fields(where, value, end=NAME, by=_FOUND)
    else:
        fields(where, value, statement=_COUNT, access=_COUNT, by=_FOUND)


_SHAPE: Final[dict[str, Shape]] = {
    "schema": one_of([SCHEMA]),
    "kept": a_list(
        an_object(old=_COUNT, by=a_list(an_object(where=TEXT, statement=_COUNT, at=_TEXTS)))
    ),
    "overwritten": a_list(an_object(old=_COUNT, by=a_list(_AT))),
    "found": a_list(_is_read),
    "zeros": a_list(an_object(statement=_COUNT, access=_COUNT, where=TEXT, by=_FOUND)),
}


# --- from JSON ----------------------------------------------------------------------------------


def witness_of(value: object, record: Record) -> Witness:
    """The witness of a JSON, about a record.  Raises MalformedError."""
    found = fields("", value, **_SHAPE)
    read = _Reader(record)
    return Witness(
        _keyed("kept", [read.kept(one) for one in found["kept"]]),
        _keyed("overwritten", [read.overwritten(one) for one in found["overwritten"]]),
        _keyed("found", [read.found(one) for one in found["found"]]),
        _keyed("zeros", [read.zero(one) for one in found["zeros"]]),
    )


def _keyed(where: str, pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        malformed(where, "the same is said twice")
    return dict(pairs)


class _Reader:
    """Reads what is said of the statements of a record."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._texts: dict[tuple[str, ...], Texts] = {}

    def kept(self, one: Mapping[str, Any]) -> tuple[int, tuple[Kept, ...]]:
        texts = self._of(self._record.old, one["old"])
        by = [
            Kept(texts.conditions([each["where"]])[0], self._at(each, texts, self._record.new))
            for each in one["by"]
        ]
        return one["old"], tuple(by)

    def overwritten(self, one: Mapping[str, Any]) -> tuple[int, tuple[At, ...]]:
        texts = self._of(self._record.old, one["old"])
        return one["old"], tuple(self._at(each, texts, self._record.old) for each in one["by"])

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
            Found(texts.conditions([one["where"]])[0], self._source(one["source"], texts))
            for one in found
        )

    def _source(self, source: Mapping[str, Any] | str | None, texts: Texts) -> Source:
        if source is None or isinstance(source, str):
            return None if source is None else Given()
        return self._at(source, texts, self._record.new)

    def _at(self, one: Mapping[str, Any], texts: Texts, program: Program) -> At:
        number = one["statement"]
        if number >= len(program.statements):
            malformed("", f"there is no statement {number}")
        if len(program.statements[number].iterators) != len(one["at"]):
            malformed("", f"statement {number} has another number of iterators")
        return At(number, texts.numbers(one["at"]))

    def _read(self, one: Mapping[str, Any]) -> Texts:
        """Of a read of the new procedure."""
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
