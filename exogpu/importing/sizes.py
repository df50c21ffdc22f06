"""The sizes of an imported kernel: how often its loops run.

Any trip count is as good as another for what is proved, so a trip count becomes a size by itself.
Counts that differ by a constant, and what else depends on them, are written in one size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from exogpu.importing import events as ev
from exogpu.importing.kernel import Kernel, Trips
from exogpu.importing.proving import between, equal, follows
from exogpu.importing.rewriting import rewritten, values_of
from exogpu.importing.running import is_affine
from exogpu.importing.values import (
    FALSE,
    TRUE,
    Atom,
    Both,
    Compare,
    Condition,
    Value,
    Variable,
    both,
    compare,
    condition_atoms,
    is_natural,
    negation,
    of,
    replaced_in,
    whole,
)

PROGRAM: Final = re.compile(r"program\d")
"""The names of program ids."""

MOST: Final = 9
"""Iterations that the guards of a prologue are compared with, and one."""


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
    by: dict[Atom, Value] = {}
    for variable, one in kernel.trips.items():
        if variable not in used:
            continue
        if _of_program(one.value):
            by[variable] = one.value
        else:
            groups.setdefault(one.value - one.value.offset, []).append(variable)
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

    def sized(items: tuple[ev.Item, ...]) -> tuple[ev.Item, ...]:
        return rewritten(_by_trips(items, [size.trips.value for size in sizes]), by)

    roles = tuple(replace(role, items=sized(role.items)) for role in kernel.roles)
    made = replace(kernel, before=sized(kernel.before), roles=roles, after=sized(kernel.after))
    return Sized(made, tuple(sizes), tuple(assumed))


def _of_program(value: Value) -> bool:
    """Returns whether a trip count is an expression of program ids, and so no size."""
    variables = value.variables()
    named = all(PROGRAM.fullmatch(one.name) for one in variables)
    return bool(variables) and named and is_affine(value) and is_natural(value)


def _by_trips(items: tuple[ev.Item, ...], trips: Sequence[Value]) -> tuple[ev.Item, ...]:
    """The items whose guards compare trip counts, where they compare what these are made of."""
    made: list[ev.Item] = []
    for item in items:
        match item:
            case ev.Loop():
                made.append(replace(item, body=_by_trips(item.body, trips)))
            case ev.Step() if item.guard != TRUE:
                made.append(replace(item, guard=_guard(item.guard, trips)))
            case ev.Step():
                made.append(item)
    return tuple(made)


def _guard(guard: Condition, trips: Sequence[Value]) -> Condition:
    match guard:
        case Both():
            return both(_guard(guard.first, trips), _guard(guard.second, trips))
        case Compare():
            for value in trips:
                known = {one for one in value.atoms() if isinstance(one, Variable)}
                if not set(guard.value.variables()) <= known:
                    continue
                for least in range(1, MOST):
                    enough = compare("<=", whole(least) - value)
                    if _equivalent((), guard, enough):
                        return enough
                    if _equivalent((), guard, negation(enough)):
                        return negation(enough)
            return guard
        case _:
            return guard


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
    """Returns whether a negative count has the effect of none, outside of its loops."""
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


def possible(sizes: Sequence[Size], at: Mapping[str, int]) -> bool:
    """Returns whether trip counts of these numbers may occur together; True if that is not known.

    A count of 0 stands for negative ones, too.
    """
    facts: list[Condition] = []
    for size in sizes:
        count = at.get(size.variable.name)
        if count is not None:
            op: Literal["==", "<="] = "==" if count else "<="
            facts.append(compare(op, size.trips.value - count))
    return not follows(facts, FALSE)
