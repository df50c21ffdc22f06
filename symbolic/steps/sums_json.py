"""Findings about results as JSON, and back: data of a closed grammar, not believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from exogpu.symbolic.certificate import strict_json
from exogpu.symbolic.encode.witness import element_names
from exogpu.symbolic.steps import step_witness
from exogpu.symbolic.steps.record import Program, Record
from exogpu.symbolic.steps.record_json import Texts, condition_text

SCHEMA: Final = 1


def sums_to_json(summed: step_witness.Summed) -> dict[str, strict_json.Json]:
    """Returns the findings as plain lists and dicts."""
    return {
        "schema": SCHEMA,
        "old": _sums_json(summed.old),
        "new": _sums_json(summed.new),
        "forth": _matched_json(summed.forth),
        "back": _matched_json(summed.back),
    }


def _sums_json(sums: step_witness.Sums) -> dict[str, strict_json.Json]:
    return {
        "wanted": [
            {**step_witness.reader_json(reader), "where": condition_text(where)}
            for reader, where in sums.wanted.items()
        ],
        "begins": [
            {**step_witness.reader_json(r), "by": step_witness.found_json(by)}
            for r, by in sums.begins.items()
        ],
        "terms": [
            {
                **step_witness.reader_json(reader),
                "of": [
                    {
                        "source": source,
                        "where": condition_text(one.where),
                        "by": step_witness.found_json(one.through),
                    }
                    for source, one in terms.items()
                ],
            }
            for reader, terms in sums.terms.items()
        ],
    }


def _matched_json(matched: Mapping[int, Sequence[step_witness.Kept]]) -> list[strict_json.Json]:
    return [
        {
            "term": number,
            "by": [
                {"where": condition_text(one.where), **step_witness.at_json(one.at)} for one in kept
            ],
        }
        for number, kept in matched.items()
    ]


# --- shapes -------------------------------------------------------------------------------------


def _is_source(value: object, where: str) -> None:
    (strict_json.NAME if isinstance(value, str) else step_witness.COUNT)(value, where)


_TERMS: Final = strict_json.a_list(
    strict_json.an_object(source=_is_source, where=strict_json.TEXT, by=step_witness.FOUND_SHAPE)
)


def _of_reads(part: str, shape: strict_json.Shape) -> strict_json.Shape:
    def check(value: object, where: str) -> None:
        named = isinstance(value, dict) and "end" in value
        given = (
            {"end": strict_json.NAME}
            if named
            else {
                "statement": strict_json.integer_between(0),
                "access": strict_json.integer_between(0),
            }
        )
        strict_json.fields(where, value, **given, **{part: shape})

    return strict_json.a_list(check)


_SUMS: Final = strict_json.an_object(
    wanted=strict_json.a_list(
        strict_json.an_object(
            statement=step_witness.COUNT, access=step_witness.COUNT, where=strict_json.TEXT
        )
    ),
    begins=_of_reads("by", step_witness.FOUND_SHAPE),
    terms=_of_reads("of", _TERMS),
)
_MATCHED: Final = strict_json.a_list(
    strict_json.an_object(
        term=step_witness.COUNT,
        by=strict_json.a_list(
            strict_json.an_object(
                where=strict_json.TEXT, statement=step_witness.COUNT, at=step_witness.TEXTS_SHAPE
            )
        ),
    )
)
_SHAPE: Final[dict[str, strict_json.Shape]] = {
    "schema": strict_json.one_of([SCHEMA]),
    "old": _SUMS,
    "new": _SUMS,
    "forth": _MATCHED,
    "back": _MATCHED,
}


# --- from JSON ----------------------------------------------------------------------------------


def summed_of(value: object, record: Record) -> step_witness.Summed:
    """Reads a JSON's findings about the results of a record. Raises MalformedError."""
    found = strict_json.fields("", value, **_SHAPE)
    return step_witness.Summed(
        _Sums(record.old).read_sums(found["old"]),
        _Sums(record.new).read_sums(found["new"]),
        _matching("forth", found["forth"], record.new, record.old),
        _matching("back", found["back"], record.old, record.new),
    )


def _matching(
    where: str, found: Sequence[Mapping[str, Any]], of: Program, other: Program
) -> dict[int, tuple[step_witness.Kept, ...]]:
    pairs = []
    for one in found:
        texts = Texts([*_params(of), *_iterators(of, one["term"])])
        by = [
            step_witness.Kept(
                texts.conditions([each["where"]])[0], step_witness.at_of(each, texts, other)
            )
            for each in one["by"]
        ]
        pairs.append((one["term"], tuple(by)))
    return step_witness.keyed(where, pairs)


def _params(program: Program) -> list[str]:
    return [p.name.name for p in program.params]


def _iterators(program: Program, number: int) -> list[str]:
    if number >= len(program.statements):
        strict_json.malformed("", f"there is no statement {number}")
    return [name.name for name in program.statements[number].iterators]


class _Sums:
    """Reads what is said of the reads of a procedure."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def read_sums(self, found: Mapping[str, Any]) -> step_witness.Sums:
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
            terms.append((reader, step_witness.keyed("terms", told)))
        return step_witness.Sums(
            step_witness.keyed("wanted", wanted),
            step_witness.keyed("begins", begins),
            step_witness.keyed("terms", terms),
        )

    def _reader(self, one: Mapping[str, Any]) -> tuple[step_witness.Reader, list[str]]:
        if "end" in one:
            return one["end"], [e.name.name for e in element_names(self._rank(one["end"]))]
        names = _iterators(self._program, one["statement"])
        if one["access"] >= len(self._program.statements[one["statement"]].reads):
            strict_json.malformed("", f"statement {one['statement']} has no such read")
        return (one["statement"], one["access"]), names

    def _rank(self, name: str) -> int:
        variable = self._program.by_name.get(name)
        if variable is None or not variable.is_param:
            strict_json.malformed("", f"{name} is no parameter")
        return len(variable.shape)

    def _terms(
        self, one: Mapping[str, Any], names: Sequence[str]
    ) -> tuple[step_witness.SumSource, step_witness.Terms]:
        source: step_witness.SumSource = one["source"]
        if isinstance(source, str):
            rank = self._rank(source)
        else:
            rank = len(_iterators(self._program, source))
        every = [*names, *(e.name.name for e in step_witness.term_names(rank))]
        where = Texts([*_params(self._program), *every]).conditions([one["where"]])[0]
        return source, step_witness.Terms(where, self._founds(one["by"], every))

    def _founds(
        self, found: Sequence[Mapping[str, Any]], names: Sequence[str]
    ) -> tuple[step_witness.Found, ...]:
        texts = Texts([*_params(self._program), *names])
        return tuple(
            step_witness.Found(
                texts.conditions([one["where"]])[0],
                step_witness.source_of(one["source"], texts, self._program),
            )
            for one in found
        )


# All kinds of what is found about a step, as JSON and back.

Found: TypeAlias = step_witness.Witness | step_witness.Summed | step_witness.Elements
"""About statements, about results, or about laws."""

_SCHEMA: Final = 1
_CLASSES: Final = strict_json.a_list(
    strict_json.a_list(strict_json.a_list(strict_json.integer_between(0)))
)


def any_witness_to_json(found: Found) -> dict[str, strict_json.Json]:
    """Returns the witness as plain lists and dicts."""
    match found:
        case step_witness.Summed():
            return sums_to_json(found)
        case step_witness.Elements():
            elements: list[strict_json.Json] = [[[*one] for one in classes] for classes in found.of]
            return {"schema": _SCHEMA, "elements": elements}
        case step_witness.Witness():
            return step_witness.to_json(found)


def witness_of(value: object, record: Record) -> Found:
    """Reads a witness from JSON, of the record's kind. Raises MalformedError."""
    match record.compared:
        case "results":
            return summed_of(value, record)
        case "statements":
            return step_witness.witness_of(value, record)
    found = strict_json.fields("", value, schema=strict_json.one_of([_SCHEMA]), elements=_CLASSES)[
        "elements"
    ]
    for law, classes in zip(record.laws, found, strict=False):
        if len(classes) != len(law.whole) + len(law.parts):
            strict_json.malformed("", "a law has another number of statements")
    if len(found) != len(record.laws):
        strict_json.malformed("", "there is another number of laws")
    return step_witness.Elements(tuple(tuple(map(tuple, classes)) for classes in found))
