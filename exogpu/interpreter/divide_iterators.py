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

from exogpu.interpreter import program
from exogpu.ir import affine
from exogpu.ir.types import Sym

Change: TypeAlias = Callable[[affine.Affine], affine.Affine]


def split_digits(nodes: program.Nodes, ranges: dict[Sym, affine.Range]) -> program.Nodes:
    """The program with divided iterators split where their divisors divide one another."""
    return tuple(_split(node, ranges) for node in nodes)


def _split(node: program.Node, ranges: dict[Sym, affine.Range]) -> program.Node:
    match node:
        case program.Loop():
            radices = _radices(node)
            if radices:
                node = _digits(node, radices, ranges)
            return replace(node, body=split_digits(node.body, ranges))
        case program.Guard():
            body, orelse = (split_digits(b, ranges) for b in (node.body, node.orelse))
            return program.Guard(node.test, body, orelse)
        case program.Store() | program.Allocate() | program.Demand():
            return node
        case _:
            assert_never(node)


def _radices(loop: program.Loop) -> tuple[int, ...]:
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


def _divisors(nodes: program.Nodes, name: Sym) -> Iterator[int]:
    for form in forms(nodes):
        yield from affine.divisors(form, name)


def _digits(
    loop: program.Loop, radices: tuple[int, ...], ranges: dict[Sym, affine.Range]
) -> program.Loop:
    """The loop as a nest of loops over its digits, the least significant innermost."""
    top = radices[-1]
    lo, hi = loop.lo.constant // top, loop.hi.constant // top
    bounds = [(lo, hi, top)]
    for smaller, larger in reversed(list(zip((1, *radices[:-1]), radices, strict=True))):
        bounds.append((0, larger // smaller, smaller))
    digits = [Sym(loop.iterator.name) for _ in bounds]
    for digit, (least, end, _) in zip(digits, bounds, strict=True):
        ranges[digit] = affine.Range(least, end - 1)
    weighted = ((w, affine.variable(d)) for d, (_, _, w) in zip(digits, bounds, strict=True))
    values = {loop.iterator: affine.combine(*weighted)}
    body = map_forms(loop.body, lambda form: affine.substitute(form, values, ranges), ranges)
    for digit, (least, end, _) in reversed(list(zip(digits, bounds, strict=True))):
        body = (program.Loop(digit, affine.Affine(least), affine.Affine(end), body),)
    nest = body[0]
    assert isinstance(nest, program.Loop)
    return nest


# --- every form of a program --------------------------------------------------------------


def forms(nodes: program.Nodes) -> Iterator[affine.Affine]:
    """The forms that a program evaluates."""
    for node in nodes:
        match node:
            case program.Loop():
                yield from (node.lo, node.hi)
                yield from forms(node.body)
            case program.Guard():
                yield from _test_forms(node.test)
                yield from forms((*node.body, *node.orelse))
            case program.Store():
                for place in (node.target, *loads(node.value)):
                    yield from (*place.dims, *place.clips)
            case program.Demand():
                yield from _test_forms(node.test)
            case program.Allocate():
                pass
            case _:
                assert_never(node)


def _test_forms(test: program.Test) -> Iterator[affine.Affine]:
    match test:
        case program.Condition():
            yield test.form
        case program.AllOf() | program.AnyOf():
            for part in test.parts:
                yield from _test_forms(part)
        case _:
            assert_never(test)


def loads(value: program.Value) -> Iterator[program.Place]:
    """The places that a value reads."""
    match value:
        case program.Literal():
            pass
        case program.Load():
            yield value.place
        case program.Operation():
            for argument in value.arguments:
                yield from loads(argument)
        case program.Convert():
            yield from loads(value.term)
        case _:
            assert_never(value)


def map_forms(
    nodes: program.Nodes, change: Change, ranges: dict[Sym, affine.Range]
) -> program.Nodes:
    """The program with every form changed, checks dropped that no longer can fail."""
    return tuple(_map_node(node, change, ranges) for node in nodes)


def _map_node(node: program.Node, change: Change, ranges: dict[Sym, affine.Range]) -> program.Node:
    match node:
        case program.Loop():
            body = map_forms(node.body, change, ranges)
            return replace(node, lo=change(node.lo), hi=change(node.hi), body=body)
        case program.Guard():
            body, orelse = (map_forms(b, change, ranges) for b in (node.body, node.orelse))
            return program.Guard(_map_test(node.test, change), body, orelse)
        case program.Store():
            target = _map_place(node.target, change, ranges)
            return replace(node, target=target, value=_map_value(node.value, change, ranges))
        case program.Demand():
            return replace(node, test=_map_test(node.test, change))
        case program.Allocate():
            return node
        case _:
            assert_never(node)


def _map_test(test: program.Test, change: Change) -> program.Test:
    match test:
        case program.Condition():
            return program.Condition(change(test.form), test.equality)
        case program.AllOf():
            return program.AllOf(tuple(_map_test(p, change) for p in test.parts))
        case program.AnyOf():
            return program.AnyOf(tuple(_map_test(p, change) for p in test.parts))
        case _:
            assert_never(test)


def _map_place(
    place: program.Place, change: Change, ranges: dict[Sym, affine.Range]
) -> program.Place:
    checks = (
        program.Check(c.name, c.dimension, change(c.index), change(c.extent)) for c in place.checks
    )
    clips = (change(form) for form in place.clips)
    return replace(
        place,
        dims=tuple(change(d) for d in place.dims),
        checks=tuple(c for c in checks if may_fail(c, ranges)),
        clips=tuple(form for form in clips if affine.interval(form, ranges)[0] < 0),
    )


def may_fail(check: program.Check, ranges: dict[Sym, affine.Range]) -> bool:
    """Tests whether the iterators' intervals alone leave room for an access out of range."""
    last = affine.combine((1, check.extent), (-1, check.index), constant=-1)
    return affine.interval(check.index, ranges)[0] < 0 or affine.interval(last, ranges)[0] < 0


def _map_value(
    value: program.Value, change: Change, ranges: dict[Sym, affine.Range]
) -> program.Value:
    match value:
        case program.Literal():
            return value
        case program.Load():
            return program.Load(_map_place(value.place, change, ranges), value.dtype)
        case program.Operation():
            arguments = tuple(_map_value(a, change, ranges) for a in value.arguments)
            return replace(value, arguments=arguments)
        case program.Convert():
            return program.Convert(_map_value(value.term, change, ranges), value.dtype)
        case _:
            assert_never(value)
