"""Records as JSON, and back: what is read is data of a closed grammar, and nothing of it is
believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, get_args

from exogpu.ir.isltext import bexpr, cexpr
from exogpu.ir.nodes import BExpr, CExpr, CVar, Int
from exogpu.ir.scalars import ARITY
from exogpu.ir.types import DataType
from exogpu.symbolic.certificate.expressions import formula, number
from exogpu.symbolic.certificate.sealing import Json
from exogpu.symbolic.certificate.strict_json import (
    NAME,
    TEXT,
    TRUTH,
    Shape,
    a_list,
    an_object,
    fields,
    malformed,
    matching,
    maybe,
    one_of,
    whole,
)
from exogpu.symbolic.certificate.witness_json import OWN
from exogpu.symbolic.encode.witness import named
from exogpu.symbolic.steps.record import (
    Cell,
    Compared,
    Copy,
    Formula,
    Image,
    Law,
    Nth,
    Number,
    Parameter,
    Program,
    Record,
    Statement,
    Value,
    Variable,
)

SCHEMA: Final = 2

_TYPES: Final = {dtype.value: dtype for dtype in DataType}


# --- to JSON ------------------------------------------------------------------------------------


def to_json(record: Record) -> dict[str, Json]:
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


def _image_json(image: Image) -> dict[str, Json]:
    return {
        "new": image.new,
        "old": image.old,
        "at": _texts(image.at),
        "reads": [*image.reads],
        "only": _conditions(image.only),
    }


def program_json(program: Program) -> dict[str, Json]:
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
    return cexpr(value, OWN)


def condition_text(value: BExpr) -> str:
    """A condition as text."""
    return bexpr(value, OWN)


def _texts(values: Iterable[CExpr]) -> list[Json]:
    return [text(value) for value in values]


def _conditions(values: Iterable[BExpr]) -> list[Json]:
    return [condition_text(value) for value in values]


def _cell(cell: Cell) -> dict[str, Json]:
    return {
        "variable": cell.variable,
        "index": _texts(cell.index),
        "within": _conditions(cell.within),
    }


def _value(value: Value) -> Json:
    match value:
        case Number():
            return {"number": value.text, "type": value.dtype and value.dtype.value}
        case Nth():
            return {"read": value.read}
        case Formula():
            return {"function": value.function, "terms": [_value(term) for term in value.terms]}


# --- shapes -------------------------------------------------------------------------------------

_COUNT: Final = whole(0)
_NAMES: Final = a_list(NAME)
_TEXTS: Final = a_list(TEXT)
_CELL: Final = an_object(variable=NAME, index=_TEXTS, within=_TEXTS)
_NUMBER: Final = matching(r"-?(\d+|\d+\.\d*(e[+-]?\d+)?|\d+e[+-]?\d+|inf)|nan", "number")
_ARITY: Final[Mapping[str, int]] = {**dict.fromkeys("+-*/", 2), "negate": 1, **ARITY}


def _is_value(value: object, where: str) -> None:
    if isinstance(value, dict) and "read" in value:
        fields(where, value, read=_COUNT)
    elif isinstance(value, dict) and "number" in value:
        fields(where, value, number=_NUMBER, type=maybe(one_of(list(_TYPES))))
    else:
        found = fields(where, value, function=one_of(list(_ARITY)), terms=a_list(_is_value))
        if len(found["terms"]) != _ARITY[found["function"]]:
            malformed(where, f"{found['function']} takes another number of terms")


def _is_time(value: object, where: str) -> None:
    (whole(0) if isinstance(value, int) else NAME)(value, where)


_PROGRAM: Final = an_object(
    parameters=a_list(an_object(name=NAME, kind=one_of(["size", "index"]))),
    preconditions=_TEXTS,
    variables=a_list(
        an_object(name=NAME, type=one_of(list(_TYPES)), shape=_TEXTS, loops=_NAMES, parameter=TRUTH)
    ),
    statements=a_list(
        an_object(
            line=_COUNT,
            text=TEXT,
            kind=one_of(["=", "+="]),
            iterators=_NAMES,
            holds=_TEXTS,
            time=a_list(_is_time),
            target=_CELL,
            reads=a_list(_CELL),
            computes=_is_value,
        )
    ),
)

_IMAGE: Final = an_object(new=_COUNT, old=_COUNT, at=_TEXTS, reads=a_list(_COUNT), only=_TEXTS)
_SHAPE: Final[dict[str, Shape]] = {
    "schema": one_of([SCHEMA]),
    "old": _PROGRAM,
    "new": _PROGRAM,
    "compared": one_of([*get_args(Compared)]),
    "images": a_list(_IMAGE),
    "again": a_list(_IMAGE),
    "laws": a_list(an_object(whole=a_list(_COUNT), parts=a_list(_COUNT))),
    "copies": a_list(an_object(new=_COUNT, of=_CELL)),
}


# --- from JSON ----------------------------------------------------------------------------------


class Texts:
    """Reads expressions of some names, each text once."""

    def __init__(self, names: Iterable[str]) -> None:
        known = {name: named(name) for name in names}
        self._number: Callable[[str], CExpr] = cache(lambda one: number(one, known.get))
        self._formula: Callable[[str], BExpr] = cache(lambda one: formula(one, known.get))

    def numbers(self, texts: Sequence[str]) -> tuple[CExpr, ...]:
        """Expressions."""
        return tuple(map(self._number, texts))

    def conditions(self, texts: Sequence[str]) -> tuple[BExpr, ...]:
        """Conditions."""
        return tuple(map(self._formula, texts))

    def cell(self, one: Mapping[str, Any]) -> Cell:
        """An element."""
        return Cell(one["variable"], self.numbers(one["index"]), self.conditions(one["within"]))


def record_of(value: object) -> Record:
    """The record of a JSON.  Raises MalformedError."""
    found = fields("", value, **_SHAPE)
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
        copy = Copy(one["new"], texts.cell(one["of"]))
        _fits(f"copies[{at}]", old, copy.cell)
        copies.append(copy)
    compared = found["compared"]
    laws = tuple(Law((*one["whole"],), (*one["parts"],)) for one in found["laws"])
    if compared != "statements" and (images or again or copies):
        malformed("", "something is said of statements that are compared otherwise")
    if laws and compared in ("statements", "results"):
        malformed("", "there are laws, and statements are compared otherwise")
    whole, parts = (old, new) if compared == "whole to parts" else (new, old)
    for at, law in enumerate(laws):
        for program, numbers in ((whole, law.whole), (parts, law.parts)):
            for one in numbers:
                _among(f"laws[{at}]", one, program)
    return Record(old, new, images, tuple(copies), again, compared, laws)


def _image(where: str, one: Mapping[str, Any], old: Program, new: Program) -> Image:
    _among(where, one["new"], new)
    _among(where, one["old"], old)
    texts = Texts((*_sizes(new), *_iterators(new.statements[one["new"]])))
    at, only = texts.numbers(one["at"]), texts.conditions(one["only"])
    return Image(one["new"], one["old"], at, (*one["reads"],), only)


def _among(where: str, number: int, program: Program) -> None:
    if number >= len(program.statements):
        malformed(where, f"there is no statement {number}")


def _sizes(program: Program) -> list[str]:
    return [p.name.name for p in program.params]


def _iterators(statement: Statement) -> list[str]:
    return [name.name for name in statement.iterators]


def _program(where: str, found: Mapping[str, Any]) -> Program:
    params = tuple(Parameter(named(p["name"]).name, p["kind"]) for p in found["parameters"])
    sizes = [p["name"] for p in found["parameters"]]
    variables = tuple(
        Variable(
            v["name"],
            _TYPES[v["type"]],
            Texts((*sizes, *v["loops"])).numbers(v["shape"]),
            tuple(named(name).name for name in v["loops"]),
            v["parameter"],
        )
        for v in found["variables"]
    )
    statements = tuple(_statement(sizes, one) for one in found["statements"])
    preconditions = Texts(sizes).conditions(found["preconditions"])
    program = Program(params, preconditions, variables, statements)
    _distinct(where, [*sizes, *(v.name for v in variables)])
    for variable in variables:
        if variable.is_param and variable.loops:
            malformed(where, f"{variable.name} is a parameter in a loop")
    for at, statement in enumerate(statements):
        place = f"{where}.statements[{at}]"
        _distinct(place, [*sizes, *_iterators(statement)])
        for access in statement.accesses:
            _fits(place, program, access.cell)
            loops = program.by_name[access.cell.variable].loops
            if access.cell.index[: len(loops)] != tuple(map(CVar, loops)):
                malformed(place, f"{access.cell.variable} is of other loops")
            if not set(loops) <= set(statement.iterators):
                malformed(place, f"{access.cell.variable} is not declared here")
    return program


def _distinct(where: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        malformed(where, "two things have one name")


def _fits(where: str, program: Program, cell: Cell) -> None:
    """It is a variable's, and has as many indices."""
    variable = program.by_name.get(cell.variable)
    if variable is None:
        malformed(where, f"{cell.variable} is no variable")
    if len(cell.index) != len(variable.loops) + len(variable.shape):
        malformed(where, f"{cell.variable} has another number of dimensions")


def _statement(sizes: Sequence[str], one: Mapping[str, Any]) -> Statement:
    texts = Texts((*sizes, *one["iterators"]))
    return Statement(
        one["kind"],
        tuple(named(name).name for name in one["iterators"]),
        texts.conditions(one["holds"]),
        tuple(Int(t) if isinstance(t, int) else named(t) for t in one["time"]),
        tuple(map(texts.cell, one["reads"])),
        texts.cell(one["target"]),
        _value_of(one["computes"]),
        one["line"],
        one["text"],
    )


def _value_of(value: Mapping[str, Any]) -> Value:
    if "read" in value:
        return Nth(value["read"])
    if "number" in value:
        return Number(value["number"], None if value["type"] is None else _TYPES[value["type"]])
    return Formula(value["function"], tuple(map(_value_of, value["terms"])))
