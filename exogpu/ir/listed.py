"""Control and boolean expressions as JSON, and back: integers, names, and `[operator, operand...]`
with the operators + - * // % == != < <= > >= and or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, assert_never

from exogpu.ir.nodes import (
    Add,
    And,
    BExpr,
    CExpr,
    Compare,
    CVar,
    FloorDiv,
    Int,
    Mod,
    Mul,
    Not,
    Or,
    Sub,
    Truth,
)

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"


def control_json(expr: CExpr) -> Json:
    """A control expression as JSON."""
    match expr:
        case Int():
            return expr.value
        case CVar():
            return expr.name.name
        case Add():
            return ["+", control_json(expr.left), control_json(expr.right)]
        case Sub():
            return ["-", control_json(expr.left), control_json(expr.right)]
        case Mul():
            return ["*", expr.factor, control_json(expr.term)]
        case FloorDiv():
            return ["//", control_json(expr.term), expr.divisor]
        case Mod():
            return ["%", control_json(expr.term), expr.divisor]
        case _:
            assert_never(expr)


def condition_json(expr: BExpr) -> Json:
    """A boolean expression as JSON."""
    match expr:
        case Truth():
            return expr.value
        case Compare():
            return [expr.op, control_json(expr.left), control_json(expr.right)]
        case And():
            return ["and", condition_json(expr.left), condition_json(expr.right)]
        case Or():
            return ["or", condition_json(expr.left), condition_json(expr.right)]
        case Not():
            return ["not", condition_json(expr.term)]
        case _:
            assert_never(expr)


def control_of(json: Json, names: Mapping[str, CExpr]) -> CExpr:
    """The control expression, with these for its names.  Raises ValueError for none."""
    match json:
        case bool():
            pass
        case int():
            return Int(json)
        case str() if json in names:
            return names[json]
        case ["+", left, right]:
            return Add(control_of(left, names), control_of(right, names))
        case ["-", left, right]:
            return Sub(control_of(left, names), control_of(right, names))
        case ["*", int(factor), term]:
            return Mul(factor, control_of(term, names))
        case ["//", term, int(divisor)]:
            return FloorDiv(control_of(term, names), divisor)
        case ["%", term, int(divisor)]:
            return Mod(control_of(term, names), divisor)
    raise ValueError(f"{json!r} is no control expression")


def condition_of(json: Json, names: Mapping[str, CExpr]) -> BExpr:
    """The boolean expression, with these for its names.  Raises ValueError for none."""
    match json:
        case bool():
            return Truth(json)
        case ["and", left, right]:
            return And(condition_of(left, names), condition_of(right, names))
        case ["or", left, right]:
            return Or(condition_of(left, names), condition_of(right, names))
        case ["not", term]:
            return Not(condition_of(term, names))
        case ["==" | "!=" | "<" | "<=" | ">" | ">=" as symbol, left, right]:
            return Compare(symbol, control_of(left, names), control_of(right, names))
    raise ValueError(f"{json!r} is no boolean expression")
