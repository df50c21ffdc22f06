"""The control expressions of one statement: bounds, guards, indices, extents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from exogpu.ir.nodes import (
    Access,
    Add,
    And,
    Argument,
    Assign,
    BExpr,
    CallInstr,
    CallProc,
    CExpr,
    Compare,
    Const,
    Coord,
    FloorDiv,
    For,
    If,
    Interval,
    Mod,
    Mul,
    Not,
    Or,
    Point,
    Read,
    Reduce,
    Stmt,
    Sub,
    Truth,
    WindowStmt,
)
from exogpu.schedule.rewrite import map_reads

Change: TypeAlias = Callable[[CExpr], CExpr | None]
"""What stands in the place of an expression; None where it stays, and its parts are looked at."""


def map_control(stmt: Stmt, change: Change) -> Stmt:
    """The statement itself, and not those in it, with its control expressions changed."""

    def access(one: Access) -> Access:
        return replace(one, coords=tuple(coordinate(c) for c in one.coords))

    def coordinate(coord: Coord) -> Coord:
        if isinstance(coord, Point):
            return Point(map_expr(coord.at, change))
        return Interval(map_expr(coord.lo, change), map_expr(coord.hi, change))

    def argument(one: Argument) -> Argument:
        if isinstance(one, Access):
            return access(one)
        return one if isinstance(one, Const) else map_expr(one, change)

    match stmt:
        case For():
            return replace(stmt, lo=map_expr(stmt.lo, change), hi=map_expr(stmt.hi, change))
        case If():
            return replace(stmt, condition=map_condition(stmt.condition, change))
        case Assign() | Reduce():

            def read(one: Read) -> Read:
                return replace(one, access=access(one.access))

            value = map_reads(stmt.value, read)
            return replace(stmt, target=access(stmt.target), value=value)
        case CallInstr() | CallProc():
            return replace(stmt, arguments=tuple(map(argument, stmt.arguments)))
        case WindowStmt():
            return replace(stmt, source=access(stmt.source))
        case _:
            return stmt


def map_expr(expr: CExpr, change: Change) -> CExpr:
    """The expression with parts changed, the outermost first."""
    made = change(expr)
    if made is not None:
        return made
    match expr:
        case Add() | Sub():
            return replace(
                expr, left=map_expr(expr.left, change), right=map_expr(expr.right, change)
            )
        case Mul() | FloorDiv() | Mod():
            return replace(expr, term=map_expr(expr.term, change))
        case _:
            return expr


def map_condition(expr: BExpr, change: Change) -> BExpr:
    """The condition with its control expressions changed."""
    match expr:
        case Compare():
            return replace(
                expr, left=map_expr(expr.left, change), right=map_expr(expr.right, change)
            )
        case And() | Or():
            left, right = map_condition(expr.left, change), map_condition(expr.right, change)
            return replace(expr, left=left, right=right)
        case Not():
            return replace(expr, term=map_condition(expr.term, change))
        case Truth():
            return expr
