"""`min(a, b)` and `max(a, b)` in control expressions: cases of the statement that has them.

They are not quasi-affine, so the IR has none.  While a statement is read, a variable of its own
stands for each.  Then a condition becomes several, a loop gets a guard, and others stand in both
branches of `if a < b`:

    for i in seq(0, min(n, m)): s        for i in seq(0, n):
                                             if i < m: s
    y[i] = x[min(i, n - 1)]              if i < n - 1: y[i] = x[i]
                                         else: y[i] = x[n - 1]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from exogpu.diagnostics.errors import InternalError
from exogpu.frontend.scope import Context, Extreme, Reject
from exogpu.frontend.suggestions import no_control
from exogpu.ir import nodes as ir
from exogpu.ir.affine import from_cexpr
from exogpu.ir.types import Sym
from exogpu.ir.walk import (
    accesses,
    control_variables,
    map_reads,
    substitute,
    substitute_access,
    substitute_bool,
    walk,
)

Extremes: TypeAlias = Mapping[Sym, Extreme]


def in_cases(made: ir.Block, node: ast.stmt, ctx: Context) -> ir.Block:
    """The statements that one of the source became, without `min` and `max`."""
    if not ctx.extremes:
        return made
    found = tuple(one for stmt in made for one in _cases(stmt, node, ctx, ctx.extremes))
    span = ctx.source.span(node)
    more = sum(s.span == span for s in walk(found)) - sum(s.span == span for s in walk(made))
    ctx.reading.dissolved[node] -= more  # so many statements more have its place
    return found


def _cases(stmt: ir.Stmt, node: ast.stmt, ctx: Context, known: Extremes) -> ir.Block:
    """One statement, in cases."""
    last = max(_extremes_in(stmt, known), key=lambda name: name.number, default=None)
    match stmt:
        case ir.For(mode=ir.Slot()):
            body = tuple(one for inner in stmt.body for one in _cases(inner, node, ctx, known))
            return (replace(stmt, body=body),)
        case _ if last is None:
            return (stmt,)
        case ir.If():
            return (replace(stmt, condition=_condition(stmt.condition, known)),)
        case ir.For(mode=ir.Seq() | ir.CudaThreads()):
            guarded = _loop_with_guard(stmt, last, known)
            if guarded is None:
                raise _refusal(node, ctx)
            return _cases(guarded, node, ctx, known)
        case ir.Assign() | ir.Reduce() | ir.CallInstr() | ir.Uninit():
            pass
        case _:
            raise _refusal(node, ctx)
    case = known[last]
    first, second = (
        _cases(_substituted(stmt, {last: value}), node, ctx, known)
        for value in (case.left, case.right)
    )
    if case.name == "max":
        first, second = second, first
    below = _condition(ir.Compare("<", case.left, case.right, stmt.span), known)
    return (ir.If(below, first, second, span=stmt.span),)


def _refusal(node: ast.stmt, ctx: Context) -> Reject:
    """The refusal where cases would be synchronisation, declarations or windows."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and ast.unparse(one.func) in ("min", "max"):
            what = f"{ast.unparse(one)} is not quasi-affine"
            return ctx.reject("T204", what, one, no_control(one))
    what = "a name of min or max stands where there are no cases"
    return ctx.reject("T204", what, node, "write an if around it, with a value in each branch")


def _extremes_in(stmt: ir.Stmt, known: Extremes) -> Iterator[Sym]:
    """Yields the extremes in a statement's own expressions."""
    for expression in _expressions(stmt):
        yield from (name for name in control_variables(expression) if name in known)


def _expressions(stmt: ir.Stmt) -> Iterator[ir.CExpr | ir.BExpr]:
    for access in accesses(stmt):
        for coord in access.coords:
            yield from (coord.at,) if isinstance(coord, ir.Point) else (coord.lo, coord.hi)
    match stmt:
        case ir.For():
            yield from (stmt.lo, stmt.hi)
        case ir.If():
            yield stmt.condition
        case ir.Alloc() | ir.BarrierAlloc():
            yield from stmt.shape
        case ir.CallInstr() | ir.CallProc():
            for argument in stmt.arguments:
                if isinstance(argument, ir.CVar | ir.Add | ir.Sub | ir.Mul | ir.FloorDiv | ir.Mod):
                    yield argument
        case _:
            pass


# --- conditions and loops -------------------------------------------------------------------


def _condition(condition: ir.BExpr, known: Extremes) -> ir.BExpr:
    """A condition, in cases."""
    match condition:
        case ir.And() | ir.Or():
            left, right = (_condition(part, known) for part in (condition.left, condition.right))
            return replace(condition, left=left, right=right)
        case ir.Not():
            return replace(condition, term=_condition(condition.term, known))
        case ir.Truth():
            return condition
        case ir.Compare():
            pass
    names = [name for name in control_variables(condition) if name in known]
    if not names:
        return condition
    last = max(names, key=lambda name: name.number)
    case, span = known[last], condition.span
    left, right = (
        _condition(substitute_bool(condition, {last: value}), known)
        for value in (case.left, case.right)
    )
    difference = dict(from_cexpr(ir.Sub(condition.left, condition.right), {}, {}).terms)
    factor = difference.get(last)
    alone = sum(last in control_variables(e) for e in (condition.left, condition.right)) == 1
    if factor is not None and alone and condition.op not in ("==", "!="):
        least = (case.name == "min") == (factor > 0)  # of what is compared with 0
        below = condition.op in ("<", "<=")
        return ir.Or(left, right, span) if least == below else ir.And(left, right, span)
    order = _condition(ir.Compare("<", case.left, case.right, span), known)
    first, second = (left, right) if case.name == "min" else (right, left)
    return ir.Or(ir.And(order, first, span), ir.And(ir.Not(order, span), second, span), span)


def _loop_with_guard(loop: ir.For, last: Sym, known: Extremes) -> ir.For | None:
    """A loop to the first of two ends, of which a guard in it tests the second; None of others."""
    case, iterator, span = known[last], ir.CVar(loop.iterator, loop.span), loop.span
    first, second = case.left, case.right
    if isinstance(second, ir.Int):
        first, second = second, first
    if case.name == "min" and loop.hi == ir.CVar(last) and last not in control_variables(loop.lo):
        loop, test = replace(loop, hi=first), ir.Compare("<", iterator, second, span)
    elif case.name == "max" and loop.lo == ir.CVar(last) and last not in control_variables(loop.hi):
        loop, test = replace(loop, lo=first), ir.Compare(">=", iterator, second, span)
    else:
        return None
    return replace(loop, body=(ir.If(_condition(test, known), loop.body, (), span=span),))


# --- statements with a value put in ----------------------------------------------------------


def _substituted(stmt: ir.Stmt, values: Mapping[Sym, ir.CExpr]) -> ir.Stmt:
    """A new statement with control variables replaced."""
    match stmt:
        case ir.Assign() | ir.Reduce():
            value = map_reads(
                stmt.value,
                lambda read: replace(read, access=substitute_access(read.access, values)),
            )
            return replace(stmt, target=substitute_access(stmt.target, values), value=value)
        case ir.CallInstr():
            trailing = stmt.trailing and substitute_access(stmt.trailing, values)
            arguments = tuple(_argument(one, values) for one in stmt.arguments)
            return replace(stmt, arguments=arguments, trailing=trailing)
        case ir.Uninit():
            return replace(stmt, access=substitute_access(stmt.access, values))
        case _:
            raise InternalError(f"{stmt} has no cases")


def _argument(argument: ir.Argument, values: Mapping[Sym, ir.CExpr]) -> ir.Argument:
    match argument:
        case ir.Access():
            return substitute_access(argument, values)
        case ir.Int() | ir.CVar() | ir.Add() | ir.Sub() | ir.Mul() | ir.FloorDiv() | ir.Mod():
            return substitute(argument, values)
        case _:
            return argument
