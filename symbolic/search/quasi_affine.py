"""Divisions of sizes as parameters of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.solvers.isl_functions import Affine, Constraint, Piece
from exogpu.symbolic.encode.formulas import TRUE, conjunction_of, disjunction_of
from exogpu.symbolic.encode.pieces import Pieces, linear


@dataclass(slots=True)
class Definitions:
    """Parameters that stand for divisions of sizes by constants."""

    sizes: frozenset[Sym]
    names: dict[ir.CExpr, Sym] = field(default_factory=dict)

    def expr(self, expr: ir.CExpr) -> ir.CExpr:
        """The expression with its size-only divisions named."""
        match expr:
            case ir.Int() | ir.CVar():
                return expr
            case ir.Add() | ir.Sub():
                left, right = self.expr(expr.left), self.expr(expr.right)
                if left is expr.left and right is expr.right:
                    return expr
                return replace(expr, left=left, right=right)
            case ir.Mul():
                term = self.expr(expr.term)
                return expr if term is expr.term else replace(expr, term=term)
            case ir.FloorDiv() | ir.Mod():
                read = control_variables(expr)
                if read and read <= self.sizes:
                    if expr not in self.names:
                        self.names[expr] = Sym("quotient")
                    return ir.CVar(self.names[expr])
                term = self.expr(expr.term)
                return expr if term is expr.term else replace(expr, term=term)
            case _:
                assert_never(expr)

    def condition(self, condition: ir.BExpr) -> ir.BExpr:
        """The condition with its size-only divisions named."""
        match condition:
            case ir.Truth():
                return condition
            case ir.Compare():
                left, right = self.expr(condition.left), self.expr(condition.right)
                if left is condition.left and right is condition.right:
                    return condition
                return replace(condition, left=left, right=right)
            case ir.And() | ir.Or():
                left_too, right_too = (
                    self.condition(condition.left),
                    self.condition(condition.right),
                )
                return replace(condition, left=left_too, right=right_too)
            case ir.Not():
                return replace(condition, term=self.condition(condition.term))
            case _:
                assert_never(condition)


# ISL's quasi-affine functions as expressions of the IR.


def expression(
    affine: Affine, inputs: Sequence[ir.CExpr], params: Mapping[str, ir.CExpr]
) -> ir.CExpr:
    """The value of a quasi-affine function."""
    terms = [(value, inputs[at]) for value, at in affine.inputs]
    terms += ((value, params[name]) for value, name in affine.params)
    terms += ((value, expression(inner, inputs, params)) for value, inner in affine.floors)
    total = linear(affine.constant, terms)
    if affine.divisor == 1:
        return total
    if isinstance(total, ir.Int):
        return ir.Int(total.value // affine.divisor)
    return ir.FloorDiv(total, affine.divisor)


def pieces_of(
    pieces: Sequence[Piece], inputs: Sequence[ir.CExpr], params: Mapping[str, ir.CExpr]
) -> Pieces:
    """The expressions of a piecewise function; 0 for one that is defined nowhere."""
    found = []
    for piece in pieces:
        where = disjunction_of(
            conjunction_of(constraint(one, inputs, params) for one in conjunction)
            for conjunction in piece.where
        )
        found.append((where, expression(piece.value, inputs, params)))
    if len(found) < 2:
        return ((TRUE, found[0][1] if found else ir.Int(0)),)
    return tuple(found)


def constraint(
    condition: Constraint, inputs: Sequence[ir.CExpr], params: Mapping[str, ir.CExpr]
) -> ir.BExpr:
    """The condition of the IR."""
    value = expression(condition.value, inputs, params)
    return ir.Compare("==" if condition.equality else ">=", value, ir.Int(0))
