"""Checks concrete sizes for a procedure, before anything runs at them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from numbers import Integral
from typing import TypeAlias, assert_never

from exogpu.analysis.domain import admits_zero, conjuncts, controls
from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.frontend.control import LIMIT
from exogpu.frontend.quote import quote
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import blocks, control_variables, holds


def check_sizes(proc: ir.Proc, sizes: Mapping[str, int]) -> tuple[Diagnostic, ...]:
    """Returns the faults of running a procedure at these sizes; empty if there are none.

    Unknown and missing names, sizes below what is admitted, preconditions that do not hold.
    """
    if wrong := tuple(_no_integers(proc, sizes)):
        return wrong
    params = {p.name.name: p for p in controls(proc)}
    found = [_unknown(proc, name, params) for name in sizes if name not in params]
    found += _missing_sizes(proc, [p for name, p in params.items() if name not in sizes], sizes)
    given = {p.name: sizes[name] for name, p in params.items() if name in sizes}
    too_small = [
        problem
        for param in params.values()
        if param.name in given
        for problem in _too_small(proc, param, given[param.name])
    ]
    return (*found, *too_small, *(() if too_small else _precondition_diagnostics(proc, given)))


def _no_integers(proc: ir.Proc, sizes: Mapping[str, object]) -> Iterator[Diagnostic]:
    for name, value in sizes.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or abs(int(value)) >= LIMIT:
            what = f"{value!r}"[:40]
            yield Diagnostic(
                "X905",
                f"{name} is {what}, and sizes are integers of 64 bits",
                proc.span,
                "give an integer below 2 ** 63",
            )


def _unknown(proc: ir.Proc, name: str, params: Iterable[str]) -> Diagnostic:
    known = list(params)
    same = [k for k in known if k.lower() == name.lower()]
    close = same or get_close_matches(name, known, 1)
    if close:
        remedy = f"did you mean {close[0]}?"
    elif known:
        remedy = f"{proc.name} takes {', '.join(known)}"
    else:
        remedy = f"{proc.name} takes no sizes"
    return Diagnostic("X901", f"{proc.name} has no size {name}", proc.span, remedy)


def _missing_sizes(
    proc: ir.Proc, params: list[ir.ControlParam], sizes: Mapping[str, int]
) -> list[Diagnostic]:
    if not params:
        return []
    names = [p.name.name for p in params]
    example = ",".join([*(f"{n}={v}" for n, v in sizes.items()), *(f"{n}=..." for n in names)])
    what = "size" if len(names) == 1 else "sizes"
    return [
        Diagnostic(
            "X902",
            f"{proc.name} needs the {what} {', '.join(names)}",
            params[0].span if params[0].span.line else proc.span,
            f"give a value to each: {example}",
        )
    ]


def _too_small(proc: ir.Proc, param: ir.ControlParam, value: int) -> list[Diagnostic]:
    if param.kind != "size" or value > 0:
        return []
    name = param.name
    zero = admits_zero(proc, name)
    if value == 0 and zero:
        return []
    least = 0 if zero else 1
    remedy = f"give {name} a value of at least {least}"
    if value == 0:
        remedy += f", or admit 0 by the precondition `assert {name} >= 0`"
    return [
        Diagnostic(
            "X903",
            f"{name} is {value}, and a size is at least {least} here",
            param.span if param.span.line else proc.span,
            remedy,
        )
    ]


def _precondition_diagnostics(proc: ir.Proc, given: Mapping[Sym, int]) -> list[Diagnostic]:
    return [
        _precondition(proc, condition, given)
        for precondition in proc.preconditions
        for condition in conjuncts(precondition)
        if control_variables(condition) <= given.keys() and not holds(condition, given)
    ]


def _precondition(proc: ir.Proc, condition: ir.BExpr, given: Mapping[Sym, int]) -> Diagnostic:
    read = control_variables(condition)
    at = ", ".join(f"{name} = {value}" for name, value in given.items() if name in read)
    return Diagnostic(
        "X904",
        f"the precondition {quote(condition)} of {proc.name} does not hold"
        + (f": {at}" * bool(at)),
        condition.span if condition.span.line else proc.span,
        "give sizes that satisfy it",
        (Note("the procedure", proc.span),),
    )


# Extents of variables as functions of the sizes alone.
#
# for i in seq(0, K):          # AMIR: t has K elements
#     t: f32[i + 1]

Loops: TypeAlias = Mapping[Sym, tuple[ir.CExpr, ir.CExpr]]
"""First and last value of each iterator."""


def greatest_extents(proc: ir.Proc) -> dict[Sym, tuple[ir.CExpr, ...]]:
    """The extents of every variable allocated in a procedure, at most what they ever are where
    they read iterators: elements beyond an allocation's own extents are never accessed."""
    return dict(_extents(proc.body, {}))


def _extents(block: ir.Block, loops: Loops) -> Iterator[tuple[Sym, tuple[ir.CExpr, ...]]]:
    for stmt in block:
        inner = loops
        if isinstance(stmt, ir.Alloc | ir.BarrierAlloc):
            yield stmt.name, tuple(bound_of(extent, loops) for extent in stmt.shape)
        elif isinstance(stmt, ir.For):
            last = (
                ir.Int(stmt.hi.value - 1)
                if isinstance(stmt.hi, ir.Int)
                else ir.Sub(stmt.hi, ir.Int(1))
            )
            inner = {**loops, stmt.iterator: (stmt.lo, last)}
        for body in blocks(stmt):
            yield from _extents(body, inner)


def bound_of(expr: ir.CExpr, loops: Loops, *, least: bool = False) -> ir.CExpr:
    """An upper bound of the values of an expression in the loops, or a lower one, that reads no
    iterator; the expression itself where it reads none."""
    if not control_variables(expr) & loops.keys():
        return expr
    match expr:
        case ir.Int():
            return expr
        case ir.CVar():
            first, last = loops[expr.name]
            return bound_of(first if least else last, loops, least=least)
        case ir.Add():
            right = bound_of(expr.right, loops, least=least)
            return ir.Add(bound_of(expr.left, loops, least=least), right)
        case ir.Sub():
            right = bound_of(expr.right, loops, least=not least)
            return ir.Sub(bound_of(expr.left, loops, least=least), right)
        case ir.Mul():
            return ir.Mul(expr.factor, bound_of(expr.term, loops, least=least != (expr.factor < 0)))
        case ir.FloorDiv():
            return ir.FloorDiv(bound_of(expr.term, loops, least=least), expr.divisor)
        case ir.Mod():
            return ir.Int(0 if least else expr.divisor - 1)
        case _:
            assert_never(expr)
