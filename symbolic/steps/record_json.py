"""Records as JSON, and back: what is read is data of a closed grammar, and nothing of it is
believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, get_args

from exogpu.ir.nodes import BExpr, CExpr, CVar, Int
from exogpu.ir.render import isl_cond, isl_expr
from exogpu.ir.scalar_functions import ARITY
from exogpu.ir.types import DataType
from exogpu.symbolic.certificate import program_reader, strict_json
from exogpu.symbolic.certificate.program_reader import formula
from exogpu.symbolic.certificate.witness_json import OWN
from exogpu.symbolic.encode.witness import witness_integer
from exogpu.symbolic.steps import record as steps_record

SCHEMA: Final = 2

_TYPES: Final = {dtype.value: dtype for dtype in DataType}


# --- to JSON ------------------------------------------------------------------------------------


def to_json(record: steps_record.Record) -> dict[str, strict_json.Json]:
    """The record as plain lists and dicts."""
    return {
        "schema": SCHEMA,
        "old": program_json(record.old),
        "new": program_json(record.new),
        "compared": record.compared,
        "images": [_image_json(one) for one in record.images],
        "again": [_image_json(one) for one in record.again],
        "laws": [{"whole": [*one.whole], "parts": [*one.parts]} for one in record.laws],
        "copies": [{"new": one.new, "of": _cell(one.cell)} for one in record.copies],
    }


def _image_json(image: steps_record.Image) -> dict[str, strict_json.Json]:
    return {
        "new": image.new,
        "old": image.old,
        "at": _texts(image.at),
        "reads": [*image.reads],
        "only": _conditions(image.only),
    }


def program_json(program: steps_record.Program) -> dict[str, strict_json.Json]:
    """A procedure as plain lists and dicts."""
    return {
        "parameters": [{"name": p.name.name, "kind": p.kind} for p in program.params],
        "preconditions": _conditions(program.preconditions),
        "variables": [
            {
                "name": v.name,
                "type": v.dtype.value,
                "shape": _texts(v.shape),
                "loops": [name.name for name in v.loops],
                "parameter": v.is_param,
            }
            for v in program.variables
        ],
        "statements": [
            {
                "line": s.line,
                "text": s.text,
                "kind": s.kind,
                "iterators": [name.name for name in s.iterators],
                "holds": _conditions(s.holds),
                "time": [t.value if isinstance(t, Int) else text(t) for t in s.time],
                "target": _cell(s.target),
                "reads": [_cell(cell) for cell in s.reads],
                "computes": _value(s.value),
            }
            for s in program.statements
        ],
    }


def text(value: CExpr) -> str:
    """An expression as text."""
    return isl_expr(value, OWN)


def condition_text(value: BExpr) -> str:
    """A condition as text."""
    return isl_cond(value, OWN)


def _texts(values: Iterable[CExpr]) -> list[strict_json.Json]:
    return [text(value) for value in values]


def _conditions(values: Iterable[BExpr]) -> list[strict_json.Json]:
    return [condition_text(value) for value in values]


def _cell(cell: steps_record.Cell) -> dict[str, strict_json.Json]:
    return {
        "variable": cell.variable,
        "index": _texts(cell.index),
        "within": _conditions(cell.within),
    }


def _value(value: steps_record.Value) -> strict_json.Json:
    match value:
        case steps_record.Number():
            return {"number": value.text, "type": value.dtype and value.dtype.value}
        case steps_record.Nth():
            return {"read": value.read}
        case steps_record.Formula():
            return {"function": value.function, "terms": [_value(term) for term in value.terms]}


# --- shapes -------------------------------------------------------------------------------------

_COUNT: Final = strict_json.integer_between(0)
_NAMES: Final = strict_json.a_list(strict_json.NAME)
_TEXTS: Final = strict_json.a_list(strict_json.TEXT)
_CELL: Final = strict_json.an_object(variable=strict_json.NAME, index=_TEXTS, within=_TEXTS)
_NUMBER: Final = strict_json.matching(
    r"-?(\d+|\d+\.\d*(e[+-]?\d+)?|\d+e[+-]?\d+|inf)|nan", "number"
)
_ARITY: Final[Mapping[str, int]] = {**dict.fromkeys("+-*/", 2), "negate": 1, **ARITY}


def _is_value(value: object, where: str) -> None:
    if isinstance(value, dict) and "read" in value:
        strict_json.fields(where, value, read=_COUNT)
    elif isinstance(value, dict) and "number" in value:
        strict_json.fields(
            where, value, number=_NUMBER, type=strict_json.maybe(strict_json.one_of(list(_TYPES)))
        )
    else:
        found = strict_json.fields(
            where,
            value,
            function=strict_json.one_of(list(_ARITY)),
            terms=strict_json.a_list(_is_value),
        )
        if len(found["terms"]) != _ARITY[found["function"]]:
            strict_json.malformed(where, f"{found['function']} takes another number of terms")


def _is_time(value: object, where: str) -> None:
    (strict_json.integer_between(0) if isinstance(value, int) else strict_json.NAME)(value, where)


_PROGRAM: Final = strict_json.an_object(
    parameters=strict_json.a_list(
        strict_json.an_object(name=strict_json.NAME, kind=strict_json.one_of(["size", "index"]))
    ),
    preconditions=_TEXTS,
    variables=strict_json.a_list(
        strict_json.an_object(
            name=strict_json.NAME,
            type=strict_json.one_of(list(_TYPES)),
            shape=_TEXTS,
            loops=_NAMES,
            parameter=strict_json.TRUTH,
        )
    ),
    statements=strict_json.a_list(
        strict_json.an_object(
            line=_COUNT,
            text=strict_json.TEXT,
            kind=strict_json.one_of(["=", "+="]),
            iterators=_NAMES,
            holds=_TEXTS,
            time=strict_json.a_list(_is_time),
            target=_CELL,
            reads=strict_json.a_list(_CELL),
            computes=_is_value,
        )
    ),
)

_IMAGE: Final = strict_json.an_object(
    new=_COUNT, old=_COUNT, at=_TEXTS, reads=strict_json.a_list(_COUNT), only=_TEXTS
)
_SHAPE: Final[dict[str, strict_json.Shape]] = {
    "schema": strict_json.one_of([SCHEMA]),
    "old": _PROGRAM,
    "new": _PROGRAM,
    "compared": strict_json.one_of([*get_args(steps_record.Compared)]),
    "images": strict_json.a_list(_IMAGE),
    "again": strict_json.a_list(_IMAGE),
    "laws": strict_json.a_list(
        strict_json.an_object(whole=strict_json.a_list(_COUNT), parts=strict_json.a_list(_COUNT))
    ),
    "copies": strict_json.a_list(strict_json.an_object(new=_COUNT, of=_CELL)),
}


# --- from JSON ----------------------------------------------------------------------------------


class Texts:
    """Reads expressions of some names, each text once."""

    def __init__(self, names: Iterable[str]) -> None:
        known = {name: witness_integer(name) for name in names}
        self._number: Callable[[str], CExpr] = cache(
            lambda one: program_reader.number(one, known.get)
        )
        self._formula: Callable[[str], BExpr] = cache(lambda one: formula(one, known.get))

    def numbers(self, texts: Sequence[str]) -> tuple[CExpr, ...]:
        """Expressions."""
        return tuple(map(self._number, texts))

    def conditions(self, texts: Sequence[str]) -> tuple[BExpr, ...]:
        """Conditions."""
        return tuple(map(self._formula, texts))

    def cell(self, one: Mapping[str, Any]) -> steps_record.Cell:
        """An element."""
        return steps_record.Cell(
            one["variable"], self.numbers(one["index"]), self.conditions(one["within"])
        )


def record_of(value: object) -> steps_record.Record:
    """The record of a JSON.  Raises MalformedError."""
    found = strict_json.fields("", value, **_SHAPE)
    old, new = _program("old", found["old"]), _program("new", found["new"])
    sizes = _sizes(new)
    images, again = (
        tuple(_image(f"{part}[{at}]", one, old, new) for at, one in enumerate(found[part]))
        for part in ("images", "again")
    )
    copies = []
    for at, one in enumerate(found["copies"]):
        _among(f"copies[{at}]", one["new"], new)
        texts = Texts((*sizes, *_iterators(new.statements[one["new"]])))
        copy = steps_record.Copy(one["new"], texts.cell(one["of"]))
        _check_indices(f"copies[{at}]", old, copy.cell)
        copies.append(copy)
    compared = found["compared"]
    laws = tuple(steps_record.Law((*one["whole"],), (*one["parts"],)) for one in found["laws"])
    if compared != "statements" and (images or again or copies):
        strict_json.malformed("", "something is said of statements that are compared otherwise")
    if laws and compared in ("statements", "results"):
        strict_json.malformed("", "there are laws, and statements are compared otherwise")
    whole, parts = (old, new) if compared == "whole to parts" else (new, old)
    for at, law in enumerate(laws):
        for program, numbers in ((whole, law.whole), (parts, law.parts)):
            for one in numbers:
                _among(f"laws[{at}]", one, program)
    return steps_record.Record(old, new, images, tuple(copies), again, compared, laws)


def _image(
    where: str, one: Mapping[str, Any], old: steps_record.Program, new: steps_record.Program
) -> steps_record.Image:
    _among(where, one["new"], new)
    _among(where, one["old"], old)
    texts = Texts((*_sizes(new), *_iterators(new.statements[one["new"]])))
    at, only = texts.numbers(one["at"]), texts.conditions(one["only"])
    return steps_record.Image(one["new"], one["old"], at, (*one["reads"],), only)


def _among(where: str, number: int, program: steps_record.Program) -> None:
    if number >= len(program.statements):
        strict_json.malformed(where, f"there is no statement {number}")


def _sizes(program: steps_record.Program) -> list[str]:
    return [p.name.name for p in program.params]


def _iterators(statement: steps_record.Statement) -> list[str]:
    return [name.name for name in statement.iterators]


def _program(where: str, found: Mapping[str, Any]) -> steps_record.Program:
    params = tuple(
        steps_record.Parameter(witness_integer(p["name"]).name, p["kind"])
        for p in found["parameters"]
    )
    sizes = [p["name"] for p in found["parameters"]]
    variables = tuple(
        steps_record.Variable(
            v["name"],
            _TYPES[v["type"]],
            Texts((*sizes, *v["loops"])).numbers(v["shape"]),
            tuple(witness_integer(name).name for name in v["loops"]),
            v["parameter"],
        )
        for v in found["variables"]
    )
    statements = tuple(_statement(sizes, one) for one in found["statements"])
    preconditions = Texts(sizes).conditions(found["preconditions"])
    program = steps_record.Program(params, preconditions, variables, statements)
    _check_unique(where, [*sizes, *(v.name for v in variables)])
    for variable in variables:
        if variable.is_param and variable.loops:
            strict_json.malformed(where, f"{variable.name} is a parameter in a loop")
    for at, statement in enumerate(statements):
        place = f"{where}.statements[{at}]"
        _check_unique(place, [*sizes, *_iterators(statement)])
        for access in statement.accesses:
            _check_indices(place, program, access.cell)
            loops = program.by_name[access.cell.variable].loops
            if access.cell.index[: len(loops)] != tuple(map(CVar, loops)):
                strict_json.malformed(place, f"{access.cell.variable} is of other loops")
            if not set(loops) <= set(statement.iterators):
                strict_json.malformed(place, f"{access.cell.variable} is not declared here")
    return program


def _check_unique(where: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        strict_json.malformed(where, "two things have one name")


def _check_indices(where: str, program: steps_record.Program, cell: steps_record.Cell) -> None:
    """It is a variable's, and has as many indices."""
    variable = program.by_name.get(cell.variable)
    if variable is None:
        strict_json.malformed(where, f"{cell.variable} is no variable")
    if len(cell.index) != len(variable.loops) + len(variable.shape):
        strict_json.malformed(where, f"{cell.variable} has another number of dimensions")


def _statement(sizes: Sequence[str], one: Mapping[str, Any]) -> steps_record.Statement:
    texts = Texts((*sizes, *one["iterators"]))
    return steps_record.Statement(
        one["kind"],
        tuple(witness_integer(name).name for name in one["iterators"]),
        texts.conditions(one["holds"]),
        tuple(Int(t) if isinstance(t, int) else witness_integer(t) for t in one["time"]),
        tuple(map(texts.cell, one["reads"])),
        texts.cell(one["target"]),
        _value_of(one["computes"]),
        one["line"],
        one["text"],
    )


def _value_of(value: Mapping[str, Any]) -> steps_record.Value:
    if "read" in value:
        return steps_record.Nth(value["read"])
    if "number" in value:
        return steps_record.Number(
            value["number"], None if value["type"] is None else _TYPES[value["type"]]
        )
    return steps_record.Formula(value["function"], tuple(map(_value_of, value["terms"])))
