"""Findings about results as JSON, and back: data of a closed grammar, not believed."""

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
    one_of,
    whole,
)
from exogpu.symbolic.encode.witness import element_names
from exogpu.symbolic.steps.record import Program, Record
from exogpu.symbolic.steps.record_json import Texts, condition_text
from exogpu.symbolic.steps.summed import Source, Summed, Sums, Terms, term_names
from exogpu.symbolic.steps.witness import Found, Kept, Reader
from exogpu.symbolic.steps.witness_json import (
    COUNT,
    FOUND_SHAPE,
    TEXTS_SHAPE,
    at_json,
    at_of,
    found_json,
    keyed,
    reader_json,
    source_of,
)

SCHEMA: Final = 1


def to_json(summed: Summed) -> dict[str, Json]:
    """Returns the findings as plain lists and dicts."""
    return {
        "schema": SCHEMA,
        "old": _sums_json(summed.old),
        "new": _sums_json(summed.new),
        "forth": _matched_json(summed.forth),
        "back": _matched_json(summed.back),
    }


def _sums_json(sums: Sums) -> dict[str, Json]:
    return {
        "wanted": [
            {**reader_json(reader), "where": condition_text(where)}
            for reader, where in sums.wanted.items()
        ],
        "begins": [{**reader_json(r), "by": found_json(by)} for r, by in sums.begins.items()],
        "terms": [
            {
                **reader_json(reader),
                "of": [
                    {
                        "source": source,
                        "where": condition_text(one.where),
                        "by": found_json(one.through),
                    }
                    for source, one in terms.items()
                ],
            }
            for reader, terms in sums.terms.items()
        ],
    }


def _matched_json(matched: Mapping[int, Sequence[Kept]]) -> list[Json]:
    return [
        {
            "term": number,
            "by": [{"where": condition_text(one.where), **at_json(one.at)} for one in kept],
        }
        for number, kept in matched.items()
    ]


# --- shapes -------------------------------------------------------------------------------------


def _is_source(value: object, where: str) -> None:
    (NAME if isinstance(value, str) else COUNT)(value, where)


_TERMS: Final = a_list(an_object(source=_is_source, where=TEXT, by=FOUND_SHAPE))


def _of_reads(part: str, shape: Shape) -> Shape:
    def check(value: object, where: str) -> None:
        named = isinstance(value, dict) and "end" in value
        given = {"end": NAME} if named else {"statement": whole(0), "access": whole(0)}
        fields(where, value, **given, **{part: shape})

    return a_list(check)


_SUMS: Final = an_object(
    wanted=a_list(an_object(statement=COUNT, access=COUNT, where=TEXT)),
    begins=_of_reads("by", FOUND_SHAPE),
    terms=_of_reads("of", _TERMS),
)
_MATCHED: Final = a_list(
    an_object(term=COUNT, by=a_list(an_object(where=TEXT, statement=COUNT, at=TEXTS_SHAPE)))
)
_SHAPE: Final[dict[str, Shape]] = {
    "schema": one_of([SCHEMA]),
    "old": _SUMS,
    "new": _SUMS,
    "forth": _MATCHED,
    "back": _MATCHED,
}


# --- from JSON ----------------------------------------------------------------------------------


def summed_of(value: object, record: Record) -> Summed:
    """Reads a JSON's findings about the results of a record. Raises MalformedError."""
    found = fields("", value, **_SHAPE)
    return Summed(
        _Sums(record.old).of(found["old"]),
        _Sums(record.new).of(found["new"]),
        _matched("forth", found["forth"], record.new, record.old),
        _matched("back", found["back"], record.old, record.new),
    )


def _matched(
    where: str, found: Sequence[Mapping[str, Any]], of: Program, other: Program
) -> dict[int, tuple[Kept, ...]]:
    pairs = []
    for one in found:
        texts = Texts([*_params(of), *_iterators(of, one["term"])])
        by = [
            Kept(texts.conditions([each["where"]])[0], at_of(each, texts, other))
            for each in one["by"]
        ]
        pairs.append((one["term"], tuple(by)))
    return keyed(where, pairs)


def _params(program: Program) -> list[str]:
    return [p.name.name for p in program.params]


def _iterators(program: Program, number: int) -> list[str]:
    if number >= len(program.statements):
        malformed("", f"there is no statement {number}")
    return [name.name for name in program.statements[number].iterators]


class _Sums:
    """Reads what is said of the reads of a procedure."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def of(self, found: Mapping[str, Any]) -> Sums:
        wanted, begins, terms = [], [], []
        for one in found["wanted"]:
            reader, names = self._reader(one)
            texts = Texts([*_params(self._program), *names])
            wanted.append((reader, texts.conditions([one["where"]])[0]))
        for one in found["begins"]:
            reader, names = self._reader(one)
            begins.append((reader, self._founds(one["by"], names)))
        for one in found["terms"]:
            reader, names = self._reader(one)
            told = [self._terms(each, names) for each in one["of"]]
            terms.append((reader, keyed("terms", told)))
        return Sums(keyed("wanted", wanted), keyed("begins", begins), keyed("terms", terms))

    def _reader(self, one: Mapping[str, Any]) -> tuple[Reader, list[str]]:
        if "end" in one:
            return one["end"], [e.name.name for e in element_names(self._rank(one["end"]))]
        names = _iterators(self._program, one["statement"])
        if one["access"] >= len(self._program.statements[one["statement"]].reads):
            malformed("", f"statement {one['statement']} has no such read")
        return (one["statement"], one["access"]), names

    def _rank(self, name: str) -> int:
        variable = self._program.by_name.get(name)
        if variable is None or not variable.is_param:
            malformed("", f"{name} is no parameter")
        return len(variable.shape)

    def _terms(self, one: Mapping[str, Any], names: Sequence[str]) -> tuple[Source, Terms]:
        source: Source = one["source"]
        if isinstance(source, str):
            rank = self._rank(source)
        else:
            rank = len(_iterators(self._program, source))
        every = [*names, *(e.name.name for e in term_names(rank))]
        where = Texts([*_params(self._program), *every]).conditions([one["where"]])[0]
        return source, Terms(where, self._founds(one["by"], every))

    def _founds(
        self, found: Sequence[Mapping[str, Any]], names: Sequence[str]
    ) -> tuple[Found, ...]:
        texts = Texts([*_params(self._program), *names])
        return tuple(
            Found(
                texts.conditions([one["where"]])[0],
                source_of(one["source"], texts, self._program),
            )
            for one in found
        )
