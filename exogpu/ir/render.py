"""GPU IR expressions as source text that parses back to the same IR."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Final, TypeAlias, assert_never

from exogpu.ir import nodes as ir
from exogpu.ir.scalar_functions import called_as
from exogpu.ir.types import Sym

Name: TypeAlias = Callable[[Sym], str]
"""The spelling of a variable where the expression stands."""

_OR, _AND, _NOT, _COMPARE, _BIT_OR, _BIT_XOR, _BIT_AND, _SHIFT = range(8)
_SUM, _PRODUCT, _UNARY, _ATOM = range(8, 12)

_BINDS: Final[Mapping[str, int]] = {
    **{"|": _BIT_OR, "^": _BIT_XOR, "&": _BIT_AND, "<<": _SHIFT, ">>": _SHIFT},
    **{"//": _PRODUCT, "%": _PRODUCT},
}
"""The strength by which the operators of integers bind."""


def _wrap(text: str, strength: int, needed: int) -> str:
    return text if strength >= needed else f"({text})"


def control(expr: ir.CExpr, name: Name, needed: int = _SUM) -> str:
    """A control expression, in parentheses if it binds weaker than `needed`."""
    match expr:
        case ir.Int():
            return _wrap(str(expr.value), _ATOM if expr.value >= 0 else _UNARY, needed)
        case ir.CVar():
            return name(expr.name)
        case ir.Add():
            text = f"{control(expr.left, name)} + {control(expr.right, name, _PRODUCT)}"
            return _wrap(text, _SUM, needed)
        case ir.Sub():
            text = f"{control(expr.left, name)} - {control(expr.right, name, _PRODUCT)}"
            return _wrap(text, _SUM, needed)
        case ir.Mul():
            text = f"{expr.factor} * {control(expr.term, name, _UNARY)}"
            return _wrap(text, _PRODUCT, needed)
        case ir.FloorDiv():
            text = f"{control(expr.term, name, _UNARY)} / {expr.divisor}"
            return _wrap(text, _PRODUCT, needed)
        case ir.Mod():
            text = f"{control(expr.term, name, _UNARY)} % {expr.divisor}"
            return _wrap(text, _PRODUCT, needed)
        case _:
            assert_never(expr)


def condition(expr: ir.BExpr, name: Name, needed: int = _OR) -> str:
    """A boolean expression, in parentheses if it binds weaker than `needed`."""
    match expr:
        case ir.Truth():
            return str(expr.value)
        case ir.Compare():
            text = f"{control(expr.left, name)} {expr.op} {control(expr.right, name)}"
            return _wrap(text, _COMPARE, needed)
        case ir.And():
            text = f"{condition(expr.left, name, _AND)} and {condition(expr.right, name, _NOT)}"
            return _wrap(text, _AND, needed)
        case ir.Or():
            text = f"{condition(expr.left, name, _OR)} or {condition(expr.right, name, _AND)}"
            return _wrap(text, _OR, needed)
        case ir.Not():
            return _wrap(f"not {condition(expr.term, name, _NOT)}", _NOT, needed)
        case _:
            assert_never(expr)


def coordinate(coord: ir.Coord, name: Name) -> str:
    """A point, or `lo:hi`."""
    match coord:
        case ir.Point():
            return control(coord.at, name)
        case ir.Interval():
            return f"{control(coord.lo, name)}:{control(coord.hi, name)}"
        case _:
            assert_never(coord)


def access(expr: ir.Access, name: Name) -> str:
    """`x` or `x[w*]`"""
    if not expr.coords:
        return name(expr.name)
    return f"{name(expr.name)}[{', '.join(coordinate(c, name) for c in expr.coords)}]"


def data(expr: ir.DExpr, name: Name, needed: int = _OR) -> str:
    """A data expression, in parentheses if it binds weaker than `needed`."""
    match expr:
        case ir.Const():
            if isinstance(expr.value, float) and not isfinite(expr.value):
                return f"float('{expr.value!r}')"
            return _wrap(repr(expr.value), _ATOM if expr.value >= 0 else _UNARY, needed)
        case ir.Read():
            return access(expr.access, name)
        case ir.BinOp():
            own = _SUM if expr.op in "+-" else _PRODUCT
            left, right = data(expr.left, name, own), data(expr.right, name, own + 1)
            return _wrap(f"{left} {expr.op} {right}", own, needed)
        case ir.Negate():
            return _wrap(f"-{data(expr.term, name, _UNARY)}", _UNARY, needed)
        case ir.Apply(function="~", arguments=(term,)):
            return _wrap(f"~{data(term, name, _UNARY)}", _UNARY, needed)
        case ir.Apply(arguments=(left, right)) if expr.function in _BINDS:
            own = _BINDS[expr.function]
            text = f"{data(left, name, own)} {expr.function} {data(right, name, own + 1)}"
            return _wrap(text, own, needed)
        case ir.Apply():
            called, word = called_as(expr.function)
            given = [*(data(a, name) for a in expr.arguments), *filter(None, [word])]
            return f"{called}({', '.join(given)})"
        case _:
            assert_never(expr)


# Control expressions as short source text, for messages and explanations.


def show(expr: ir.CExpr) -> str:
    """A control expression as source text."""
    match expr:
        case ir.Int():
            return str(expr.value)
        case ir.CVar():
            return expr.name.name
        case ir.Add(left, ir.Int(value)) if value < 0:
            return f"{show(left)} - {-value}"
        case ir.Add():
            return f"{show(expr.left)} + {show(expr.right)}"
        case ir.Sub():
            return f"{show(expr.left)} - {factor(expr.right)}"
        case ir.Mul():
            return f"{expr.factor}*{factor(expr.term)}"
        case ir.FloorDiv():
            return f"{factor(expr.term)} / {expr.divisor}"
        case ir.Mod():
            return f"{factor(expr.term)} % {expr.divisor}"
        case _:
            assert_never(expr)


def factor(expr: ir.CExpr) -> str:
    """The same, in parentheses where it is more than a number or a name."""
    return show(expr) if isinstance(expr, ir.Int | ir.CVar) else f"({show(expr)})"


# Control and boolean expressions as text of ISL's notation, for `exogpu.solvers.isl`.
#
# A variable is written by its name and number (`k_17`), so that two variables of one name, and
# variables named like ISL's keywords, stay apart. `readable` removes the numbers again.

ISL_WORDS: Final = """
    and ceil ceild exists false floor floord implies infinity infty max min mod nan not or rat true
"""
"""ISL's keywords, in any case: no name may be one."""

_OPERATOR = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def is_free(name: str) -> bool:
    """Tests whether ISL text may have the name as it is: no keyword, and none of the names of
    thread maps for a thread (`t`) and its parts (`j0`)."""
    return name.lower() not in ISL_WORDS.split() and not re.fullmatch(r"t|j\d+", name)


def identifier(name: Sym) -> str:
    """The ISL name of a control variable."""
    return f"{name.name}_{name.number}"


def numbered(names: Iterable[str], text: str) -> str:
    """The text with these names by number: conditions that differ in names alone become one."""
    called = {name: f"v{at}" for at, name in enumerate(names)}
    return re.sub(r"\b[A-Za-z_]\w*", lambda word: called.get(word[0], word[0]), text)


def isl_expr(expr: ir.CExpr, names: Mapping[Sym, str] | None = None) -> str:
    """ISL text of a control expression; `names` overrides the ISL names of variables."""
    match expr:
        case ir.Int():
            return f"({expr.value})"
        case ir.CVar():
            return identifier(expr.name) if names is None else _name_of(expr.name, names)
        case ir.Add():
            return f"({isl_expr(expr.left, names)} + {isl_expr(expr.right, names)})"
        case ir.Sub():
            return f"({isl_expr(expr.left, names)} - {isl_expr(expr.right, names)})"
        case ir.Mul():
            return f"({expr.factor} * {isl_expr(expr.term, names)})"
        case ir.FloorDiv():
            return f"floor(({isl_expr(expr.term, names)}) / {expr.divisor})"
        case ir.Mod():
            return f"(({isl_expr(expr.term, names)}) mod {expr.divisor})"
        case _:
            assert_never(expr)


def isl_cond(expr: ir.BExpr, names: Mapping[Sym, str] | None = None) -> str:
    """ISL constraint text of a boolean expression."""
    match expr:
        case ir.Truth():
            return "(0 = 0)" if expr.value else "(0 = 1)"
        case ir.Compare():
            left, right = isl_expr(expr.left, names), isl_expr(expr.right, names)
            return f"({left} {_OPERATOR[expr.op]} {right})"
        case ir.And():
            return f"({isl_cond(expr.left, names)} and {isl_cond(expr.right, names)})"
        case ir.Or():
            return f"({isl_cond(expr.left, names)} or {isl_cond(expr.right, names)})"
        case ir.Not():
            return f"(not {isl_cond(expr.term, names)})"
        case _:
            assert_never(expr)


def in_range(name: Sym, lo: ir.CExpr, hi: ir.CExpr, names: Mapping[Sym, str] | None = None) -> str:
    """ISL constraint text of `lo <= name < hi`."""
    variable = isl_expr(ir.CVar(name), names)
    return f"({isl_expr(lo, names)} <= {variable} and {variable} < {isl_expr(hi, names)})"


def conjunction(constraints: Iterable[str]) -> str:
    """The ISL text that asks for every constraint, once; true of none."""
    return " and ".join(dict.fromkeys(constraints)) or "(0 = 0)"


def readable(text: str, variables: Iterable[Sym]) -> str:
    """ISL text with the variables' own names, where no two of them share one and ISL reads it."""
    by_name: dict[str, set[Sym]] = {}
    for variable in variables:
        by_name.setdefault(variable.name, set()).add(variable)
    own = {
        identifier(only): name
        for name, (only, *others) in by_name.items()
        if not others and is_free(name)
    }
    return re.sub(r"(?<![^\W\d])[^\W\d]\w*", lambda word: own.get(word[0], word[0]), text)


def _name_of(name: Sym, names: Mapping[Sym, str]) -> str:
    return names.get(name) or identifier(name)


# Control and boolean expressions as SMT-LIB 2 text.
#
# `div` and `mod` of SMT-LIB round down for positive divisors, as ours do.

Names = Mapping[Sym, str]


def smt_expr(expr: ir.CExpr, names: Names) -> str:
    """An integer term."""
    match expr:
        case ir.CVar():
            return names[expr.name]
        case ir.Int():
            return str(expr.value) if expr.value >= 0 else f"(- {-expr.value})"
        case ir.Add():
            return f"(+ {smt_expr(expr.left, names)} {smt_expr(expr.right, names)})"
        case ir.Sub():
            return f"(- {smt_expr(expr.left, names)} {smt_expr(expr.right, names)})"
        case ir.Mul():
            return f"(* {smt_expr(ir.Int(expr.factor), names)} {smt_expr(expr.term, names)})"
        case ir.FloorDiv():
            return f"(div {smt_expr(expr.term, names)} {expr.divisor})"
        case ir.Mod():
            return f"(mod {smt_expr(expr.term, names)} {expr.divisor})"
        case _:
            assert_never(expr)


def smt_cond(expr: ir.BExpr, names: Names) -> str:
    """A formula."""
    match expr:
        case ir.Compare():
            left, right = smt_expr(expr.left, names), smt_expr(expr.right, names)
            if expr.op == "!=":
                return f"(not (= {left} {right}))"
            return f"({'=' if expr.op == '==' else expr.op} {left} {right})"
        case ir.And():
            return f"(and {smt_cond(expr.left, names)} {smt_cond(expr.right, names)})"
        case ir.Or():
            return f"(or {smt_cond(expr.left, names)} {smt_cond(expr.right, names)})"
        case ir.Not():
            return f"(not {smt_cond(expr.term, names)})"
        case ir.Truth():
            return "true" if expr.value else "false"
        case _:
            assert_never(expr)
