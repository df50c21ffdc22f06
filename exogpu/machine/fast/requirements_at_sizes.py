"""Decides whether all requirements of operations surely hold at given sizes.

What they require depends on iterators alone: intervals tell most of it, and what they do not tell
is evaluated for all values of the iterators that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

import numpy as np

from exogpu.amir.nodes import Block, Guard, Loop, Program, Require
from exogpu.ir import nodes as ir
from exogpu.ir.affine import Affine, interval
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, evaluate
from exogpu.machine.fast.affine_code import Array, LoadedArray, Scope
from exogpu.machine.index_contents import position
from exogpu.machine.required_conditions import (
    Demand,
    Variables,
    demands,
    is_met,
    is_told_by_slots,
    slots_of,
)

_COMPARED: Final = {
    "==": np.equal, "!=": np.not_equal, "<": np.less,
    "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip

AT_ONCE: Final = 1 << 20
"""Instances that are evaluated together."""

Truths: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"


@dataclass(frozen=True, slots=True)
class _Span:
    """The values of an iterator: from `lo` to before `hi`, or the element `lo` of an array."""

    name: Sym
    lo: ir.CExpr
    hi: ir.CExpr
    array: LoadedArray | None = None

    def ends(self) -> tuple[ir.CExpr, ...]:
        """The expressions that the values depend on."""
        return (self.lo, self.hi) if self.array is None else (self.lo,)


@dataclass(frozen=True, slots=True)
class _Domain:
    """The loops around a place, outermost first, and the guards."""

    loops: tuple[_Span, ...] = ()
    guards: tuple[ir.BExpr, ...] = ()


@dataclass(frozen=True, slots=True)
class _Given:
    """The knowledge of a program: its variables, sizes, the arrays that it loads from, and the
    iterators of slots."""

    variables: Variables
    sizes: Mapping[Sym, int]
    arrays: Mapping[Sym, LoadedArray]
    slots: frozenset[Sym]

    def span(self, loop: Loop) -> _Span:
        """The values of a loop's iterator."""
        source = loop.source
        if source is None:
            return _Span(loop.iterator, loop.lo, loop.hi)
        shape = [evaluate(extent, self.sizes) for extent in self.variables[source.name].shape]
        at = position(source, shape)
        return _Span(loop.iterator, at, at, self.arrays[source.name])


def surely_holds(
    program: Program, sizes: Mapping[Sym, int], arrays: Mapping[Sym, LoadedArray]
) -> bool:
    """Tests whether the requirements of all operations hold at all values they meet, where the
    arrays that values are loaded from have these contents.  A run tells what depends on slots."""
    scope = Scope({name: Affine(value) for name, value in sizes.items()})
    given = _Given({v.name: v for v in program.variables}, sizes, arrays, slots_of(program))
    return _block(program.body, scope, _Domain(), given)


def _block(block: Block, scope: Scope, around: _Domain, given: _Given) -> bool:
    sizes = given.sizes
    for op in block:
        match op:
            case Loop():
                inner = _Domain((*around.loops, given.span(op)), around.guards)
                own = scope.enter(op.iterator, scope.form(op.lo), scope.form(op.hi))
                with scope.enter_loop(op.iterator, own):
                    if not _block(op.body, scope, inner, given):
                        return False
            case Guard():
                inner = _Domain(around.loops, (*around.guards, op.condition))
                if not _block(op.body, scope, inner, given):
                    return False
            case Require() if is_told_by_slots(op, given.slots):
                pass
            case _:
                for demand in demands(op, given.variables):
                    each = tuple(_Span(one.name, one.lo, one.hi) for one in demand.each)
                    if demand.together and not _converges(demand, around, sizes):
                        return False
                    inner = _Domain((*around.loops, *each), around.guards)
                    for condition in demand.conditions:
                        if not each and _holds(condition, scope):
                            continue
                        read = set(control_variables(condition)) - sizes.keys()
                        if _everywhere(condition, inner, sizes, read):
                            continue
                        every = {loop.name for loop in inner.loops}
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
    loops = list[_Span]()
    for loop in reversed(around.loops):
        if loop.name in read:
            loops.insert(0, loop)
            read |= {name for end in loop.ends() for name in control_variables(end)}
    return all(is_met(bare, values) for values in _values(loops, sizes))


def _values(loops: Sequence[_Span], values: Mapping[Sym, int]) -> Iterator[Mapping[Sym, int]]:
    """The values of iterators in ranges of sizes."""
    if not loops:
        yield values
        return
    first, *rest = loops
    lo = evaluate(first.lo, values)
    if first.array is None:
        every = range(lo, evaluate(first.hi, values))
    else:
        every = range(first.array[lo], first.array[lo] + 1)
    for value in every:
        yield from _values(rest, {**values, first.name: value})


# --- one by one -----------------------------------------------------------------------------


def _everywhere(
    condition: ir.BExpr, around: _Domain, sizes: Mapping[Sym, int], read: set[Sym]
) -> bool:
    """Tests whether the condition holds for all values of these iterators within loops and guards;
    given all iterators, the answer is exact."""
    guards: list[ir.BExpr] = []
    waiting = list(around.guards)
    while True:
        ends = (end for loop in around.loops if loop.name in read for end in loop.ends())
        more = {name for end in ends for name in control_variables(end)} - sizes.keys()
        chosen = [guard for guard in waiting if _tells(control_variables(guard), read, sizes)]
        more |= {name for guard in chosen for name in control_variables(guard)} - sizes.keys()
        guards += chosen
        waiting = [guard for guard in waiting if guard not in chosen]
        if more <= read:
            break
        read |= more
    loops = [loop for loop in around.loops if loop.name in read]
    values: dict[Sym, Array] = {name: np.array([value]) for name, value in sizes.items()}
    return _holds_over(condition, loops, guards, values, 1)


def _tells(variables: Set[Sym], read: Set[Sym], sizes: Mapping[Sym, int]) -> bool:
    return bool(variables & read) or variables <= sizes.keys()


def _holds_over(
    condition: ir.BExpr,
    loops: Sequence[_Span],
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
    first, *rest = loops
    lo = np.broadcast_to(_value(first.lo, values), (count,))
    if first.array is not None:
        values = {**values, first.name: first.array[lo]}
        return _holds_over(condition, rest, guards, values, count)
    high = first.hi
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
    return (
        _holds_over(condition, rest, guards, {**spread, first.name: own}, total) if total else True
    )


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
