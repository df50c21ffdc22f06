"""Arrivals and waits that balance at a kernel's end.

The language asks that every arrival is awaited; hardware does not.  What is left over is made up
for at the end: waits that nobody executes and that order nothing, and arrivals that nobody waits
for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from exogpu.importing import polynomial_values, role_events
from exogpu.importing.mbarrier_rings import Usage, Use, counts, first_element, steps, total
from exogpu.importing.value_proofs import counter

MOST: Final = 32
"""Arrivals that a guard leaves out at most."""


def balance_arrivals(
    items: tuple[role_events.Item, ...], usage: Usage
) -> tuple[tuple[role_events.Item, ...], tuple[str, ...]]:
    """The items with what balances them, and the arrays of mbarriers that needed it."""
    added: list[role_events.Item] = []
    arrays: list[str] = []
    for array, use in usage.barriers.items():
        if use.scope:
            continue  # it has to balance in each iteration, which is proved
        new = list(_left_out(items, array)) or list(_left_over(items, array, use))
        if new:
            added += new
            arrays.append(array)
    added += _last_groups(items)
    return (*items, *added), tuple(arrays)


def _is_event_on(event: role_events.Event, array: str, element: int | None = None) -> bool:
    slot = getattr(event, "barrier", None)
    if not isinstance(slot, role_events.Slot) or slot.array != array:
        return False
    return element is None or slot.index.constant == element


def _elements(items: Sequence[role_events.Item], array: str) -> list[int | None]:
    """The elements, where all of their numbers are constants; else None, for all of them."""
    slots = [s.event.barrier for s in steps(items) if isinstance(s.event, _SLOTTED)]
    indices = [one.index.constant for one in slots if one.array == array]
    constant = all(index is not None for index in indices)
    return list(dict.fromkeys(indices)) if constant else [None]


_SLOTTED: Final = (role_events.Wait, role_events.Signal, role_events.Expect)


def _left_out(items: Sequence[role_events.Item], array: str) -> Iterator[role_events.Item]:
    """The arrivals that a guard leaves out in a loop's first iterations, for the last waits."""
    for loop in items:
        for step in loop.body if isinstance(loop, role_events.Loop) else ():
            if not isinstance(step, role_events.Step) or not isinstance(
                step.event, role_events.Signal
            ):
                continue
            if step.event.barrier.array != array or step.guard == polynomial_values.TRUE:
                continue
            assert isinstance(loop, role_events.Loop)
            first = _first_iteration(step.guard, loop)
            for at in range(first if first is not None and first <= MOST else 0):
                last: dict[polynomial_values.Atom, polynomial_values.Value] = {
                    loop.counter: loop.trips + at
                }
                slot = role_events.Slot(array, step.event.barrier.index.substitute(last))
                runs = polynomial_values.compare(
                    "<=", polynomial_values.integer_value((first or 0) - at) - loop.trips
                )
                yield replace(step, event=role_events.Signal(slot), guard=runs)


def _first_iteration(guard: polynomial_values.Condition, loop: role_events.Loop) -> int | None:
    """The first iteration in which `counter >= c` holds."""
    if not isinstance(guard, polynomial_values.Compare) or guard.op != "<=":
        return None
    return (guard.value + polynomial_values.atom_value(loop.counter)).constant


def _left_over(
    items: Sequence[role_events.Item], array: str, use: Use
) -> Iterator[role_events.Item]:
    """As many waits, or arrivals, as there are fewer of one role that waits, or arrives."""
    for element in _elements(items, array):
        yield from _of_element(items, array, use, element)


def _of_element(
    items: Sequence[role_events.Item], array: str, use: Use, element: int | None
) -> Iterator[role_events.Item]:
    own = [step for step in steps(items) if _is_event_on(step.event, array, element)]
    waits = {one.role: one for one in own if isinstance(one.event, role_events.Wait)}
    arrivals = {
        one.role: one
        for one in own
        if isinstance(one.event, role_events.Signal | role_events.Expect)
    }
    known = [_count(items, array, element, role, _arrives) for role in arrivals]
    if any(one is None or one != known[0] for one in known) or not own:
        return
    slot = role_events.Slot(array, polynomial_values.integer_value(element or 0))
    if not waits:
        step = next(iter(arrivals.values()))
        waits = {
            step.role: replace(
                step,
                event=role_events.Wait(slot, polynomial_values.Value(), polynomial_values.Value()),
            )
        }
    if not arrivals:
        step = next(iter(waits.values()))
        arrivals = {step.role: replace(step, event=role_events.Signal(slot))}
    arrived = (known[0] if known else None) or polynomial_values.Value()
    for role, wait in waits.items():
        waited = _count(items, array, element, role, _waits)
        if waited is None:
            continue
        if polynomial_values.is_natural(arrived - waited):
            first = waited
            if element is None and (ahead := _ahead(items, array, wait.role, use)):
                # The waits begin so many elements later, and end where the arrivals do.
                same = (arrived - waited).constant == ahead[1]
                first = polynomial_values.integer_value(ahead[0]) if same else waited
            yield from _repeat_step(wait, first, arrived - waited, use, element)
        elif polynomial_values.is_natural(waited - arrived) and len(waits) == 1:
            for arrive in arrivals.values():
                yield from _repeat_step(arrive, arrived, waited - arrived, use, element)


def _is_kind_on(
    kind: Callable[[role_events.Event], bool], array: str, event: role_events.Event
) -> bool:
    return kind(event) and _is_event_on(event, array)


def _ahead(
    items: Sequence[role_events.Item], array: str, waiter: str, use: Use
) -> tuple[int, int] | None:
    """The element on which arrivals begin, and how many elements later the waits of a role do."""
    starts = []
    for kind in (_arrives, _waits):
        own = [s for s in steps(items) if kind(s.event) and _is_event_on(s.event, array)]
        role = waiter if kind is _waits else own[0].role if own else ""
        events = [(s, s.event) for s in own if s.role == role]
        known = counts(_of_role(items, role), partial(_is_kind_on, kind, array))
        first = None if known is None else first_element(events, known, use.count)
        if first is None:
            return None
        starts.append(first)
    return starts[0], (starts[1] - starts[0]) % use.count


def _arrives(event: role_events.Event) -> bool:
    return isinstance(event, role_events.Signal | role_events.Expect)


def _waits(event: role_events.Event) -> bool:
    return isinstance(event, role_events.Wait)


def _count(
    items: Sequence[role_events.Item],
    array: str,
    element: int | None,
    role: str,
    kind: Callable[[role_events.Event], bool],
) -> polynomial_values.Value | None:
    """Counts the events of a kind that a role executes on an array, or on an element of it."""
    mine = _of_role(items, role)
    return total(mine, lambda event: kind(event) and _is_event_on(event, array, element))


def _of_role(items: Sequence[role_events.Item], role: str) -> list[role_events.Item]:
    found: list[role_events.Item] = []
    for item in items:
        match item:
            case role_events.Loop():
                found.append(replace(item, body=tuple(_of_role(item.body, role))))
            case role_events.Step() if item.role == role:
                found.append(item)
            case role_events.Step():
                pass
    return found


def _repeat_step(
    step: role_events.Step,
    before: polynomial_values.Value,
    count: polynomial_values.Value,
    use: Use,
    element: int | None,
) -> Iterator[role_events.Item]:
    """So many of a wait or arrival, on the elements whose turn it is."""
    if count == polynomial_values.Value():
        return
    event = step.event
    assert isinstance(event, role_events.Wait | role_events.Signal | role_events.Expect)
    number = counter(f"left_{use.label}_{step.role}_{element or 0}")
    (variable,) = number.variables()
    index = polynomial_values.integer_value(element or 0)
    if element is None:
        index = polynomial_values.remainder(before + number, use.count)
    slot = role_events.Slot(event.barrier.array, index)
    made: role_events.Event = role_events.Signal(slot)
    if isinstance(event, role_events.Wait):
        lag = event.lag if event.lag is not None and event.lag.constant is not None else None
        made = replace(event, barrier=slot, lag=lag or polynomial_values.Value(), ghost=True)
    elif isinstance(event, role_events.Expect):
        made = role_events.Expect(slot)
    yield role_events.Loop(
        variable, count, (replace(step, event=made, guard=polynomial_values.TRUE),), step.span
    )


def _last_groups(items: Sequence[role_events.Item]) -> Iterator[role_events.Item]:
    """Waits for the groups that are under way when the program ends.

    Those of cp.async end with the program, which is an assumption; others order nothing.
    """
    last: dict[tuple[str, str], role_events.Step] = {}
    for step in steps(items):
        match step.event:
            case role_events.AsyncCommit() | role_events.AsyncWait():
                last["cp.async", step.role] = step
            case role_events.TmaStore() | role_events.TmaStoreWait():
                last["tma", step.role] = step
            case role_events.Dot() | role_events.DotWait():
                last["wgmma", step.role] = step
            case _:
                pass
    for (kind, _), step in last.items():
        if getattr(step.event, "pending", 1) == 0 and step.guard == polynomial_values.TRUE:
            continue
        ends: dict[str, role_events.Event] = {
            "cp.async": role_events.AsyncWait(0),
            "tma": role_events.TmaStoreWait(0, ghost=True),
            "wgmma": role_events.DotWait(0, ghost=True),
        }
        yield replace(step, event=ends[kind], guard=polynomial_values.TRUE)
