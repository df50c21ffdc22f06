"""Expressions and thread maps of the program as terms of 64 bits, in which no value of ours wraps.

A thread map is a sum of axes.  A thread's position on each is a digit of its index, if positions
stay below the radix of their digit: that is asked of the solver, so that nothing rests on how
maps are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from exogpu.amir import nodes as amir
from exogpu.analysis.threadmap import ThreadAxis, ThreadMap
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.solvers import bitvectors as bv
from exogpu.validate.refusals import refusal_of

Environment = Mapping[Sym, bv.Term]
"""The value of each control variable."""

_COMPARISONS: Final = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def number_of(expr: ir.CExpr, env: Environment) -> bv.Term:
    """The value of a control expression."""
    match expr:
        case ir.Int():
            return bv.constant(expr.value, 64)
        case ir.CVar():
            if expr.name not in env:
                raise refusal_of(f"{expr.name} has no value here")
            return env[expr.name]
        case ir.Add():
            return number_of(expr.left, env) + number_of(expr.right, env)
        case ir.Sub():
            return number_of(expr.left, env) - number_of(expr.right, env)
        case ir.Mul():
            return number_of(expr.term, env) * bv.constant(expr.factor, 64)
        case ir.FloorDiv():
            return bv.floor_divided(number_of(expr.term, env), expr.divisor)
        case ir.Mod():
            return bv.floor_rest(number_of(expr.term, env), expr.divisor)
        case _:
            assert_never(expr)


def condition_of(expr: ir.BExpr, env: Environment) -> bv.Formula:
    """The truth of a condition."""
    match expr:
        case ir.Truth():
            return bv.TRUE if expr.value else bv.negation(bv.TRUE)
        case ir.Compare():
            left, right = number_of(expr.left, env), number_of(expr.right, env)
            return bv.compare(_COMPARISONS[expr.op], left, right)
        case ir.And():
            return bv.conjunction([condition_of(expr.left, env), condition_of(expr.right, env)])
        case ir.Or():
            return bv.disjunction([condition_of(expr.left, env), condition_of(expr.right, env)])
        case ir.Not():
            return bv.negation(condition_of(expr.term, env))
        case _:
            assert_never(expr)


# --- threads --------------------------------------------------------------------------------------

Evaluate = Callable[[ir.CExpr], bv.Term]
Follows = Callable[[bv.Formula], bool]


@dataclass(frozen=True, slots=True)
class Iteration:
    """A thread's iteration of a loop over threads, and the condition that it has one."""

    value: bv.Term
    condition: bv.Formula


def executes(threads: ThreadMap, tid: bv.Term, value: Evaluate, follows: Follows) -> bv.Formula:
    """The condition that a thread is one of a map's."""
    conditions = []
    for axis, digit in zip(threads.axes, _digits(threads, tid), strict=True):
        offset = value(axis.offset)
        _check_digit(threads, axis, offset, bv.TRUE, follows)
        conditions.append(_lies_in(digit, offset, axis.extent))
    if not threads.axes:
        conditions.append(bv.equal(tid, bv.constant(0, 64)))
    return bv.conjunction(conditions)


def iteration_of(
    loop: amir.Loop,
    tid: bv.Term,
    evaluate: Callable[[ir.CExpr, Sym, bv.Term], bv.Term],
    follows: Follows,
) -> Iteration:
    """A thread's iteration; `evaluate` gives the value of an expression for one of the iterator.

    Raises NotValidatedError unless each thread has one at most.
    """
    zero, one = bv.constant(0, 64), bv.constant(1, 64)
    lo, hi = (evaluate(end, loop.iterator, zero) for end in (loop.lo, loop.hi))
    threads = next((op.origin.threads for op in loop.body if op.origin.threads is not None), None)
    if threads is None:
        raise refusal_of("a loop over threads without threads")
    using = [
        (axis, digit)
        for axis, digit in zip(threads.axes, _digits(threads, tid), strict=True)
        if loop.iterator in control_variables(axis.offset)
    ]
    if not using:
        if not follows(bv.equal(hi, lo + one)):
            raise refusal_of("a thread executes several iterations of a loop over threads")
        return Iteration(lo, bv.TRUE)
    if len(using) > 1:
        raise refusal_of("a loop over threads along several axes")
    ((axis, digit),) = using
    begin = evaluate(axis.offset, loop.iterator, zero)
    pitch = bv.signed_value(bv.simplified(evaluate(axis.offset, loop.iterator, one) - begin))
    some = bv.fresh("iteration", 64)
    inside = _lies_between(some, lo, hi)
    offset = evaluate(axis.offset, loop.iterator, some)
    if pitch is None or pitch < axis.extent:
        raise refusal_of("iterations of a loop over threads that overlap")
    exact = bv.equal(offset, begin + some * bv.constant(pitch, 64))
    if not follows(bv.disjunction([bv.negation(inside), exact])):
        raise refusal_of("a loop over threads whose threads are not evenly apart")
    _check_digit(threads, axis, offset, inside, follows)
    value = bv.simplified(bv.floor_divided(digit - begin, pitch))
    within = _lies_in(digit, begin + value * bv.constant(pitch, 64), axis.extent)
    return Iteration(value, bv.conjunction([_lies_between(value, lo, hi), within]))


def _digits(threads: ThreadMap, tid: bv.Term) -> list[bv.Term]:
    """The positions of a thread on each axis, as digits of its index."""
    found, rest = [], tid
    for axis in threads.axes:
        found.append(bv.simplified(bv.floor_divided(rest, axis.pitch)))
        rest = bv.floor_rest(rest, axis.pitch)
    return found


def _check_digit(
    threads: ThreadMap,
    axis: ThreadAxis,
    offset: bv.Term,
    where: bv.Formula,
    follows: Follows,
) -> None:
    """Refuses positions that are not digits: below 0, or not below the radix."""
    at = threads.axes.index(axis)
    claims = [bv.compare("ge", offset, bv.constant(0, 64))]
    if at:
        above = threads.axes[at - 1].pitch
        if above % axis.pitch:
            raise refusal_of("a thread map whose pitches do not divide each other")
        most = above // axis.pitch - axis.extent
        claims.append(bv.compare("le", offset, bv.constant(most, 64)))
    claims = [bv.disjunction([bv.negation(where), one]) for one in claims]
    if not all(map(follows, claims)):
        raise refusal_of("a thread map whose axes overlap")
    if axis.pitch != 1 and at == len(threads.axes) - 1:
        raise refusal_of("a thread map of threads that are not adjacent")


def _lies_in(digit: bv.Term, offset: bv.Term, extent: int) -> bv.Formula:
    return _lies_between(digit, offset, offset + bv.constant(extent, 64))


def _lies_between(value: bv.Term, lo: bv.Term, hi: bv.Term) -> bv.Formula:
    value, lo, hi = bv.simplified(value), bv.simplified(lo), bv.simplified(hi)
    return bv.conjunction([bv.compare("le", lo, value), bv.compare("lt", value, hi)])
