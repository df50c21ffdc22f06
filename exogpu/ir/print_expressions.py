"""GPU IR expressions as source text that parses back to the same IR."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TypeAlias, assert_never

from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Add,
    And,
    Apply,
    BExpr,
    BinOp,
    CExpr,
    Compare,
    Const,
    Coord,
    CVar,
    DExpr,
    FloorDiv,
    Int,
    Interval,
    Mod,
    Mul,
    Negate,
    Not,
    Or,
    Point,
    Read,
    Sub,
    Truth,
)

Name: TypeAlias = Callable[[Sym], str]
"""How a variable is spelled where the expression stands."""

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = range(8)


def _wrap(text: str, strength: int, needed: int) -> str:
    return text if strength >= needed else f"({text})"


def control(expr: CExpr, name: Name, needed: int = _SUM) -> str:
    """A control expression, in parentheses if it binds weaker than `needed`."""
    match expr:
        case Int():
            return _wrap(str(expr.value), _ATOM if expr.value >= 0 else _UNARY, needed)
        case CVar():
            return name(expr.name)
        case Add():
            text = f"{control(expr.left, name)} + {control(expr.right, name, _PRODUCT)}"
            return _wrap(text, _SUM, needed)
        case Sub():
            text = f"{control(expr.left, name)} - {control(expr.right, name, _PRODUCT)}"
            return _wrap(text, _SUM, needed)
        case Mul():
            text = f"{expr.factor} * {control(expr.term, name, _UNARY)}"
            return _wrap(text, _PRODUCT, needed)
        case FloorDiv():
            text = f"{control(expr.term, name, _UNARY)} / {expr.divisor}"
            return _wrap(text, _PRODUCT, needed)
        case Mod():
            text = f"{control(expr.term, name, _UNARY)} % {expr.divisor}"
            return _wrap(text, _PRODUCT, needed)
        case _:
            assert_never(expr)


def condition(expr: BExpr, name: Name, needed: int = _OR) -> str:
    """A boolean expression, in parentheses if it binds weaker than `needed`."""
    match expr:
        case Truth():
            return str(expr.value)
        case Compare():
            text = f"{control(expr.left, name)} {expr.op} {control(expr.right, name)}"
            return _wrap(text, _COMPARE, needed)
        case And():
            text = f"{condition(expr.left, name, _AND)} and {condition(expr.right, name, _NOT)}"
            return _wrap(text, _AND, needed)
        case Or():
            text = f"{condition(expr.left, name, _OR)} or {condition(expr.right, name, _AND)}"
            return _wrap(text, _OR, needed)
        case Not():
            return _wrap(f"not {condition(expr.term, name, _NOT)}", _NOT, needed)
        case _:
            assert_never(expr)


def coordinate(coord: Coord, name: Name) -> str:
    """A point, or `lo:hi`."""
    match coord:
        case Point():
            return control(coord.at, name)
        case Interval():
            return f"{control(coord.lo, name)}:{control(coord.hi, name)}"
        case _:
            assert_never(coord)


def access(expr: Access, name: Name) -> str:
    """`x` or `x[w*]`"""
    if not expr.coords:
        return name(expr.name)
    return f"{name(expr.name)}[{', '.join(coordinate(c, name) for c in expr.coords)}]"


def data(expr: DExpr, name: Name, needed: int = _SUM) -> str:
    """A data expression, in parentheses if it binds weaker than `needed`."""
    match expr:
        case Const():
            if isinstance(expr.value, float) and not isfinite(expr.value):
                return f"float('{expr.value!r}')"
            return _wrap(repr(expr.value), _ATOM if expr.value >= 0 else _UNARY, needed)
        case Read():
            return access(expr.access, name)
        case BinOp():
            own = _SUM if expr.op in "+-" else _PRODUCT
            left, right = data(expr.left, name, own), data(expr.right, name, own + 1)
            return _wrap(f"{left} {expr.op} {right}", own, needed)
        case Negate():
            return _wrap(f"-{data(expr.term, name, _UNARY)}", _UNARY, needed)
        case Apply():
            return f"{expr.function}({', '.join(data(a, name, _OR) for a in expr.arguments)})"
        case _:
            assert_never(expr)
