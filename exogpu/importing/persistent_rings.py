"""Rings that run on from tile to tile: their slots are counts, which are no affine expressions.

`bars[counter % n]`, whose counter goes on in the next iteration of an outer loop, is one mbarrier
ring of depth n.  Its slot is counted: by the arrivals so far, for who fills it, and by the waits
so far, for who reads it.  That the source's index is this count is proved for each event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial

from exogpu.importing import role_events
from exogpu.importing.mbarrier_rings import Count, counts
from exogpu.importing.memory import Window
from exogpu.importing.polynomial_values import (
    Atom,
    Floor,
    Remainder,
    Value,
    Variable,
    atom_value,
    integer_value,
    remainder,
)
from exogpu.importing.refusals import unknown_value
from exogpu.importing.value_proofs import equal
from exogpu.importing.value_rendering import value_text

ARRIVALS, WAITS = "arrivals of ", "waits on "
"""The names of variables that stand for a count begin so; the ring's name follows."""


def is_affine(value: Value) -> bool:
    """Returns whether a value is a sum of multiples of variables, and of divisions of such sums."""
    return all(len(product) <= 1 and all(map(_affine, product)) for product, _ in value.terms)


def _affine(atom: Atom) -> bool:
    match atom:
        case Variable():
            return True
        case Floor() | Remainder():
            return is_affine(atom.term)
        case _:
            return False


def circular_arrays(items: Sequence[role_events.Item]) -> frozenset[str]:
    """The arrays of mbarriers that some event indexes by no affine expression."""
    found: set[str] = set()
    for item in items:
        match item:
            case role_events.Loop():
                found |= circular_arrays(item.body)
            case role_events.Step():
                slot = getattr(item.event, "barrier", None)
                if isinstance(slot, role_events.Slot) and not is_affine(slot.index):
                    found.add(slot.array)
    return frozenset(found)


def count_slots(
    items: tuple[role_events.Item, ...], rings: Mapping[str, int]
) -> tuple[role_events.Item, ...]:
    """The items with counts in place of the slots of the rings, and ticks where waits are over.

    Raises RefusedError (K103) where a slot is no such count.
    """
    for array in rings:
        items = _ticked(items, array)
    for array, depth in rings.items():
        _verify(items, array, depth)
    places = {array: _places(items, array) for array in rings}
    return _replace_events(items, {step: _event(step, places, rings) for step in _steps(items)})


def _steps(items: Sequence[role_events.Item]) -> Iterable[role_events.Step]:
    for item in items:
        match item:
            case role_events.Loop():
                yield from _steps(item.body)
            case role_events.Step():
                yield item


def _ticked(items: tuple[role_events.Item, ...], array: str) -> tuple[role_events.Item, ...]:
    """With a tick after the uses of what each wait waited for: before the next wait or loop."""
    made: list[role_events.Item] = []
    due: role_events.Step | None = None
    for item in items:
        waits = isinstance(item, role_events.Step) and _waits(item.event, array)
        if due is not None and (waits or isinstance(item, role_events.Loop)):
            made.append(replace(due, event=role_events.Tick(array)))
            due = None
        if isinstance(item, role_events.Loop):
            made.append(replace(item, body=_ticked(item.body, array)))
            continue
        made.append(item)
        if waits:
            due = item
    if due is not None:
        made.append(replace(due, event=role_events.Tick(array)))
    return tuple(made)


def _waits(event: role_events.Event, array: str) -> bool:
    return isinstance(event, role_events.Wait) and event.barrier.array == array


def _arrives(event: role_events.Event, array: str) -> bool:
    return (
        isinstance(event, role_events.Expect | role_events.Signal) and event.barrier.array == array
    )


def _ticks(event: role_events.Event, array: str) -> bool:
    return isinstance(event, role_events.Tick) and event.array == array


def _is_event_on(
    kind: Callable[[role_events.Event, str], bool], array: str, event: role_events.Event
) -> bool:
    return kind(event, array)


Places = Mapping[str, Mapping[role_events.Step, Count]]


def _places(items: tuple[role_events.Item, ...], array: str) -> Places:
    """The counts of arrivals and of ticks before each step."""
    kinds = {ARRIVALS: _arrives, WAITS: _ticks}
    return {
        kind + array: counts(items, partial(_is_event_on, one, array)) or {}
        for kind, one in kinds.items()
    }


def _verify(items: tuple[role_events.Item, ...], array: str, depth: int) -> None:
    """Every arrival, load and wait is on the slot that is due."""
    arrived = counts(items, lambda event: _arrives(event, array))
    waited = counts(items, lambda event: _waits(event, array))
    for step in _steps(items):
        slot = getattr(step.event, "barrier", None)
        if not isinstance(slot, role_events.Slot) or slot.array != array:
            continue
        known = waited if isinstance(step.event, role_events.Wait) else arrived
        if known is None or not equal(
            known[step].facts, slot.index, remainder(known[step].before, depth)
        ):
            raise unknown_value(
                f"the slot {value_text(slot.index)} of a ring that runs on is not in turn",
                step.span,
            )


def _event(
    step: role_events.Step, places: Mapping[str, Places], rings: Mapping[str, int]
) -> role_events.Event:
    event = step.event
    changed: dict[str, object] = {}
    for field in fields(event):
        part = getattr(event, field.name)
        match part:
            case Window() if not is_affine(part.first):
                changed[field.name] = _window(part, step, places, rings)
            case tuple() if any(isinstance(one, Window) for one in part):
                changed[field.name] = tuple(
                    one if is_affine(one.first) else _window(one, step, places, rings)
                    for one in part
                )
            case role_events.Slot() if part.array in rings:
                changed[field.name] = replace(part, index=Value())
            case _:
                pass
    return replace(event, **changed) if changed else event  # type: ignore[arg-type]


def _window(
    window: Window, step: role_events.Step, places: Mapping[str, Places], rings: Mapping[str, int]
) -> Window:
    """The window at a count of a ring's arrivals or waits."""
    for array, kinds in places.items():
        for name, known in kinds.items():
            count = known.get(step)
            if count is None or window.slot is None:
                continue
            before, facts = count.before, count.facts
            if equal(facts, window.slot, remainder(before, rings[array])):
                variable = Variable(name, natural=True)
                first = window.first.substitute(_slots(window.slot, atom_value(variable)))
                if first == window.first or not is_affine(first):
                    continue
                return replace(window, first=first)
    raise unknown_value(
        f"the slot {value_text(window.slot or integer_value(0))} counts neither the arrivals on "
        "a ring nor "
        "the waits on it",
        step.span,
    )


def _slots(slot: Value, by: Value) -> dict[Atom, Value]:
    """The slot's one atom, to be replaced."""
    ((product, _),) = slot.terms if len(slot.terms) == 1 else (((), 0),)
    return {product[0]: by} if len(product) == 1 else {}


def _replace_events(
    items: tuple[role_events.Item, ...], found: Mapping[role_events.Step, role_events.Event]
) -> tuple[role_events.Item, ...]:
    made: list[role_events.Item] = []
    for item in items:
        match item:
            case role_events.Loop():
                made.append(replace(item, body=_replace_events(item.body, found)))
            case role_events.Step():
                made.append(replace(item, event=found[item]))
    return tuple(made)
