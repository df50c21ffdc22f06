"""Control and boolean expressions as text of ISL's notation, for `exogpu.solvers.isl`.

A variable is written by its name and number (`k_17`), so that two variables of one name, and
variables named like ISL's keywords, stay apart.  `readable` removes the numbers again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, assert_never

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


def cexpr(expr: CExpr, names: Mapping[Sym, str] | None = None) -> str:
    """ISL text of a control expression; `names` overrides the ISL names of variables."""
    match expr:
        case Int():
            return f"({expr.value})"
        case CVar():
            return identifier(expr.name) if names is None else _named(expr.name, names)
        case Add():
            return f"({cexpr(expr.left, names)} + {cexpr(expr.right, names)})"
        case Sub():
            return f"({cexpr(expr.left, names)} - {cexpr(expr.right, names)})"
        case Mul():
            return f"({expr.factor} * {cexpr(expr.term, names)})"
        case FloorDiv():
            return f"floor(({cexpr(expr.term, names)}) / {expr.divisor})"
        case Mod():
            return f"(({cexpr(expr.term, names)}) mod {expr.divisor})"
        case _:
            assert_never(expr)


def bexpr(expr: BExpr, names: Mapping[Sym, str] | None = None) -> str:
    """ISL constraint text of a boolean expression."""
    match expr:
        case Truth():
            return "(0 = 0)" if expr.value else "(0 = 1)"
        case Compare():
            left, right = cexpr(expr.left, names), cexpr(expr.right, names)
            return f"({left} {_OPERATOR[expr.op]} {right})"
        case And():
            return f"({bexpr(expr.left, names)} and {bexpr(expr.right, names)})"
        case Or():
            return f"({bexpr(expr.left, names)} or {bexpr(expr.right, names)})"
        case Not():
            return f"(not {bexpr(expr.term, names)})"
        case _:
            assert_never(expr)


def in_range(name: Sym, lo: CExpr, hi: CExpr, names: Mapping[Sym, str] | None = None) -> str:
    """ISL constraint text of `lo <= name < hi`."""
    variable = cexpr(CVar(name), names)
    return f"({cexpr(lo, names)} <= {variable} and {variable} < {cexpr(hi, names)})"


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


def _named(name: Sym, names: Mapping[Sym, str]) -> str:
    return names.get(name) or identifier(name)
