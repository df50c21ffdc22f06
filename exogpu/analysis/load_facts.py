"""What two values from memory have to do with each other (decision 32): two loads of one element
have one value, and a contract on an array orders them, or tells them apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from exogpu.ir.nodes import BExpr, Compare, Contract, CVar, For, Loaded, Or, Point


def told(load: For, others: Iterable[For], contracts: Sequence[Contract]) -> Iterator[BExpr]:
    """Conditions on the value of a load and on those of others around it."""
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
        apart: list[BExpr] = [Compare("!=", a, b) for a, b in zip(at, there, strict=True) if a != b]
        same: BExpr = Compare("==", value, before)
        yield reduce(Or, apart, same)
        for kind in of:
            (i,), (j,) = at, there
            match kind:
                case "monotone":
                    yield Or(Compare(">", i, j), Compare("<=", value, before))
                    yield Or(Compare("<", i, j), Compare(">=", value, before))
                case "injective":
                    yield Or(Compare("==", i, j), Compare("!=", value, before))
