"""Extents of variables as functions of the sizes alone.

for i in seq(0, K):          # AMIR: t has K elements
    t: f32[i + 1]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, assert_never

from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Add,
    Alloc,
    BarrierAlloc,
    Block,
    CExpr,
    CVar,
    FloorDiv,
    For,
    Int,
    Mod,
    Mul,
    Proc,
    Sub,
)
from exogpu.ir.walk import blocks, control_variables

Loops: TypeAlias = Mapping[Sym, tuple[CExpr, CExpr]]
"""First and last value of each iterator."""


def greatest_extents(proc: Proc) -> dict[Sym, tuple[CExpr, ...]]:
    """The extents of every variable allocated in a procedure, at most what they ever are where
    they read iterators: elements beyond an allocation's own extents are never accessed."""
    return dict(_extents(proc.body, {}))


def _extents(block: Block, loops: Loops) -> Iterator[tuple[Sym, tuple[CExpr, ...]]]:
    for stmt in block:
        inner = loops
        if isinstance(stmt, Alloc | BarrierAlloc):
            yield stmt.name, tuple(bound(extent, loops) for extent in stmt.shape)
        elif isinstance(stmt, For):
            last = Int(stmt.hi.value - 1) if isinstance(stmt.hi, Int) else Sub(stmt.hi, Int(1))
            inner = {**loops, stmt.iterator: (stmt.lo, last)}
        for body in blocks(stmt):
            yield from _extents(body, inner)


def bound(expr: CExpr, loops: Loops, *, least: bool = False) -> CExpr:
    """An upper bound of the values of an expression in the loops, or a lower one, that reads no
    iterator; the expression itself where it reads none."""
    if not control_variables(expr) & loops.keys():
        return expr
    match expr:
        case Int():
            return expr
        case CVar():
            first, last = loops[expr.name]
            return bound(first if least else last, loops, least=least)
        case Add():
            right = bound(expr.right, loops, least=least)
            return Add(bound(expr.left, loops, least=least), right)
        case Sub():
            right = bound(expr.right, loops, least=not least)
            return Sub(bound(expr.left, loops, least=least), right)
        case Mul():
            return Mul(expr.factor, bound(expr.term, loops, least=least != (expr.factor < 0)))
        case FloorDiv():
            return FloorDiv(bound(expr.term, loops, least=least), expr.divisor)
        case Mod():
            return Int(0 if least else expr.divisor - 1)
        case _:
            assert_never(expr)
