"""Relations between two values from memory (decision `loaded-values`): two loads of one element
have one value, and a contract on an array orders them, or makes them differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from exogpu.analysis.affine import difference
from exogpu.ir.nodes import BExpr, Compare, Contract, CVar, For, Loaded, Or, Point
from exogpu.ir.walk import compare


def told(load: For, others: Iterable[For], contracts: Sequence[Contract]) -> Iterator[BExpr]:
    """Conditions on the value of a load and on those of others around it; not those that hold
    whatever the values, as of two elements next to each other."""
    assert isinstance(load.mode, Loaded)
    source, value = load.mode.source, CVar(load.iterator)
    of = {one.kind for one in contracts if one.array == source.name}
    for other in others:
        assert isinstance(other.mode, Loaded)
        if other.mode.source.name != source.name:
            continue
        before = CVar(other.iterator)
        at = [one.at for one in source.coords if isinstance(one, Point)]
        there = [one.at for one in other.mode.source.coords if isinstance(one, Point)]
        apart = [Compare("!=", a, b) for a, b in zip(at, there, strict=True)]
        yield from _one_of(*apart, Compare("==", value, before))
        for kind in of:
            (i,), (j,) = at, there
            match kind:
                case "monotone":
                    yield from _one_of(Compare(">", i, j), Compare("<=", value, before))
                    yield from _one_of(Compare("<", i, j), Compare(">=", value, before))
                case "injective":
                    yield from _one_of(Compare("==", i, j), Compare("!=", value, before))


def _one_of(*conditions: Compare) -> Iterator[BExpr]:
    """Yields the disjunction of the conditions without those that surely fail; nothing if one
    before the last surely holds."""
    *others, last = conditions
    conclusion: BExpr = last
    left: list[BExpr] = []
    for one in others:
        apart = difference(one.left, one.right)
        if apart is None:
            left.append(one)
        elif compare(one.op, apart, 0):
            return
    yield reduce(Or, left, conclusion)
