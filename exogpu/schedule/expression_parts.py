"""The parts of data expressions: where they stand, and what stands there.

A part is found by the numbers of the children that lead to it: `(1, 0)` is `b` in `a + (b + c)`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from exogpu.ir import nodes as ir
from exogpu.ir.render import data
from exogpu.ir.walk import map_reads, reads
from exogpu.schedule import rewrite

Where: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Inside:
    """A part of the value of a statement, as a primitive is given it."""

    path: rewrite.Path
    where: Where


def children(expr: ir.DExpr) -> tuple[ir.DExpr, ...]:
    """Returns the operands of an expression."""
    match expr:
        case ir.BinOp():
            return (expr.left, expr.right)
        case ir.Negate():
            return (expr.term,)
        case ir.Apply():
            return expr.arguments
        case _:
            return ()


def parts(expr: ir.DExpr) -> Iterator[tuple[Where, ir.DExpr]]:
    """All parts of an expression, itself first, left to right."""
    yield (), expr
    for number, child in enumerate(children(expr)):
        for where, part in parts(child):
            yield (number, *where), part


def part_at(expr: ir.DExpr, where: Where) -> ir.DExpr:
    """The part that stands there.  Raises IndexError where none does."""
    for number in where:
        expr = children(expr)[number]
    return expr


def with_children(expr: ir.DExpr, given: Iterable[ir.DExpr]) -> ir.DExpr:
    """The expression made of others; the same object if these are its own."""
    new, old = tuple(given), children(expr)
    if all(a is b for a, b in zip(new, old, strict=True)):
        return expr
    match expr:
        case ir.BinOp():
            return replace(expr, left=new[0], right=new[1])
        case ir.Negate():
            return replace(expr, term=new[0])
        case ir.Apply():
            return replace(expr, arguments=new)
        case _:
            raise AssertionError(expr)


def changed_at(expr: ir.DExpr, where: Where, change: Callable[[ir.DExpr], ir.DExpr]) -> ir.DExpr:
    """The expression with one part changed.  Raises IndexError where none stands there."""
    if not where:
        return change(expr)
    number, *rest = where
    given = list(children(expr))
    given[number] = changed_at(given[number], tuple(rest), change)
    return with_children(expr, given)


def reads_at(expr: ir.DExpr, where: Where) -> range:
    """The numbers of the reads in a part, among those of the expression."""
    before = 0
    for number in where:
        given = children(expr)
        before += sum(len(list(reads(child))) for child in given[:number])
        expr = given[number]
    return range(before, before + len(list(reads(expr))))


def part_text(expr: ir.DExpr) -> str:
    """An expression as it is written."""
    return data(expr, lambda name: name.name)


# --- patterns -----------------------------------------------------------------------------------


def pattern_of(pattern: str) -> Callable[[ir.DExpr], bool]:
    """Compiles a test whether an expression looks like the pattern, in which `_` is anything:
    `A[_]`, `_ * _`.

    Nothing looks like a text that is no expression.
    """
    try:
        wanted = ast.parse(pattern.strip(), mode="eval").body
    except SyntaxError:
        return lambda part: False
    return lambda part: _matches(wanted, ast.parse(part_text(part), mode="eval").body)


def _matches(wanted: ast.AST, node: ast.AST) -> bool:
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
        return isinstance(value, ast.AST) and _matches(wanted, value)
    return wanted == value


# The control expressions of one statement: bounds, guards, indices, extents.

Change: TypeAlias = Callable[[ir.CExpr], ir.CExpr | None]
"""The replacement of an expression; None where it stays, and its parts are looked at."""


def map_control(stmt: ir.Stmt, change: Change) -> ir.Stmt:
    """The statement itself, and not those in it, with its control expressions changed."""

    def access(one: ir.Access) -> ir.Access:
        return replace(one, coords=tuple(coordinate(c) for c in one.coords))

    def coordinate(coord: ir.Coord) -> ir.Coord:
        if isinstance(coord, ir.Point):
            return ir.Point(map_expr(coord.at, change))
        return ir.Interval(map_expr(coord.lo, change), map_expr(coord.hi, change))

    def argument(one: ir.Argument) -> ir.Argument:
        if isinstance(one, ir.Access):
            return access(one)
        return one if isinstance(one, ir.Const) else map_expr(one, change)

    match stmt:
        case ir.For():
            return replace(stmt, lo=map_expr(stmt.lo, change), hi=map_expr(stmt.hi, change))
        case ir.If():
            return replace(stmt, condition=map_condition(stmt.condition, change))
        case ir.Assign() | ir.Reduce():

            def map_read(one: ir.Read) -> ir.Read:
                return replace(one, access=access(one.access))

            value = map_reads(stmt.value, map_read)
            return replace(stmt, target=access(stmt.target), value=value)
        case ir.CallInstr() | ir.CallProc():
            return replace(stmt, arguments=tuple(map(argument, stmt.arguments)))
        case ir.WindowStmt():
            return replace(stmt, source=access(stmt.source))
        case _:
            return stmt


def map_expr(expr: ir.CExpr, change: Change) -> ir.CExpr:
    """The expression with parts changed, the outermost first."""
    made = change(expr)
    if made is not None:
        return made
    match expr:
        case ir.Add() | ir.Sub():
            return replace(
                expr, left=map_expr(expr.left, change), right=map_expr(expr.right, change)
            )
        case ir.Mul() | ir.FloorDiv() | ir.Mod():
            return replace(expr, term=map_expr(expr.term, change))
        case _:
            return expr


def map_condition(expr: ir.BExpr, change: Change) -> ir.BExpr:
    """The condition with its control expressions changed."""
    match expr:
        case ir.Compare():
            return replace(
                expr, left=map_expr(expr.left, change), right=map_expr(expr.right, change)
            )
        case ir.And() | ir.Or():
            left, right = map_condition(expr.left, change), map_condition(expr.right, change)
            return replace(expr, left=left, right=right)
        case ir.Not():
            return replace(expr, term=map_condition(expr.term, change))
        case ir.Truth():
            return expr


# Follows a statement, or a part of its value, through one step.


def forward(
    edit: rewrite.Rewrite, path: rewrite.Path, where: Where | None = None
) -> tuple[rewrite.Path, Where | None] | None:
    """Returns the first new place of a statement of the old procedure; None if it is gone. With
    `where`, also where that part of its value is, or None."""
    if edit.after is not None:
        before = forward(edit.after, path, where)
        if before is None or (where is not None and before[1] is None):
            return before
        path, where = before
    old = rewrite.stmt_at(edit.old, path)
    found = _forward(edit, old)
    if found is None or where is None:
        return None if found is None else (found[0], None)
    new_path, new, reading = found
    if new is old:
        return new_path, where
    if not isinstance(old, ir.Assign | ir.Reduce) or not isinstance(new, ir.Assign | ir.Reduce):
        return new_path, None
    if old in edit.readings:
        if edit.readings[old].made:
            return new_path, _common_place(old.value, new.value, where)
        return new_path, _find_equal(new.value, part_at(old.value, where))
    if reading is None:
        return new_path, _by_reads(old.value, new.value, where, edit.origins.get(new))
    return new_path, _by_looks(old, new.value, where, edit, reading)


def _forward(
    edit: rewrite.Rewrite, old: ir.Stmt
) -> tuple[rewrite.Path, ir.Stmt, rewrite.Reading | None] | None:
    """The new path, and how the statement there is read."""
    for path, stmt in rewrite.paths(edit.new):
        if stmt is old or edit.followed.get(stmt) is old:
            return path, stmt, edit.readings.get(stmt)
    for path, stmt in rewrite.paths(edit.new):  # one that has become a part of another
        if stmt is edit.joined.get(old):
            return path, stmt, None
        reading = edit.readings.get(stmt)
        if reading is not None and any(edit.followed.get(p) is old for p in reading.parts):
            return path, stmt, reading
    return None


def _by_reads(old: ir.DExpr, new: ir.DExpr, where: Where, origin: object) -> Where | None:
    """The part of the new value that reads what a part of the old one did."""
    wanted = reads_at(old, where)
    if not wanted:
        part = part_at(old, where)
        return where if _replaced_expression(new, where) == part else _find_equal(new, part)
    image = origin[0] if isinstance(origin, tuple) and len(origin) == 1 else None
    order = image.reads if isinstance(image, rewrite.Image) else None
    every = range(len(list(reads(new))))
    now = [n for n in every if (n if order is None else order[n]) in wanted]
    fits = [w for w, _ in parts(new) if now and list(reads_at(new, w)) == now]
    kind = type(part_at(old, where))
    alike = [w for w in fits if type(part_at(new, w)) is kind]
    return next(iter((*alike, *fits)), None)


def _by_looks(
    old: ir.Assign | ir.Reduce,
    new: ir.DExpr,
    where: Where,
    edit: rewrite.Rewrite,
    reading: rewrite.Reading,
) -> Where | None:
    """The part of a value that is read as others, of which one is the old one's."""
    for number, part in enumerate(reading.parts):
        if edit.followed.get(part) is old and isinstance(part, ir.Assign | ir.Reduce):
            wanted = _replaced_expression(part.value, where)
            inside = _replaced_expression(new, (number,)) if len(reading.parts) > 1 else new
            if inside == part.value:
                return (number, *where) if inside is not new else where
            return None if wanted is None else _find_equal(new, wanted)
    return _find_equal(new, part_at(old.value, where))


def _common_place(old: ir.DExpr, new: ir.DExpr, where: Where) -> Where:
    """The same place, or what is read where a part around it is in a variable of its own now."""
    for length in range(len(where)):
        mine, its = (
            _replaced_expression(old, where[:length]),
            _replaced_expression(new, where[:length]),
        )
        if type(mine) is not type(its):
            return where[:length]
    return where


def _find_equal(expr: ir.DExpr, wanted: ir.DExpr) -> Where | None:
    """The first part that is written like another."""
    return next((where for where, part in parts(expr) if part == wanted), None)


def _replaced_expression(expr: ir.DExpr, where: Where) -> ir.DExpr | None:
    for number in where:
        given = children(expr)
        if number >= len(given):
            return None
        expr = given[number]
    return expr
