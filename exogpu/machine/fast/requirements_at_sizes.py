"""Decides whether all requirements of operations surely hold at given sizes.

What they require depends on iterators alone: intervals tell most of it, and what they do not tell
is evaluated for all values of the iterators that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

import numpy as np

from exogpu.amir.nodes import Block, Guard, Loop, Program
from exogpu.ir import nodes as ir
from exogpu.ir.affine import Affine, interval
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, evaluate
from exogpu.machine.fast.affine_code import Scope
from exogpu.machine.required_conditions import Demand, Variables, demands, is_met

_COMPARED: Final = {
    "==": np.equal, "!=": np.not_equal, "<": np.less,
    "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip

AT_ONCE: Final = 1 << 20
"""Instances that are evaluated together."""

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
Truths: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"


@dataclass(frozen=True, slots=True)
class _Domain:
    """The loops around a place, outermost first, and the guards."""

    loops: tuple[tuple[Sym, ir.CExpr, ir.CExpr], ...] = ()
    guards: tuple[ir.BExpr, ...] = ()


def surely_holds(program: Program, sizes: Mapping[Sym, int]) -> bool:
    """Tests whether the requirements of all operations hold at all values they meet."""
    scope = Scope({name: Affine(value) for name, value in sizes.items()})
    variables = {v.name: v for v in program.variables}
    return _block(program.body, scope, _Domain(), variables, sizes)


def _block(
    block: Block, scope: Scope, around: _Domain, variables: Variables, sizes: Mapping[Sym, int]
) -> bool:
    for op in block:
        match op:
            case Loop():
                inner = _Domain((*around.loops, (op.iterator, op.lo, op.hi)), around.guards)
                own = scope.enter(op.iterator, scope.form(op.lo), scope.form(op.hi))
                with scope.enter_loop(op.iterator, own):
                    if not _block(op.body, scope, inner, variables, sizes):
                        return False
            case Guard():
                inner = _Domain(around.loops, (*around.guards, op.condition))
                if not _block(op.body, scope, inner, variables, sizes):
                    return False
            case _:
                for demand in demands(op, variables):
                    each = tuple((one.name, one.lo, one.hi) for one in demand.each)
                    if demand.together and not _converges(demand, around, sizes):
                        return False
                    inner = _Domain((*around.loops, *each), around.guards)
                    for condition in demand.conditions:
                        if not each and _holds(condition, scope):
                            continue
                        read = set(control_variables(condition)) - sizes.keys()
                        if _everywhere(condition, inner, sizes, read):
                            continue
                        every = {loop[0] for loop in inner.loops}
                        if not _everywhere(condition, inner, sizes, every):
                            return False
    return True


# --- by intervals ---------------------------------------------------------------------------


def _holds(condition: ir.BExpr, scope: Scope) -> bool:
    """Tests whether the ranges of the iterators imply the condition."""
    match condition:
        case ir.Truth():
            return condition.value
        case ir.And():
            return _holds(condition.left, scope) and _holds(condition.right, scope)
        case ir.Or():
            return _holds(condition.left, scope) or _holds(condition.right, scope)
        case ir.Not():
            return False
        case ir.Compare():
            lo, hi = interval(scope.difference(condition), scope.ranges)
            return {
                "<": hi < 0, "<=": hi <= 0, ">": lo > 0, ">=": lo >= 0,
                "==": lo == hi == 0, "!=": hi < 0 or lo > 0,
            }[condition.op]  # fmt: skip
        case _:
            assert_never(condition)


# --- threads --------------------------------------------------------------------------------


def _converges(demand: Demand, around: _Domain, sizes: Mapping[Sym, int]) -> bool:
    """Tests whether no thread is left behind, at all values of the iterators that choose the
    threads."""
    if demand.threads is None:
        return True
    read: set[Sym] = set()
    for axis in demand.threads.axes:
        read |= control_variables(axis.offset)
    bare = replace(demand, each=(), conditions=())
    loops = [loop for loop in around.loops if loop[0] in read]
    return all(is_met(bare, values) for values in _values(loops, sizes))


def _values(
    loops: Sequence[tuple[Sym, ir.CExpr, ir.CExpr]], values: Mapping[Sym, int]
) -> Iterator[Mapping[Sym, int]]:
    """The values of iterators in ranges of sizes."""
    if not loops:
        yield values
        return
    (name, lo, hi), *rest = loops
    for value in range(evaluate(lo, values), evaluate(hi, values)):
        yield from _values(rest, {**values, name: value})


# --- one by one -----------------------------------------------------------------------------


def _everywhere(
    condition: ir.BExpr, around: _Domain, sizes: Mapping[Sym, int], read: set[Sym]
) -> bool:
    """Tests whether the condition holds for all values of these iterators within loops and guards;
    given all iterators, the answer is exact."""
    guards: list[ir.BExpr] = []
    waiting = list(around.guards)
    while True:
        ends = (e for name, lo, hi in around.loops if name in read for e in (lo, hi))
        more = {name for end in ends for name in control_variables(end)} - sizes.keys()
        chosen = [guard for guard in waiting if _tells(control_variables(guard), read, sizes)]
        more |= {name for guard in chosen for name in control_variables(guard)} - sizes.keys()
        guards += chosen
        waiting = [guard for guard in waiting if guard not in chosen]
        if more <= read:
            break
        read |= more
    loops = [loop for loop in around.loops if loop[0] in read]
    values: dict[Sym, Array] = {name: np.array([value]) for name, value in sizes.items()}
    return _holds_over(condition, loops, guards, values, 1)


def _tells(variables: Set[Sym], read: Set[Sym], sizes: Mapping[Sym, int]) -> bool:
    return bool(variables & read) or variables <= sizes.keys()


def _holds_over(
    condition: ir.BExpr,
    loops: Sequence[tuple[Sym, ir.CExpr, ir.CExpr]],
    guards: Sequence[ir.BExpr],
    values: Mapping[Sym, Array],
    count: int,
) -> bool:
    """The same of values so far, of so many instances, and of the loops that are left."""
    if not loops:
        wrong = ~np.broadcast_to(_truth(condition, values), (count,))
        for guard in guards:
            wrong = wrong & _truth(guard, values)
        return not bool(wrong.any())
    (name, low, high), *rest = loops
    lo = np.broadcast_to(_value(low, values), (count,))
    lengths = np.maximum(np.broadcast_to(_value(high, values), (count,)) - lo, 0)
    total = int(lengths.sum())
    if total > AT_ONCE and count > 1:
        half = count // 2
        pieces = (slice(0, half), slice(half, count))
        return all(
            _holds_over(
                condition, loops, guards, _part(values, piece, count), piece.stop - piece.start
            )
            for piece in pieces
        )
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    own = np.arange(total) - starts + np.repeat(lo, lengths)
    spread = {
        one: np.repeat(array, lengths) if len(array) == count and count > 1 else array
        for one, array in values.items()
    }
    return _holds_over(condition, rest, guards, {**spread, name: own}, total) if total else True


def _part(values: Mapping[Sym, Array], piece: slice, count: int) -> dict[Sym, Array]:
    return {name: array[piece] if len(array) == count else array for name, array in values.items()}


def _value(expr: ir.CExpr, values: Mapping[Sym, Array]) -> Array:
    match expr:
        case ir.Int():
            return np.array([expr.value])
        case ir.CVar():
            return values[expr.name]
        case ir.Add():
            return _value(expr.left, values) + _value(expr.right, values)
        case ir.Sub():
            return _value(expr.left, values) - _value(expr.right, values)
        case ir.Mul():
            return expr.factor * _value(expr.term, values)
        case ir.FloorDiv():
            return _value(expr.term, values) // expr.divisor
        case ir.Mod():
            return _value(expr.term, values) % expr.divisor
        case _:
            assert_never(expr)


def _truth(expr: ir.BExpr, values: Mapping[Sym, Array]) -> Truths:
    match expr:
        case ir.Truth():
            return np.array([expr.value])
        case ir.And():
            return _truth(expr.left, values) & _truth(expr.right, values)
        case ir.Or():
            return _truth(expr.left, values) | _truth(expr.right, values)
        case ir.Not():
            return ~_truth(expr.term, values)
        case ir.Compare():
            left, right = _value(expr.left, values), _value(expr.right, values)
            found: Truths = _COMPARED[expr.op](left, right)
            return found
        case _:
            assert_never(expr)
