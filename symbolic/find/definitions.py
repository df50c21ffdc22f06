"""Divisions of sizes as parameters of their own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
from exogpu.ir.walk import control_variables


@dataclass(slots=True)
class Definitions:
    """Parameters that stand for divisions of sizes by constants."""

    sizes: frozenset[Sym]
    names: dict[CExpr, Sym] = field(default_factory=dict)

    def expr(self, expr: CExpr) -> CExpr:
        """The expression with its size-only divisions named."""
        match expr:
            case Int() | CVar():
                return expr
            case Add() | Sub():
                left, right = self.expr(expr.left), self.expr(expr.right)
                if left is expr.left and right is expr.right:
                    return expr
                return replace(expr, left=left, right=right)
            case Mul():
                term = self.expr(expr.term)
                return expr if term is expr.term else replace(expr, term=term)
            case FloorDiv() | Mod():
                read = control_variables(expr)
                if read and read <= self.sizes:
                    if expr not in self.names:
                        self.names[expr] = Sym("quotient")
                    return CVar(self.names[expr])
                term = self.expr(expr.term)
                return expr if term is expr.term else replace(expr, term=term)
            case _:
                assert_never(expr)

    def condition(self, condition: BExpr) -> BExpr:
        """The condition with its size-only divisions named."""
        match condition:
            case Truth():
                return condition
            case Compare():
                left, right = self.expr(condition.left), self.expr(condition.right)
                if left is condition.left and right is condition.right:
                    return condition
                return replace(condition, left=left, right=right)
            case And() | Or():
                left_too, right_too = (
                    self.condition(condition.left),
                    self.condition(condition.right),
                )
                return replace(condition, left=left_too, right=right_too)
            case Not():
                return replace(condition, term=self.condition(condition.term))
            case _:
                assert_never(condition)
