"""Finds the function of data that a call or an operator names: `i32(x, rz)` is `i32.rz` of x."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from exogpu.ir.scalar_functions import ARITY, CALLED, called_as

SYMBOL: Final[Mapping[type[ast.operator | ast.unaryop], str]] = {
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Invert: "~",
}
"""The operators that are functions of integers."""


@dataclass(frozen=True, slots=True)
class Named:
    """A function by its name in the table, with its arguments."""

    function: str
    arguments: tuple[ast.expr, ...]


@dataclass(frozen=True, slots=True)
class Misused:
    """A call of a function with another number of arguments, or another word, than it takes."""

    message: str
    remedy: str


def named_function(node: ast.expr) -> Named | Misused | None:
    """The function that an expression applies; None where it is no function of the language.

    >>> named_function(ast.parse("i32(x, rz)", mode="eval").body).function
    'i32.rz'
    """
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in SYMBOL:
            return Named(SYMBOL[type(op)], (left, right))
        case ast.UnaryOp(op=ast.Invert() as op, operand=operand):
            return Named(SYMBOL[type(op)], (operand,))
        case ast.Call(func=ast.Name(id=name)) if name in CALLED:
            return _call_of(name, node)
        case _:
            return None


def _call_of(name: str, node: ast.Call) -> Named | Misused:
    words = [word for full in ARITY for plain, word in (called_as(full),) if plain == name]
    given = list(node.args)
    last = given[-1].id if given and isinstance(given[-1], ast.Name) else ""
    full = name
    if last and last in words:
        full = f"{name}.{last}"
        given.pop()
    elif "" not in words:
        return Misused(f"{name} takes a type last", f"write {name}(x, {words[0]})")
    if len(given) == ARITY[full] and not node.keywords:
        return Named(full, tuple(given))
    takes = f"{ARITY[full]} argument{'s' * (ARITY[full] != 1)}"
    if any(words) and len(given) == ARITY[name if name in ARITY else full] + 1:
        named = ", ".join(filter(None, words))
        return Misused(f"{ast.unparse(node)} ends in none of {named}", f"take one of {named}")
    remedy = "give it that many"
    if name in ("min", "max") and len(given) > 2 and not node.keywords:
        *first, end = map(ast.unparse, given)
        remedy = f"nest them: {name}({name}({', '.join(first)}), {end})"
    return Misused(f"{name} takes {takes}", remedy)
