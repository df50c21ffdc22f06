"""The sizes of an imported kernel: how often its loops run.

Any trip count is as good as another for what is proved, so a trip count becomes a size by itself.
Counts that differ by a constant, and what else depends on them, are written in one size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from exogpu.importing import polynomial_values, role_events
from exogpu.importing.mbarrier_rings import steps
from exogpu.importing.persistent_rings import is_affine
from exogpu.importing.role_events import Kernel, Trips
from exogpu.importing.substitution import rewritten, values_of
from exogpu.importing.value_proofs import between_bounds, equal, follows

PROGRAM: Final = re.compile(r"program\d")
"""The names of program ids."""

MOST: Final = 9
"""Iterations that the guards of a prologue are compared with, and one."""


@dataclass(frozen=True, slots=True)
class Size:
    """A size: the trip count of a loop, of any value."""

    variable: polynomial_values.Variable
    trips: Trips
    least: int
    """Fewer are not covered, since a loop after a peeled prologue would run a negative number."""

    @property
    def greatest(self) -> int | None:
        """The greatest number that there is: 1 for a branch."""
        return 1 if self.variable.bit else None

    def includes(self, number: int) -> bool:
        """Returns whether it may be this number, as far as its range tells."""
        return self.least <= number and (self.greatest is None or number <= self.greatest)


@dataclass(frozen=True, slots=True)
class Sized:
    """A kernel that is written in sizes."""

    kernel: Kernel
    sizes: tuple[Size, ...]
    assumed: tuple[polynomial_values.Value, ...]
    """Trip counts as they were written, which are taken not to be negative."""


def in_sizes(kernel: Kernel) -> Sized:
    """The kernel with every trip count written in sizes."""
    groups_of_items = (kernel.before, *(role.items for role in kernel.roles), kernel.after)
    used = {one for items in groups_of_items for one in _variables_used(items)}
    written = {one for items in groups_of_items for one in _guard_variables(items)}
    written |= {one for items in groups_of_items for one in _variables_counted(items)}
    groups: dict[polynomial_values.Value, list[polynomial_values.Variable]] = {}
    by: dict[polynomial_values.Atom, polynomial_values.Value] = {}
    for variable, one in kernel.trips.items():
        if variable not in used:
            continue
        if _of_program(one.value):
            by[variable] = one.value
        else:
            groups.setdefault(one.value - one.value.offset, []).append(variable)
    by |= (multiples := _multiples(groups, kernel))
    groups = {value: some for value, some in groups.items() if some[0] not in multiples}
    sizes: list[Size] = []
    assumed: list[polynomial_values.Value] = []
    for members in groups.values():
        longest = max(members, key=lambda one: kernel.trips[one].value.offset)
        value, least = kernel.trips[longest].value, 0
        for member in members:
            less = value.offset - kernel.trips[member].value.offset
            by[member] = polynomial_values.atom_value(longest) - less
            if member in written:
                least = max(least, less)
        if (leading := _leading(value)) is not None:
            if not polynomial_values.is_natural(value) and not all(
                _short(items, leading, value, longest) for items in groups_of_items
            ):
                assumed.append(value)
            by[leading[0]] = (polynomial_values.atom_value(longest) - value) * leading[
                1
            ] + polynomial_values.atom_value(leading[0])
        sizes.append(Size(longest, kernel.trips[longest], least))

    def sized(items: tuple[role_events.Item, ...]) -> tuple[role_events.Item, ...]:
        return rewritten(_by_trips(items, sizes, None), by)

    roles = tuple(replace(role, items=sized(role.items)) for role in kernel.roles)
    made = replace(kernel, before=sized(kernel.before), roles=roles, after=sized(kernel.after))
    return Sized(made, tuple(sizes), tuple(assumed))


def _multiples(
    groups: Mapping[polynomial_values.Value, Sequence[polynomial_values.Variable]], kernel: Kernel
) -> dict[polynomial_values.Atom, polynomial_values.Value]:
    """The trip counts that are multiples of another one, which is no multiple itself."""
    alone = {
        value: some[0]
        for value, some in groups.items()
        if len(some) == 1 and kernel.trips[some[0]].value.offset == 0
    }
    found: dict[polynomial_values.Atom, polynomial_values.Value] = {}
    for value, variable in alone.items():
        for other, one in alone.items():
            times = _times(value, other)
            if times is not None and not any(_times(other, third) for third in alone):
                found[variable] = polynomial_values.atom_value(one) * times
    return found


def _times(value: polynomial_values.Value, other: polynomial_values.Value) -> int | None:
    """Returns the number over 1 by which another value is multiplied in this one; None if none."""
    for times in range(2, MOST):
        if other.terms and value == other * times:
            return times
    return None


def _of_program(value: polynomial_values.Value) -> bool:
    """Returns whether a trip count is an expression of program ids, and so no size."""
    variables = value.variables()
    named = all(PROGRAM.fullmatch(one.name) for one in variables)
    return bool(variables) and named and is_affine(value) and polynomial_values.is_natural(value)


def _by_trips(
    items: tuple[role_events.Item, ...], sizes: Sequence[Size], within: Size | None
) -> tuple[role_events.Item, ...]:
    """The items whose guards compare sizes, where they compare what these are made of; `within` is
    the size of a loop around, whose trip count is not negative there."""
    made: list[role_events.Item] = []
    for item in items:
        match item:
            case role_events.Loop():
                own = [
                    one for one in sizes if polynomial_values.atom_value(one.variable) == item.trips
                ]
                inside = own[0] if own else within
                made.append(replace(item, body=_by_trips(item.body, sizes, inside)))
            case role_events.Step() if item.guard != polynomial_values.TRUE:
                made.append(replace(item, guard=_guard(item.guard, sizes, within)))
            case role_events.Step():
                made.append(item)
    return tuple(made)


def _guard(
    guard: polynomial_values.Condition, sizes: Sequence[Size], within: Size | None
) -> polynomial_values.Condition:
    match guard:
        case polynomial_values.Both():
            return polynomial_values.both_hold(
                _guard(guard.first, sizes, within), _guard(guard.second, sizes, within)
            )
        case polynomial_values.Compare():
            if within is not None:
                guard = replace(guard, value=_in_size(guard.value, within))
            for size in sizes:
                value = size.trips.value
                known = {
                    one for one in value.atoms() if isinstance(one, polynomial_values.Variable)
                }
                if not set(guard.value.variables()) <= known:
                    continue
                for least in range(1, MOST):
                    enough = polynomial_values.compare(
                        "<=", polynomial_values.integer_value(least) - value
                    )
                    count = polynomial_values.atom_value(size.variable)
                    written = polynomial_values.compare("<=", count * -1 + least)
                    if _equivalent((), guard, enough):
                        return written
                    if _equivalent((), guard, polynomial_values.negation(enough)):
                        return polynomial_values.negation(written)
            return guard
        case _:
            return guard


def _in_size(value: polynomial_values.Value, size: Size) -> polynomial_values.Value:
    """A value in a loop of this size, written in it where that has fewer terms."""
    count = polynomial_values.atom_value(size.variable) - size.trips.value
    return min((value + count * times for times in (0, 1, -1)), key=_further_terms)


def _further_terms(value: polynomial_values.Value) -> int:
    """Counts the terms that are no multiples of a variable."""
    plain = polynomial_values.Variable
    return sum(len(p) > 1 or any(not isinstance(a, plain) for a in p) for p, _ in value.terms)


def _variables_used(items: Sequence[role_events.Item]) -> Iterator[polynomial_values.Variable]:
    for item in items:
        if isinstance(item, role_events.Loop):
            yield from item.trips.variables()
            yield from _variables_used(item.body)
    yield from _guard_variables(items)


def _variables_counted(items: Sequence[role_events.Item]) -> Iterator[polynomial_values.Variable]:
    """The trip counts by which waits and arrivals are counted: a negative one would count less."""
    for item in items:
        if isinstance(item, role_events.Loop):
            if any(isinstance(s.event, _COUNTED) for s in steps(item.body)):
                yield from item.trips.variables()
            yield from _variables_counted(item.body)


_COUNTED: Final = (role_events.Wait, role_events.Signal, role_events.Expect)


def _guard_variables(items: Sequence[role_events.Item]) -> Iterator[polynomial_values.Variable]:
    """The variables of guards, slots and phases."""
    for item in items:
        match item:
            case role_events.Loop():
                yield from _guard_variables(item.body)
            case role_events.Step():
                for atom in _atoms(item):
                    if isinstance(atom, polynomial_values.Variable):
                        yield atom


def _atoms(step: role_events.Step) -> Iterator[polynomial_values.Atom]:
    for value in values_of(step.event):
        yield from value.atoms()
    yield from polynomial_values.condition_atoms(step.guard)


def _leading(value: polynomial_values.Value) -> tuple[polynomial_values.Atom, int] | None:
    """An atom that is a term of the value by itself, with its sign, to be written in the size."""
    for product, factor in value.terms:
        if len(product) == 1 and factor in (1, -1):
            rest = value - polynomial_values.atom_value(product[0]) * factor
            if product[0] not in set(rest.atoms()):
                return product[0], factor
    return None


def _short(
    items: Sequence[role_events.Item],
    leading: tuple[polynomial_values.Atom, int],
    value: polynomial_values.Value,
    size: polynomial_values.Variable,
    facts: tuple[polynomial_values.Condition, ...] = (),
) -> bool:
    """Returns whether a negative count has the effect of none, outside of its loops."""
    negative = polynomial_values.compare("<=", value + 1)
    none = {leading[0]: polynomial_values.atom_value(leading[0]) - value * leading[1]}
    for item in items:
        match item:
            case role_events.Loop():
                inside = (
                    *facts,
                    *between_bounds(0, polynomial_values.atom_value(item.counter), item.trips),
                )
                own = size in item.trips.variables()
                if not own and not _short(item.body, leading, value, size, inside):
                    return False
            case role_events.Step() if leading[0] in set(_atoms(item)):
                known = (*facts, negative)
                same = all(equal(known, v, v.substitute(none)) for v in values_of(item.event))
                if not same or not _equivalent(
                    known, item.guard, polynomial_values.replaced_in(item.guard, none)
                ):
                    return False
            case role_events.Step():
                pass
    return True


def _equivalent(
    facts: tuple[polynomial_values.Condition, ...],
    one: polynomial_values.Condition,
    other: polynomial_values.Condition,
) -> bool:
    return follows((*facts, one), other) and follows((*facts, other), one)


def possible(sizes: Sequence[Size], at: Mapping[str, int]) -> bool:
    """Returns whether trip counts of these numbers may occur together; True if that is not known.

    A count of 0 stands for negative ones, too.
    """
    facts: list[polynomial_values.Condition] = []
    for size in sizes:
        count = at.get(size.variable.name)
        if count is not None:
            op: Literal["==", "<="] = "==" if count else "<="
            facts.append(polynomial_values.compare(op, size.trips.value - count))
    return not follows(facts, polynomial_values.FALSE)
