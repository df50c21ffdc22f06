"""Finds the variables that a rewriting is about: of the others nothing has changed.

A variable is untouched if the same statements access it, each as itself, at the same instances and
elements, and in the same order among each other, and if no other statement stands for its elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exogpu.ir.names import Sym
from exogpu.schedule.events import Place, Program, Time
from exogpu.schedule.rewrite import Copy, Image


def touched(
    old: Program,
    new: Program,
    pairs: Iterable[tuple[Place, Place, Image]],
    copies: Iterable[tuple[Place, Copy]],
) -> frozenset[Sym]:
    """The variables of which anything may have changed; `pairs` are new and old statements."""
    found: set[Sym] = set()
    itself: set[str] = set()
    for place, was, image in pairs:
        if place.site == was.site and image == Image(image.old, inside=image.inside):
            itself.add(place.name)
        else:
            found |= {e.access.name for e in (*place.events, *was.events)}
    for place, copy in copies:
        found |= {copy.element.name, *(e.access.name for e in place.events)}
    for place in new.places:
        if place.name not in itself:
            found |= {e.access.name for e in place.events}
    before, after = _by_variable(old), _by_variable(new)
    for name in (old.variables.keys() | new.variables.keys()) - found:
        a, b = before.get(name, []), after.get(name, [])
        same = old.variables.get(name) == new.variables.get(name)
        if not same or _described(a, name) != _described(b, name):
            found.add(name)
    return frozenset(found)


def _by_variable(program: Program) -> dict[Sym, list[Place]]:
    found: dict[Sym, list[Place]] = {}
    for place in program.places:
        for name in dict.fromkeys(e.access.name for e in place.events):
            found.setdefault(name, []).append(place)
    return found


def _described(places: Sequence[Place], name: Sym) -> list[object]:
    """All that counts of the accesses of a variable."""
    times = _compressed([place.time for place in places])
    return [
        (
            place.site,
            place.domain,
            time,
            [(n, e.access, e.within) for n, e in enumerate(place.events) if e.access.name == name],
        )
        for place, time in zip(places, times, strict=True)
    ]


def _compressed(times: Sequence[Time]) -> list[Time]:
    """Times in the same order, without what all have, and with small numbers."""
    depth = max(map(len, times), default=0)
    padded = [(*time, *["0"] * (depth - len(time))) for time in times]
    columns: list[list[str]] = []
    for column in zip(*padded, strict=True):
        numbers = sorted({int(c) for c in column if c.isdigit()})
        ranks = {str(number): str(rank) for rank, number in enumerate(numbers)}
        if len(numbers) > 1 or not all(c.isdigit() for c in column):
            columns.append([ranks.get(c, c) for c in column])
    return [tuple(row) for row in zip(*columns, strict=True)] if columns else [()] * len(times)
