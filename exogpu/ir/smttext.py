"""Control and boolean expressions as SMT-LIB 2 text.

`div` and `mod` of SMT-LIB round down for positive divisors, as ours do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from exogpu.ir.names import Sym
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

Names = Mapping[Sym, str]


def cexpr(expr: CExpr, names: Names) -> str:
    """An integer term."""
    match expr:
        case CVar():
            return names[expr.name]
        case Int():
            return str(expr.value) if expr.value >= 0 else f"(- {-expr.value})"
        case Add():
            return f"(+ {cexpr(expr.left, names)} {cexpr(expr.right, names)})"
        case Sub():
            return f"(- {cexpr(expr.left, names)} {cexpr(expr.right, names)})"
        case Mul():
            return f"(* {cexpr(Int(expr.factor), names)} {cexpr(expr.term, names)})"
        case FloorDiv():
            return f"(div {cexpr(expr.term, names)} {expr.divisor})"
        case Mod():
            return f"(mod {cexpr(expr.term, names)} {expr.divisor})"
        case _:
            assert_never(expr)


def bexpr(expr: BExpr, names: Names) -> str:
    """A formula."""
    match expr:
        case Compare():
            left, right = cexpr(expr.left, names), cexpr(expr.right, names)
            if expr.op == "!=":
                return f"(not (= {left} {right}))"
            return f"({'=' if expr.op == '==' else expr.op} {left} {right})"
        case And():
            return f"(and {bexpr(expr.left, names)} {bexpr(expr.right, names)})"
        case Or():
            return f"(or {bexpr(expr.left, names)} {bexpr(expr.right, names)})"
        case Not():
            return f"(not {bexpr(expr.term, names)})"
        case Truth():
            return "true" if expr.value else "false"
        case _:
            assert_never(expr)
