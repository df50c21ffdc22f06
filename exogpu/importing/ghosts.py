"""Arrivals and waits that balance at a kernel's end.

The language asks that every arrival is awaited; hardware does not.  What is left over is made up
for at the end: waits that nobody executes and that order nothing, and arrivals that nobody waits
for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from exogpu.importing import events as ev
from exogpu.importing.counting import total
from exogpu.importing.proving import counter
from exogpu.importing.rings import steps
from exogpu.importing.usage import Usage, Use
from exogpu.importing.values import (
    TRUE,
    Atom,
    Compare,
    Condition,
    Value,
    compare,
    is_natural,
    of,
    remainder,
    whole,
)

MOST: Final = 32
"""Arrivals that a guard leaves out at most."""


def balanced(
    items: tuple[ev.Item, ...], usage: Usage
) -> tuple[tuple[ev.Item, ...], tuple[str, ...]]:
    """The items with what balances them, and the arrays of mbarriers that needed it."""
    added: list[ev.Item] = []
    arrays: list[str] = []
    for array, use in usage.barriers.items():
        new = list(_left_out(items, array)) or list(_left_over(items, array, use))
        if new:
            added += new
            arrays.append(array)
    added += _last_groups(items)
    return (*items, *added), tuple(arrays)


def _on(event: ev.Event, array: str, element: int | None = None) -> bool:
    slot = getattr(event, "barrier", None)
    if not isinstance(slot, ev.Slot) or slot.array != array:
        return False
    return element is None or slot.index.constant == element


def _elements(items: Sequence[ev.Item], array: str) -> list[int | None]:
    """The elements, where all of their numbers are constants; else None, for all of them."""
    slots = [s.event.barrier for s in steps(items) if isinstance(s.event, _SLOTTED)]
    indices = [one.index.constant for one in slots if one.array == array]
    constant = all(index is not None for index in indices)
    return list(dict.fromkeys(indices)) if constant else [None]


_SLOTTED: Final = (ev.Wait, ev.Signal, ev.Expect)


def _left_out(items: Sequence[ev.Item], array: str) -> Iterator[ev.Item]:
    """The arrivals that a guard leaves out in a loop's first iterations, for the last waits."""
    for loop in items:
        for step in loop.body if isinstance(loop, ev.Loop) else ():
            if not isinstance(step, ev.Step) or not isinstance(step.event, ev.Signal):
                continue
            if step.event.barrier.array != array or step.guard == TRUE:
                continue
            assert isinstance(loop, ev.Loop)
            first = _first(step.guard, loop)
            for at in range(first if first is not None and first <= MOST else 0):
                last: dict[Atom, Value] = {loop.counter: loop.trips + at}
                slot = ev.Slot(array, step.event.barrier.index.replaced(last))
                runs = compare("<=", whole((first or 0) - at) - loop.trips)
                yield replace(step, event=ev.Signal(slot), guard=runs)


def _first(guard: Condition, loop: ev.Loop) -> int | None:
    """The first iteration in which `counter >= c` holds."""
    if not isinstance(guard, Compare) or guard.op != "<=":
        return None
    return (guard.value + of(loop.counter)).constant


def _left_over(items: Sequence[ev.Item], array: str, use: Use) -> Iterator[ev.Item]:
    """As many waits, or arrivals, as there are fewer of one role that waits, or arrives."""
    for element in _elements(items, array):
        yield from _of_element(items, array, use, element)


def _of_element(
    items: Sequence[ev.Item], array: str, use: Use, element: int | None
) -> Iterator[ev.Item]:
    own = [step for step in steps(items) if _on(step.event, array, element)]
    waits = {one.role: one for one in own if isinstance(one.event, ev.Wait)}
    arrivals = {one.role: one for one in own if isinstance(one.event, ev.Signal | ev.Expect)}
    known = [_count(items, array, element, role, _arrives) for role in arrivals]
    if any(one is None or one != known[0] for one in known) or not own:
        return
    slot = ev.Slot(array, whole(element or 0))
    if not waits:
        step = next(iter(arrivals.values()))
        waits = {step.role: replace(step, event=ev.Wait(slot, Value(), Value()))}
    if not arrivals:
        step = next(iter(waits.values()))
        arrivals = {step.role: replace(step, event=ev.Signal(slot))}
    arrived = (known[0] if known else None) or Value()
    for role, wait in waits.items():
        waited = _count(items, array, element, role, _waits)
        if waited is None:
            continue
        if is_natural(arrived - waited):
            yield from _repeated(wait, waited, arrived - waited, use, element)
        elif is_natural(waited - arrived) and len(waits) == 1:
            for arrive in arrivals.values():
                yield from _repeated(arrive, arrived, waited - arrived, use, element)


def _arrives(event: ev.Event) -> bool:
    return isinstance(event, ev.Signal | ev.Expect)


def _waits(event: ev.Event) -> bool:
    return isinstance(event, ev.Wait)


def _count(
    items: Sequence[ev.Item],
    array: str,
    element: int | None,
    role: str,
    kind: Callable[[ev.Event], bool],
) -> Value | None:
    """Counts the events of a kind that a role executes on an array, or on an element of it."""
    mine = _of_role(items, role)
    return total(mine, lambda event: kind(event) and _on(event, array, element))


def _of_role(items: Sequence[ev.Item], role: str) -> list[ev.Item]:
    found: list[ev.Item] = []
    for item in items:
        match item:
            case ev.Loop():
                found.append(replace(item, body=tuple(_of_role(item.body, role))))
            case ev.Step() if item.role == role:
                found.append(item)
            case ev.Step():
                pass
    return found


def _repeated(
    step: ev.Step, before: Value, count: Value, use: Use, element: int | None
) -> Iterator[ev.Item]:
    """So many of a wait or arrival, on the elements whose turn it is."""
    if count == Value():
        return
    event = step.event
    assert isinstance(event, ev.Wait | ev.Signal | ev.Expect)
    number = counter(f"left_{use.label}_{step.role}_{element or 0}")
    (variable,) = number.variables()
    index = whole(element or 0)
    if element is None:
        index = remainder(before + number, use.count)
    slot = ev.Slot(event.barrier.array, index)
    made: ev.Event = ev.Signal(slot)
    if isinstance(event, ev.Wait):
        made = replace(event, barrier=slot, ghost=True)
    elif isinstance(event, ev.Expect):
        made = ev.Expect(slot)
    yield ev.Loop(variable, count, (replace(step, event=made, guard=TRUE),), step.span)


def _last_groups(items: Sequence[ev.Item]) -> Iterator[ev.Item]:
    """Waits for the groups that are under way when the program ends.

    Those of cp.async end with the program, which is an assumption; others order nothing.
    """
    last: dict[tuple[str, str], ev.Step] = {}
    for step in steps(items):
        match step.event:
            case ev.AsyncCommit() | ev.AsyncWait():
                last["cp.async", step.role] = step
            case ev.TmaStore() | ev.TmaStoreWait():
                last["tma", step.role] = step
            case ev.Dot() | ev.DotWait():
                last["wgmma", step.role] = step
            case _:
                pass
    for (kind, _), step in last.items():
        if getattr(step.event, "pending", 1) == 0 and step.guard == TRUE:
            continue
        ends: dict[str, ev.Event] = {
            "cp.async": ev.AsyncWait(0),
            "tma": ev.TmaStoreWait(0, ghost=True),
            "wgmma": ev.DotWait(0, ghost=True),
        }
        yield replace(step, event=ends[kind], guard=TRUE)
