"""Events with other values in place of variables, and the values that events have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

from exogpu.importing import polynomial_values, role_events
from exogpu.importing.induction import fitted
from exogpu.importing.memory import Window
from exogpu.importing.value_proofs import between_bounds, settled


def rewritten(
    items: tuple[role_events.Item, ...],
    by: Mapping[polynomial_values.Atom, polynomial_values.Value],
) -> tuple[role_events.Item, ...]:
    """The items with atoms replaced by values."""
    if not by:
        return items
    return tuple(_item(item, by) for item in items)


def _item(
    item: role_events.Item, by: Mapping[polynomial_values.Atom, polynomial_values.Value]
) -> role_events.Item:
    match item:
        case role_events.Loop():
            return replace(item, trips=item.trips.substitute(by), body=rewritten(item.body, by))
        case role_events.Step():
            guard = polynomial_values.replaced_in(item.guard, by)
            return replace(item, event=_record(item.event, by), guard=guard)


def _record(
    record: role_events.Event, by: Mapping[polynomial_values.Atom, polynomial_values.Value]
) -> role_events.Event:
    changed = {field.name: _part(getattr(record, field.name), by) for field in fields(record)}
    return replace(record, **changed)  # type: ignore[arg-type]


def _part(part: object, by: Mapping[polynomial_values.Atom, polynomial_values.Value]) -> object:
    match part:
        case polynomial_values.Value():
            return part.substitute(by)
        case (
            polynomial_values.Compare()
            | polynomial_values.Negation()
            | polynomial_values.Both()
            | polynomial_values.Unread()
            | polynomial_values.Known()
        ):
            return polynomial_values.replaced_in(part, by)
        case Window():
            slot = None if part.slot is None else part.slot.substitute(by)
            return replace(part, first=part.first.substitute(by), slot=slot)
        case role_events.Slot():
            return replace(part, index=part.index.substitute(by))
        case tuple():
            return tuple(_part(one, by) for one in part)
        case _:
            return part


def simplified(
    items: tuple[role_events.Item, ...], facts: tuple[polynomial_values.Condition, ...] = ()
) -> tuple[role_events.Item, ...]:
    """The items with affine forms of what is not written so, where they are proved equal."""
    made: list[role_events.Item] = []
    for item in items:
        match item:
            case role_events.Loop():
                inside = (
                    *facts,
                    *between_bounds(0, polynomial_values.atom_value(item.counter), item.trips),
                )
                made.append(replace(item, body=simplified(item.body, inside)))
            case role_events.Step():
                known = facts if item.guard == polynomial_values.TRUE else (*facts, item.guard)
                by: dict[polynomial_values.Atom, polynomial_values.Value] = {}
                for value in values_of(item.event):
                    for atom in value.atoms():
                        if isinstance(atom, polynomial_values.Toward):
                            by[atom] = settled(polynomial_values.atom_value(atom), known)
                        if isinstance(
                            atom, polynomial_values.Toward | polynomial_values.Choice
                        ) and by.get(
                            atom, polynomial_values.atom_value(atom)
                        ) == polynomial_values.atom_value(atom):
                            by[atom] = fitted(atom, known) or polynomial_values.atom_value(atom)
                made.append(replace(item, event=_record(item.event, by)) if by else item)
    return tuple(made)


def values_of(event: role_events.Event) -> Iterator[polynomial_values.Value]:
    """The values that decide what an event does; coordinates in global memory do not."""
    for field in fields(event):
        part = getattr(event, field.name)
        for one in part if isinstance(part, tuple) and field.name != "coordinates" else (part,):
            match one:
                case polynomial_values.Value():
                    yield one
                case Window():
                    yield one.first
                case role_events.Slot():
                    yield one.index
                case _:
                    pass


def conditions_in(condition: polynomial_values.Condition) -> Iterator[polynomial_values.Condition]:
    """The conjuncts of a condition."""
    match condition:
        case polynomial_values.Both():
            yield from conditions_in(condition.first)
            yield from conditions_in(condition.second)
        case _:
            yield condition
