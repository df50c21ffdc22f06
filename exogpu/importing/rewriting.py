"""Events with other values in place of variables, and the values that events have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

from exogpu.importing import events as ev
from exogpu.importing.induction import fitted
from exogpu.importing.memory import Window
from exogpu.importing.proving import between, settled
from exogpu.importing.values import (
    TRUE,
    Atom,
    Both,
    Choice,
    Compare,
    Condition,
    Known,
    Negation,
    Toward,
    Unread,
    Value,
    of,
    replaced_in,
)


def rewritten(items: tuple[ev.Item, ...], by: Mapping[Atom, Value]) -> tuple[ev.Item, ...]:
    """The items with atoms replaced by values."""
    if not by:
        return items
    return tuple(_item(item, by) for item in items)


def _item(item: ev.Item, by: Mapping[Atom, Value]) -> ev.Item:
    match item:
        case ev.Loop():
            return replace(item, trips=item.trips.replaced(by), body=rewritten(item.body, by))
        case ev.Step():
            guard = replaced_in(item.guard, by)
            return replace(item, event=_record(item.event, by), guard=guard)


def _record(record: ev.Event, by: Mapping[Atom, Value]) -> ev.Event:
    changed = {field.name: _part(getattr(record, field.name), by) for field in fields(record)}
    return replace(record, **changed)  # type: ignore[arg-type]


def _part(part: object, by: Mapping[Atom, Value]) -> object:
    match part:
        case Value():
            return part.replaced(by)
        case Compare() | Negation() | Both() | Unread() | Known():
            return replaced_in(part, by)
        case Window():
            slot = None if part.slot is None else part.slot.replaced(by)
            return replace(part, first=part.first.replaced(by), slot=slot)
        case ev.Slot():
            return replace(part, index=part.index.replaced(by))
        case tuple():
            return tuple(_part(one, by) for one in part)
        case _:
            return part


def simplified(
    items: tuple[ev.Item, ...], facts: tuple[Condition, ...] = ()
) -> tuple[ev.Item, ...]:
    """The items with affine forms of what is not written so, where they are proved equal."""
    made: list[ev.Item] = []
    for item in items:
        match item:
            case ev.Loop():
                inside = (*facts, *between(0, of(item.counter), item.trips))
                made.append(replace(item, body=simplified(item.body, inside)))
            case ev.Step():
                known = facts if item.guard == TRUE else (*facts, item.guard)
                by: dict[Atom, Value] = {}
                for value in values_of(item.event):
                    for atom in value.atoms():
                        if isinstance(atom, Toward):
                            by[atom] = settled(of(atom), known)
                        if isinstance(atom, Toward | Choice) and by.get(atom, of(atom)) == of(atom):
                            by[atom] = fitted(atom, known) or of(atom)
                made.append(replace(item, event=_record(item.event, by)) if by else item)
    return tuple(made)


def values_of(event: ev.Event) -> Iterator[Value]:
    """The values that decide what an event does; coordinates in global memory do not."""
    for field in fields(event):
        part = getattr(event, field.name)
        for one in part if isinstance(part, tuple) and field.name != "coordinates" else (part,):
            match one:
                case Value():
                    yield one
                case Window():
                    yield one.first
                case ev.Slot():
                    yield one.index
                case _:
                    pass


def conditions_in(condition: Condition) -> Iterator[Condition]:
    """The conjuncts of a condition."""
    match condition:
        case Both():
            yield from conditions_in(condition.first)
            yield from conditions_in(condition.second)
        case _:
            yield condition
