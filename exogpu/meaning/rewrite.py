"""Iterators that are divided become digits: `t` with `t / 8` and `t mod 8` becomes two loops.

    for t in 0..128: y[t / 8] += x[t / 8, t mod 8]
    -> for t1 in 0..16: for t0 in 0..8: y[t1] += x[t1, t0]

The order of instances is the same; the indices become affine, so that `dependence` can tell
iterations apart and `execute` can address arrays by strides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias, assert_never

from exogpu.ir.affine import Affine, Range, combine, divisors, interval, substitute, variable
from exogpu.ir.names import Sym
from exogpu.meaning.core import (
    Allocate,
    AllOf,
    AnyOf,
    Check,
    Condition,
    Convert,
    Demand,
    Guard,
    Literal,
    Load,
    Loop,
    Node,
    Nodes,
    Operation,
    Place,
    Store,
    Test,
    Value,
)

Change: TypeAlias = Callable[[Affine], Affine]


def split_digits(nodes: Nodes, ranges: dict[Sym, Range]) -> Nodes:
    """The program with divided iterators split where their divisors divide one another."""
    return tuple(_split(node, ranges) for node in nodes)


def _split(node: Node, ranges: dict[Sym, Range]) -> Node:
    match node:
        case Loop():
            radices = _radices(node)
            if radices:
                node = _digits(node, radices, ranges)
            return replace(node, body=split_digits(node.body, ranges))
        case Guard():
            body, orelse = (split_digits(b, ranges) for b in (node.body, node.orelse))
            return Guard(node.test, body, orelse)
        case Store() | Allocate() | Demand():
            return node
        case _:
            assert_never(node)


def _radices(loop: Loop) -> tuple[int, ...]:
    """The divisors to split by, ascending, each a multiple of the one before."""
    if loop.lo.terms or loop.hi.terms:
        return ()
    lo, hi = loop.lo.constant, loop.hi.constant
    chain: list[int] = []
    for divisor in sorted(set(_divisors(loop.body, loop.iterator))):
        fits = lo % divisor == 0 and hi % divisor == 0 and 1 < divisor < hi - lo
        if fits and (not chain or divisor % chain[-1] == 0):
            chain.append(divisor)
    return tuple(chain)


def _divisors(nodes: Nodes, name: Sym) -> Iterator[int]:
    for form in forms(nodes):
        yield from divisors(form, name)


def _digits(loop: Loop, radices: tuple[int, ...], ranges: dict[Sym, Range]) -> Loop:
    """The loop as a nest of loops over its digits, the least significant innermost."""
    top = radices[-1]
    lo, hi = loop.lo.constant // top, loop.hi.constant // top
    bounds = [(lo, hi, top)]
    for smaller, larger in reversed(list(zip((1, *radices[:-1]), radices, strict=True))):
        bounds.append((0, larger // smaller, smaller))
    digits = [Sym(loop.iterator.name) for _ in bounds]
    for digit, (least, end, _) in zip(digits, bounds, strict=True):
        ranges[digit] = Range(least, end - 1)
    weighted = ((w, variable(d)) for d, (_, _, w) in zip(digits, bounds, strict=True))
    values = {loop.iterator: combine(*weighted)}
    body = map_forms(loop.body, lambda form: substitute(form, values, ranges), ranges)
    for digit, (least, end, _) in reversed(list(zip(digits, bounds, strict=True))):
        body = (Loop(digit, Affine(least), Affine(end), body),)
    nest = body[0]
    assert isinstance(nest, Loop)
    return nest


# --- every form of a program --------------------------------------------------------------


def forms(nodes: Nodes) -> Iterator[Affine]:
    """The forms that a program evaluates."""
    for node in nodes:
        match node:
            case Loop():
                yield from (node.lo, node.hi)
                yield from forms(node.body)
            case Guard():
                yield from _test_forms(node.test)
                yield from forms((*node.body, *node.orelse))
            case Store():
                for place in (node.target, *loads(node.value)):
                    yield from (*place.dims, *place.clips)
            case Demand():
                yield from _test_forms(node.test)
            case Allocate():
                pass
            case _:
                assert_never(node)


def _test_forms(test: Test) -> Iterator[Affine]:
    match test:
        case Condition():
            yield test.form
        case AllOf() | AnyOf():
            for part in test.parts:
                yield from _test_forms(part)
        case _:
            assert_never(test)


def loads(value: Value) -> Iterator[Place]:
    """The places that a value reads."""
    match value:
        case Literal():
            pass
        case Load():
            yield value.place
        case Operation():
            for argument in value.arguments:
                yield from loads(argument)
        case Convert():
            yield from loads(value.term)
        case _:
            assert_never(value)


def map_forms(nodes: Nodes, change: Change, ranges: dict[Sym, Range]) -> Nodes:
    """The program with every form changed, checks dropped that no longer can fail."""
    return tuple(_map_node(node, change, ranges) for node in nodes)


def _map_node(node: Node, change: Change, ranges: dict[Sym, Range]) -> Node:
    match node:
        case Loop():
            body = map_forms(node.body, change, ranges)
            return replace(node, lo=change(node.lo), hi=change(node.hi), body=body)
        case Guard():
            body, orelse = (map_forms(b, change, ranges) for b in (node.body, node.orelse))
            return Guard(_map_test(node.test, change), body, orelse)
        case Store():
            target = _map_place(node.target, change, ranges)
            return replace(node, target=target, value=_map_value(node.value, change, ranges))
        case Demand():
            return replace(node, test=_map_test(node.test, change))
        case Allocate():
            return node
        case _:
            assert_never(node)


def _map_test(test: Test, change: Change) -> Test:
    match test:
        case Condition():
            return Condition(change(test.form), test.equality)
        case AllOf():
            return AllOf(tuple(_map_test(p, change) for p in test.parts))
        case AnyOf():
            return AnyOf(tuple(_map_test(p, change) for p in test.parts))
        case _:
            assert_never(test)


def _map_place(place: Place, change: Change, ranges: dict[Sym, Range]) -> Place:
    checks = (Check(c.name, c.dimension, change(c.index), change(c.extent)) for c in place.checks)
    clips = (change(form) for form in place.clips)
    return replace(
        place,
        dims=tuple(change(d) for d in place.dims),
        checks=tuple(c for c in checks if may_fail(c, ranges)),
        clips=tuple(form for form in clips if interval(form, ranges)[0] < 0),
    )


def may_fail(check: Check, ranges: dict[Sym, Range]) -> bool:
    """Tests whether the iterators' intervals alone leave room for an access out of range."""
    last = combine((1, check.extent), (-1, check.index), constant=-1)
    return interval(check.index, ranges)[0] < 0 or interval(last, ranges)[0] < 0


def _map_value(value: Value, change: Change, ranges: dict[Sym, Range]) -> Value:
    match value:
        case Literal():
            return value
        case Load():
            return Load(_map_place(value.place, change, ranges), value.dtype)
        case Operation():
            arguments = tuple(_map_value(a, change, ranges) for a in value.arguments)
            return replace(value, arguments=arguments)
        case Convert():
            return Convert(_map_value(value.term, change, ranges), value.dtype)
        case _:
            assert_never(value)
