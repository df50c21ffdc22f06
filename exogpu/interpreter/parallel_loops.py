"""Finds the loops that may run all iterations at once.

Two instances of different iterations of a loop conflict if they touch one element of a buffer
that lives outside the loop's body, and neither both read it nor both accumulate into it (`+=`).
A loop without conflicts is `parallel`: its iterations may be interleaved in any way, so a
statement may run for all of them before the next statement does.  Only sums change, by rounding;
sums kept in 16-bit floats round at every step, so there two accumulations conflict too.

The test is per pair of accesses, for any values of the outer iterators (the same in both) and of
the inner ones (independent).  In each dimension the indices must be equal; with index
`c * i + r`, r in an interval once the outer iterators cancel, this confines the difference of
the two iterations to an interval.  Guards that are equations confine it likewise.  If the
intersection holds 0 alone, the pair does not conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations_with_replacement, product
from typing import assert_never

import numpy as np

from exogpu.interpreter import program
from exogpu.interpreter.divide_iterators import loads
from exogpu.interpreter.values import NARROW_FLOATS, NUMPY
from exogpu.ir.affine import Affine, Range, atom_variables, combine, interval
from exogpu.ir.types import FLOATS, Sym


class Kind(Enum):
    READ = "read"
    WRITE = "write"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class Touch:
    """An access of a buffer; every form of `pins` is 0 where it happens."""

    buffer: program.Buffer
    dims: tuple[Affine, ...]
    kind: Kind
    pins: tuple[Affine, ...]


def annotate(nodes: program.Nodes, ranges: Mapping[Sym, Range]) -> program.Nodes:
    """The program with `parallel` and `weight` of every loop filled in."""
    return tuple(_annotate(node, ranges) for node in nodes)


def _annotate(node: program.Node, ranges: Mapping[Sym, Range]) -> program.Node:
    match node:
        case program.Loop():
            body = annotate(node.body, ranges)
            parallel = is_parallel(node, ranges)
            return replace(node, body=body, parallel=parallel, weight=_weight(body, ranges))
        case program.Guard():
            return program.Guard(
                node.test, annotate(node.body, ranges), annotate(node.orelse, ranges)
            )
        case program.Store() | program.Allocate() | program.Demand():
            return node
        case _:
            assert_never(node)


def _weight(nodes: program.Nodes, ranges: Mapping[Sym, Range]) -> int:
    return max((_weight_of(node, ranges) for node in nodes), default=1)


def _weight_of(node: program.Node, ranges: Mapping[Sym, Range]) -> int:
    match node:
        case program.Loop():
            first, last, _ = ranges[node.iterator]
            return node.weight * (last - first + 1) if node.parallel else node.weight
        case program.Guard():
            return max(_weight(node.body, ranges), _weight(node.orelse, ranges))
        case program.Allocate():
            size = 1
            for extent in node.buffer.shape:
                size *= max(1, extent)
            return size
        case program.Store() | program.Demand():
            return 1
        case _:
            assert_never(node)


def is_parallel(loop: program.Loop, ranges: Mapping[Sym, Range]) -> bool:
    """Tests whether no two iterations of the loop conflict."""
    inner = frozenset(_iterators(loop.body))
    private = frozenset(_allocated(loop.body))
    by_buffer: dict[program.Buffer, dict[Touch, None]] = {}
    for touch in _touches(loop.body, ()):
        if touch.buffer not in private:
            by_buffer.setdefault(touch.buffer, {})[touch] = None
    return not any(
        _may_conflict(first, second, loop.iterator, inner, ranges)
        for touches in by_buffer.values()
        if any(t.kind is not Kind.READ for t in touches)
        for first, second in combinations_with_replacement(touches, 2)
        if first.kind is not second.kind or first.kind is Kind.WRITE
    )


def _may_conflict(
    first: Touch,
    second: Touch,
    iterator: Sym,
    inner: frozenset[Sym],
    ranges: Mapping[Sym, Range],
) -> bool:
    """Tests whether the two may meet in one element at different values of `iterator`."""
    least, greatest, _ = ranges[iterator]
    low, high = least - greatest, greatest - least
    equations = zip(first.dims, second.dims, strict=True)
    for left, right in (*equations, *product(first.pins, second.pins)):
        confined = _difference(left, right, iterator, inner, ranges)
        if confined is None:
            return False
        low, high = max(low, confined[0]), min(high, confined[1])
    return low <= high and (low < 0 or high > 0)


_ANY = (-(1 << 62), 1 << 62)


def _difference(
    left: Affine,
    right: Affine,
    iterator: Sym,
    inner: frozenset[Sym],
    ranges: Mapping[Sym, Range],
) -> tuple[int, int] | None:
    """An interval for i - i' where `left` at i equals `right` at i'; None if never equal."""
    step, outer, loose = _parts(left, iterator, inner)
    other_step, other_outer, other_loose = _parts(right, iterator, inner)
    apart = interval(combine((1, outer), (-1, other_outer)), ranges)
    here, there = interval(loose, ranges), interval(other_loose, ranges)
    low, high = apart[0] + here[0] - there[1], apart[1] + here[1] - there[0]
    if step != other_step:
        own = interval(Affine(0, ((iterator, step),)), ranges)
        other = interval(Affine(0, ((iterator, other_step),)), ranges)
        low, high = low + own[0] - other[1], high + own[1] - other[0]
        return _ANY if low <= 0 <= high else None
    if step == 0:
        return _ANY if low <= 0 <= high else None
    # step * (i - i') lies in -high .. -low
    if step < 0:
        low, high, step = -high, -low, -step
    return -(high // step), (-low) // step


def _parts(form: Affine, iterator: Sym, inner: frozenset[Sym]) -> tuple[int, Affine, Affine]:
    """Coefficient of the iterator; what the outer iterators alone decide; all else."""
    step = 0
    outer, loose = [], []
    for atom, coefficient in form.terms:
        names = frozenset(atom_variables(atom))
        if atom == iterator:
            step = coefficient
        elif names & inner or iterator in names:
            loose.append((atom, coefficient))
        else:
            outer.append((atom, coefficient))
    return step, Affine(form.constant, tuple(outer)), Affine(0, tuple(loose))


# --- what a body touches ------------------------------------------------------------------


def _touches(nodes: program.Nodes, pins: tuple[Affine, ...]) -> Iterator[Touch]:
    for node in nodes:
        match node:
            case program.Loop():
                yield from _touches(node.body, pins)
            case program.Guard():
                yield from _touches(node.body, (*pins, *_equations(node.test)))
                yield from _touches(node.orelse, pins)
            case program.Store():
                for place in loads(node.value):
                    yield _touch(place, Kind.READ, pins)
                yield _touch(node.target, _kind(node), pins)
            case program.Allocate() | program.Demand():
                pass
            case _:
                assert_never(node)


def _touch(place: program.Place, kind: Kind, pins: tuple[Affine, ...]) -> Touch:
    return Touch(place.buffer, place.dims, kind, pins)


def _kind(store: program.Store) -> Kind:
    return Kind.SUM if store.accumulate and reorderable(store) else Kind.WRITE


def reorderable(store: program.Store) -> bool:
    """Tests whether a `+=` may trade places with another, but for rounding.

    Not in 16-bit floats, not where a fraction is added to an integer, and not where the number that
    is added is wider than the sum: every step rounds.
    """
    dtype, added = store.target.buffer.dtype, store.value.dtype
    both_integer = np.issubdtype(added, np.integer)
    wider = dtype in FLOATS and not np.can_cast(added, NUMPY[dtype])
    return dtype not in NARROW_FLOATS and both_integer == (dtype not in FLOATS) and not wider


def _equations(test: program.Test) -> Iterator[Affine]:
    """Forms that are 0 wherever the test holds."""
    match test:
        case program.Condition():
            if test.equality:
                yield test.form
        case program.AllOf():
            for part in test.parts:
                yield from _equations(part)
        case program.AnyOf():
            pass
        case _:
            assert_never(test)


def _iterators(nodes: program.Nodes) -> Iterator[Sym]:
    for node in nodes:
        if isinstance(node, program.Loop):
            yield node.iterator
            yield from _iterators(node.body)
        elif isinstance(node, program.Guard):
            yield from _iterators((*node.body, *node.orelse))


def _allocated(nodes: program.Nodes) -> Iterator[program.Buffer]:
    for node in nodes:
        if isinstance(node, program.Allocate):
            yield node.buffer
        elif isinstance(node, program.Loop):
            yield from _allocated(node.body)
        elif isinstance(node, program.Guard):
            yield from _allocated((*node.body, *node.orelse))
