"""Control and boolean expressions as JSON, and back: integers, names, and `[operator, operand...]`
with the operators + - * // % == != < <= > >= and or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, assert_never

from exogpu.ir import nodes as ir

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"


def control_json(expr: ir.CExpr) -> Json:
    """A control expression as JSON."""
    match expr:
        case ir.Int():
            return expr.value
        case ir.CVar():
            return expr.name.name
        case ir.Add():
            return ["+", control_json(expr.left), control_json(expr.right)]
        case ir.Sub():
            return ["-", control_json(expr.left), control_json(expr.right)]
        case ir.Mul():
            return ["*", expr.factor, control_json(expr.term)]
        case ir.FloorDiv():
            return ["//", control_json(expr.term), expr.divisor]
        case ir.Mod():
            return ["%", control_json(expr.term), expr.divisor]
        case _:
            assert_never(expr)


def condition_json(expr: ir.BExpr) -> Json:
    """A boolean expression as JSON."""
    match expr:
        case ir.Truth():
            return expr.value
        case ir.Compare():
            return [expr.op, control_json(expr.left), control_json(expr.right)]
        case ir.And():
            return ["and", condition_json(expr.left), condition_json(expr.right)]
        case ir.Or():
            return ["or", condition_json(expr.left), condition_json(expr.right)]
        case ir.Not():
            return ["not", condition_json(expr.term)]
        case _:
            assert_never(expr)


def control_of(json: Json, names: Mapping[str, ir.CExpr]) -> ir.CExpr:
    """The control expression, with these for its names.  Raises ValueError for none."""
    match json:
        case bool():
            pass
        case int():
            return ir.Int(json)
        case str() if json in names:
            return names[json]
        case ["+", left, right]:
            return ir.Add(control_of(left, names), control_of(right, names))
        case ["-", left, right]:
            return ir.Sub(control_of(left, names), control_of(right, names))
        case ["*", int(factor), term]:
            return ir.Mul(factor, control_of(term, names))
        case ["//", term, int(divisor)]:
            return ir.FloorDiv(control_of(term, names), divisor)
        case ["%", term, int(divisor)]:
            return ir.Mod(control_of(term, names), divisor)
    raise ValueError(f"{json!r} is no control expression")


def condition_of(json: Json, names: Mapping[str, ir.CExpr]) -> ir.BExpr:
    """The boolean expression, with these for its names.  Raises ValueError for none."""
    match json:
        case bool():
            return ir.Truth(json)
        case ["and", left, right]:
            return ir.And(condition_of(left, names), condition_of(right, names))
        case ["or", left, right]:
            return ir.Or(condition_of(left, names), condition_of(right, names))
        case ["not", term]:
            return ir.Not(condition_of(term, names))
        case ["==" | "!=" | "<" | "<=" | ">" | ">=" as symbol, left, right]:
            return ir.Compare(symbol, control_of(left, names), control_of(right, names))
    raise ValueError(f"{json!r} is no boolean expression")
