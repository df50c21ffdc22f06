"""Control expressions as short source text, for messages and explanations."""

from __future__ import annotations

from typing import assert_never

from exogpu.ir.nodes import Add, CExpr, CVar, FloorDiv, Int, Mod, Mul, Sub


def show(expr: CExpr) -> str:
    """A control expression as source text."""
    match expr:
        case Int():
            return str(expr.value)
        case CVar():
            return expr.name.name
        case Add(left, Int(value)) if value < 0:
            return f"{show(left)} - {-value}"
        case Add():
            return f"{show(expr.left)} + {show(expr.right)}"
        case Sub():
            return f"{show(expr.left)} - {factor(expr.right)}"
        case Mul():
            return f"{expr.factor}*{factor(expr.term)}"
        case FloorDiv():
            return f"{factor(expr.term)} / {expr.divisor}"
        case Mod():
            return f"{factor(expr.term)} % {expr.divisor}"
        case _:
            assert_never(expr)


def factor(expr: CExpr) -> str:
    """The same, in parentheses where it is more than a number or a name."""
    return show(expr) if isinstance(expr, Int | CVar) else f"({show(expr)})"
