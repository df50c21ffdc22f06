"""The parts of data expressions: where they stand, and what stands there.

A part is found by the numbers of the children that lead to it: `(1, 0)` is `b` in `a + (b + c)`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from exogpu.ir.nodes import Apply, BinOp, DExpr, Negate
from exogpu.ir.print_expressions import data
from exogpu.ir.walk import reads
from exogpu.schedule.rewrite import Path

Where: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Inside:
    """A part of the value of a statement, as a primitive is given it."""

    path: Path
    where: Where


def children(expr: DExpr) -> tuple[DExpr, ...]:
    """Returns the operands of an expression."""
    match expr:
        case BinOp():
            return (expr.left, expr.right)
        case Negate():
            return (expr.term,)
        case Apply():
            return expr.arguments
        case _:
            return ()


def parts(expr: DExpr) -> Iterator[tuple[Where, DExpr]]:
    """All parts of an expression, itself first, left to right."""
    yield (), expr
    for number, child in enumerate(children(expr)):
        for where, part in parts(child):
            yield (number, *where), part


def part_at(expr: DExpr, where: Where) -> DExpr:
    """The part that stands there.  Raises IndexError where none does."""
    for number in where:
        expr = children(expr)[number]
    return expr


def with_children(expr: DExpr, given: Iterable[DExpr]) -> DExpr:
    """The expression made of others; the same object if these are its own."""
    new, old = tuple(given), children(expr)
    if all(a is b for a, b in zip(new, old, strict=True)):
        return expr
    match expr:
        case BinOp():
            return replace(expr, left=new[0], right=new[1])
        case Negate():
            return replace(expr, term=new[0])
        case Apply():
            return replace(expr, arguments=new)
        case _:
            raise AssertionError(expr)


def changed_at(expr: DExpr, where: Where, change: Callable[[DExpr], DExpr]) -> DExpr:
    """The expression with one part changed.  Raises IndexError where none stands there."""
    if not where:
        return change(expr)
    number, *rest = where
    given = list(children(expr))
    given[number] = changed_at(given[number], tuple(rest), change)
    return with_children(expr, given)


def reads_at(expr: DExpr, where: Where) -> range:
    """The numbers of the reads in a part, among those of the expression."""
    before = 0
    for number in where:
        given = children(expr)
        before += sum(len(list(reads(child))) for child in given[:number])
        expr = given[number]
    return range(before, before + len(list(reads(expr))))


def part_text(expr: DExpr) -> str:
    """An expression as it is written."""
    return data(expr, lambda name: name.name)


# --- patterns -----------------------------------------------------------------------------------


def pattern_of(pattern: str) -> Callable[[DExpr], bool]:
    """Compiles a test whether an expression looks like the pattern, in which `_` is anything:
    `A[_]`, `_ * _`.

    Nothing looks like a text that is no expression.
    """
    try:
        wanted = ast.parse(pattern.strip(), mode="eval").body
    except SyntaxError:
        return lambda part: False
    return lambda part: _fits(wanted, ast.parse(part_text(part), mode="eval").body)


def _fits(wanted: ast.AST, node: ast.AST) -> bool:
    if isinstance(wanted, ast.Name) and wanted.id == "_":
        return True
    if type(wanted) is not type(node):
        return False
    return all(
        _field_fits(getattr(wanted, name), getattr(node, name, None))
        for name in wanted._fields
        if name not in ("ctx", "kind")
    )


def _field_fits(wanted: object, value: object) -> bool:
    if isinstance(wanted, list) and isinstance(value, list):
        anything = len(wanted) == 1 and isinstance(wanted[0], ast.Name) and wanted[0].id == "_"
        if anything:  # `max(_)`: any arguments
            return True
        return len(wanted) == len(value) and all(map(_field_fits, wanted, value))
    if isinstance(wanted, ast.AST):
        return isinstance(value, ast.AST) and _fits(wanted, value)
    return wanted == value
