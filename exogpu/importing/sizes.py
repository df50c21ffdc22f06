"""The sizes of an imported kernel: how often its loops run.

Any trip count is as good as another for what is proved, so a trip count becomes a size by itself.
Counts that differ by a constant, and what else depends on them, are written in one size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from exogpu.importing import events as ev
from exogpu.importing.proving import between, equal, follows
from exogpu.importing.refusing import unknown_value
from exogpu.importing.rewriting import rewritten, values_of
from exogpu.importing.translate import Trips
from exogpu.importing.values import (
    TRUE,
    Atom,
    Compare,
    Condition,
    Value,
    Variable,
    both,
    compare,
    condition_atoms,
    negation,
    of,
    replaced_in,
    whole,
)


@dataclass(frozen=True, slots=True)
class Size:
    """A size: the trip count of a loop, of any value."""

    variable: Variable
    trips: Trips
    least: int
    """Fewer are not covered, since a loop after a peeled prologue would run a negative number."""


@dataclass(frozen=True, slots=True)
class Sized:
    """Items that are written in sizes."""

    items: tuple[ev.Item, ...]
    sizes: tuple[Size, ...]


def in_sizes(items: tuple[ev.Item, ...], trips: Mapping[Variable, Trips]) -> Sized:
    """The items with every trip count written in sizes.

    Raises RefusedError (K103) where a count of fewer than no iterations would have another effect
    than none.
    """
    used = set(_used(items))
    groups: dict[Value, list[Variable]] = {}
    for variable, one in trips.items():
        if variable in used:
            groups.setdefault(one.value - one.value.offset, []).append(variable)
    by: dict[Atom, Value] = {}
    sizes: list[Size] = []
    written = set(_written(items))
    for members in groups.values():
        longest = max(members, key=lambda one: trips[one].value.offset)
        least = 0
        for member in members:
            less = trips[longest].value.offset - trips[member].value.offset
            by[member] = of(longest) - less
            if member in written:
                least = max(least, less)
        if (leading := _leading(trips[longest].value)) is not None:
            _check_short(items, leading, trips[longest].value, longest)
            by[leading[0]] = (of(longest) - trips[longest].value) * leading[1] + of(leading[0])
        sizes.append(Size(longest, trips[longest], least))
    return Sized(rewritten(items, by), tuple(sizes))


def _used(items: Sequence[ev.Item]) -> Iterator[Variable]:
    for item in items:
        if isinstance(item, ev.Loop):
            yield from item.trips.variables()
            yield from _used(item.body)
    yield from _written(items)


def _written(items: Sequence[ev.Item]) -> Iterator[Variable]:
    """The variables of guards, slots and phases."""
    for item in items:
        match item:
            case ev.Loop():
                yield from _written(item.body)
            case ev.Step():
                for atom in _atoms(item):
                    if isinstance(atom, Variable):
                        yield atom


def _atoms(step: ev.Step) -> Iterator[Atom]:
    for value in values_of(step.event):
        yield from value.atoms()
    yield from condition_atoms(step.guard)


def _leading(value: Value) -> tuple[Atom, int] | None:
    """An atom that is a term of the value by itself, with its sign, to be written in the size."""
    for product, factor in value.terms:
        if len(product) == 1 and factor in (1, -1):
            rest = value - of(product[0]) * factor
            if product[0] not in set(rest.atoms()):
                return product[0], factor
    return None


def _check_short(
    items: Sequence[ev.Item],
    leading: tuple[Atom, int],
    value: Value,
    size: Variable,
    facts: tuple[Condition, ...] = (),
) -> None:
    """That a negative count has the effect of none, where the count is written but in loops."""
    negative = compare("<=", value + 1)
    none = {leading[0]: of(leading[0]) - value * leading[1]}
    for item in items:
        match item:
            case ev.Loop():
                inside = (*facts, *between(0, of(item.counter), item.trips))
                if size not in item.trips.variables():
                    _check_short(item.body, leading, value, size, inside)
            case ev.Step() if leading[0] in set(_atoms(item)):
                known = (*facts, negative)
                same = all(equal(known, v, v.replaced(none)) for v in values_of(item.event))
                if not same or not _equivalent(known, item.guard, replaced_in(item.guard, none)):
                    raise unknown_value(
                        "what happens depends on by how much a trip count is negative", item.span
                    )
            case ev.Step():
                pass


def _equivalent(facts: tuple[Condition, ...], one: Condition, other: Condition) -> bool:
    return follows((*facts, one), other) and follows((*facts, other), one)


def bounds(sizes: Sequence[Size]) -> Condition:
    """What is assumed of the sizes."""
    found: Condition = TRUE
    for size in sizes:
        found = both(found, Compare("<=", whole(size.least) - of(size.variable)))
    return negation(negation(found))
