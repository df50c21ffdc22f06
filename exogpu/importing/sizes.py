"""The sizes of an imported kernel: how often its loops run.

Any trip count is as good as another for what is proved, so a trip count becomes a size by itself.
Counts that differ by a constant, and what else depends on them, are written in one size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from exogpu.importing import events as ev
from exogpu.importing.proving import between, equal, follows
from exogpu.importing.rewriting import rewritten, values_of
from exogpu.importing.translate import Kernel, Trips
from exogpu.importing.values import (
    Atom,
    Condition,
    Value,
    Variable,
    compare,
    condition_atoms,
    of,
    replaced_in,
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
    """A kernel that is written in sizes."""

    kernel: Kernel
    sizes: tuple[Size, ...]
    assumed: tuple[Value, ...]
    """Trip counts as they were written, which are taken not to be negative."""


def in_sizes(kernel: Kernel) -> Sized:
    """The kernel with every trip count written in sizes."""
    groups_of_items = (kernel.before, *(role.items for role in kernel.roles), kernel.after)
    used = {one for items in groups_of_items for one in _used(items)}
    written = {one for items in groups_of_items for one in _written(items)}
    groups: dict[Value, list[Variable]] = {}
    for variable, one in kernel.trips.items():
        if variable in used:
            groups.setdefault(one.value - one.value.offset, []).append(variable)
    by: dict[Atom, Value] = {}
    sizes: list[Size] = []
    assumed: list[Value] = []
    for members in groups.values():
        longest = max(members, key=lambda one: kernel.trips[one].value.offset)
        value, least = kernel.trips[longest].value, 0
        for member in members:
            less = value.offset - kernel.trips[member].value.offset
            by[member] = of(longest) - less
            if member in written:
                least = max(least, less)
        if (leading := _leading(value)) is not None:
            if not all(_short(items, leading, value, longest) for items in groups_of_items):
                assumed.append(value)
            by[leading[0]] = (of(longest) - value) * leading[1] + of(leading[0])
        sizes.append(Size(longest, kernel.trips[longest], least))
    roles = tuple(replace(role, items=rewritten(role.items, by)) for role in kernel.roles)
    before, after = rewritten(kernel.before, by), rewritten(kernel.after, by)
    made = replace(kernel, before=before, roles=roles, after=after)
    return Sized(made, tuple(sizes), tuple(assumed))


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


def _short(
    items: Sequence[ev.Item],
    leading: tuple[Atom, int],
    value: Value,
    size: Variable,
    facts: tuple[Condition, ...] = (),
) -> bool:
    """Whether a negative count has the effect of none, where it is written outside of its loops."""
    negative = compare("<=", value + 1)
    none = {leading[0]: of(leading[0]) - value * leading[1]}
    for item in items:
        match item:
            case ev.Loop():
                inside = (*facts, *between(0, of(item.counter), item.trips))
                own = size in item.trips.variables()
                if not own and not _short(item.body, leading, value, size, inside):
                    return False
            case ev.Step() if leading[0] in set(_atoms(item)):
                known = (*facts, negative)
                same = all(equal(known, v, v.replaced(none)) for v in values_of(item.event))
                if not same or not _equivalent(known, item.guard, replaced_in(item.guard, none)):
                    return False
            case ev.Step():
                pass
    return True


def _equivalent(facts: tuple[Condition, ...], one: Condition, other: Condition) -> bool:
    return follows((*facts, one), other) and follows((*facts, other), one)
