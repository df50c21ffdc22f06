"""Reading control and boolean expressions: quasi-affine, integers only."""

from __future__ import annotations

import ast
from functools import reduce
from typing import Final, Literal

from exogpu.frontend.scope import Broken, Context, Control, Extreme, Formula, Reject
from exogpu.frontend.suggestions import no_control
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym

_COMPARISONS: Final[dict[type[ast.cmpop], Literal["==", "!=", "<", "<=", ">", ">="]]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


LIMIT: Final = 2**63
"""Sizes, indices and constants are 64-bit integers with a sign."""


def control(node: ast.expr, ctx: Context) -> ir.CExpr:
    """A control expression (figure CExpr).

    The operators are the language's also where all operands are Python's: `7 / 3` is 2.
    """
    span = ctx.source.span(node)
    match node:
        case ast.UnaryOp(op=ast.USub()):
            term = control(node.operand, ctx)
            if isinstance(term, ir.Int):
                return _constant(-term.value, node, ctx)
            return ir.Mul(-1, term, span)
        case ast.BinOp(op=ast.FloorDiv() | ast.Div()):
            term, divisor = control(node.left, ctx), _divisor(node.right, ctx)
            if isinstance(term, ir.Int):
                return _constant(term.value // divisor, node, ctx)
            return ir.FloorDiv(term, divisor, span)
        case ast.BinOp(op=ast.Mod()):
            term, divisor = control(node.left, ctx), _divisor(node.right, ctx)
            if isinstance(term, ir.Int):
                return _constant(term.value % divisor, node, ctx)
            return ir.Mod(term, divisor, span)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()):
            return _binary(node, ctx)
        case _ if ctx.is_python(node):
            return _constant(ctx.evaluate(node), node, ctx)
        case ast.Name():
            match ctx.lookup(node.id):
                case Control(name):
                    return ir.CVar(name, span)
                case Formula(value):
                    return value
                case Broken():
                    raise Reject(None)
                case _:
                    raise ctx.reject(
                        "T201",
                        f"{node.id} is not a control variable",
                        node,
                        "indices and bounds are made of sizes, index arguments and iterators; a "
                        "value from memory is one too, b = load_index(x[i], lo, hi)",
                    )
        case ast.Call(func=ast.Name(id="slot")) if ctx.lookup("slot") is None:
            raise ctx.reject(
                "T250",
                f"{ast.unparse(node)} stands where no slot may",
                node,
                "write it as a whole index of shared or global memory: x[slot(full), ...]",
            )
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, _, *_], keywords=[]) if (
            ctx.lookup(name) is None and ctx.extremes is not None
        ):
            terms = [control(argument, ctx) for argument in node.args]
            return _extreme(name, terms, node, ctx.extremes, ctx)
        case ast.Call(func=ast.Name(id="load_index")) if ctx.lookup("load_index") is None:
            raise ctx.reject(
                "T251",
                f"{ast.unparse(node)} stands in an expression",
                node,
                "give the value a name first: b = load_index(offsets[g], lo, hi)",
            )
        case ast.Subscript():
            raise ctx.reject(
                "T201",
                f"{ast.unparse(node)} reads data",
                node,
                "indices, bounds and conditions are made of control variables only; a value from "
                "memory is one too, b = load_index(x[i], lo, hi); data choose values by "
                "select(a, b, x, y), which is x where a < b, else y",
            )
        case _:
            raise _not_affine(node, ast.unparse(node), ctx)


def _extreme(
    name: Literal["min", "max"],
    terms: list[ir.CExpr],
    node: ast.expr,
    known: dict[Sym, Extreme],
    ctx: Context,
) -> ir.CExpr:
    """The least or the greatest of several expressions: a variable, for which
    `exogpu.frontend.minimum_cases` puts cases."""
    found, *others = terms
    for other in others:
        if isinstance(found, ir.Int) and isinstance(other, ir.Int):
            choose = min if name == "min" else max
            found = ir.Int(choose(found.value, other.value), found.span)
        else:
            symbol = Sym(ast.unparse(node))
            known[symbol] = Extreme(name, found, other)
            found = ir.CVar(symbol, ctx.source.span(node))
    return found


def _binary(node: ast.BinOp, ctx: Context) -> ir.CExpr:
    """A sum, a difference or a product."""
    span = ctx.source.span(node)
    match node.op, control(node.left, ctx), control(node.right, ctx):
        case ast.Add(), ir.Int(a), ir.Int(b):
            return _constant(a + b, node, ctx)
        case ast.Add(), left, right:
            return ir.Add(left, right, span)
        case ast.Sub(), ir.Int(a), ir.Int(b):
            return _constant(a - b, node, ctx)
        case ast.Sub(), left, right:
            return ir.Sub(left, right, span)
        case _, ir.Int(a), ir.Int(b):
            return _constant(a * b, node, ctx)
        case (_, ir.Int(factor), term) | (_, term, ir.Int(factor)):
            return ir.Mul(factor, term, span)
        case _:
            raise _not_affine(node, "a product of two variables", ctx)


def _constant(value: object, node: ast.expr, ctx: Context) -> ir.Int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ctx.reject(
            "T202",
            f"{ast.unparse(node)} is {value!r}, not an integer",
            node,
            "use an integer here",
        )
    if abs(value) >= LIMIT:
        raise ctx.reject(
            "T202", "the integer does not fit in 64 bits", node, "use an integer below 2 ** 63"
        )
    return ir.Int(int(value), ctx.source.span(node))  # Of an enumeration's member, its value.


def integer(node: ast.expr, ctx: Context) -> int:
    """An integer that is known while the procedure is read."""
    found = control(node, ctx) if ctx.is_python(node) else None
    if not isinstance(found, ir.Int):
        raise ctx.reject(
            "P104",
            f"{ast.unparse(node)} must be known when the procedure is read",
            node,
            "use an integer, or a Python value of the enclosing scope",
        )
    return found.value


def condition(node: ast.expr, ctx: Context) -> ir.BExpr:
    """A boolean expression (figure BExpr)."""
    span = ctx.source.span(node)
    if ctx.is_python(node):
        return ir.Truth(ctx.evaluate(node, bool) is True, span)
    match node:
        case ast.BoolOp():
            return _conjunction_or_disjunction(node, ctx)
        case ast.UnaryOp(op=ast.Not()):
            term = condition(node.operand, ctx)
            return (
                ir.Truth(not term.value, span) if isinstance(term, ir.Truth) else ir.Not(term, span)
            )
        case ast.Compare():
            if not all(type(op) in _COMPARISONS for op in node.ops):
                raise ctx.reject(
                    "P105",
                    f"{ast.unparse(node)}: this comparison is not in the language",
                    node,
                    "use ==, !=, <, <=, > or >=",
                )
            terms = [control(n, ctx) for n in (node.left, *node.comparators)]
            pairs = zip(node.ops, terms, terms[1:], strict=False)
            parts: list[ir.BExpr] = [
                ir.Compare(_COMPARISONS[type(o)], a, b, span) for o, a, b in pairs
            ]
            return reduce(lambda a, b: ir.And(a, b, span), parts)
        case _:
            raise ctx.reject(
                "P106",
                f"{ast.unparse(node)} is not a condition on control variables",
                node,
                "compare sizes and iterators; conditions cannot read data, but for the contracts "
                "of a precondition on an array of indices: monotone(x), injective(x)",
            )


def _conjunction_or_disjunction(node: ast.BoolOp, ctx: Context) -> ir.BExpr:
    """Conditions of which all or one shall hold.  What Python values decide is resolved: after a
    false one, of all, no other is read."""
    span = ctx.source.span(node)
    make, decided = (ir.And, False) if isinstance(node.op, ast.And) else (ir.Or, True)
    parts: list[ir.BExpr] = []
    for value in node.values:
        part = condition(value, ctx)
        if not isinstance(part, ir.Truth):
            parts.append(part)
        elif part.value is decided:
            return ir.Truth(decided, span)
    return reduce(lambda a, b: make(a, b, span), parts) if parts else ir.Truth(not decided, span)


def _divisor(node: ast.expr, ctx: Context) -> int:
    value = integer(node, ctx)
    if value < 1:
        raise ctx.reject("T203", f"division by {value}", node, "divide by a positive constant")
    return value


def _not_affine(node: ast.AST, what: str, ctx: Context) -> Reject:
    return ctx.reject(
        "T204",
        f"{what} is not quasi-affine",
        node,
        no_control(node),
    )
